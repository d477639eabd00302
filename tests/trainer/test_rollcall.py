"""`trainer.rollcall`: the talking, in threads over a store in memory, where every order of events can be had."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest

from trainer.errors import DataError, RollCallError, Stopped, TrainerError
from trainer.muster import Entry
from trainer.rollcall import Caller, Meeting, Roll
from trainer.stop import StopSignal
from trainer.world import Seat

if TYPE_CHECKING:
    from collections.abc import Iterator


class Memory:
    """A store in this process; `add` answers as torch's does."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[str, int] = defaultdict(int)
        self._texts: dict[str, str] = {}

    def add(self, key: str, amount: int, /) -> int:
        with self._lock:
            self._counts[key] += amount
            return self._counts[key]

    def check(self, keys: list[str], /) -> bool:
        with self._lock:
            return all(key in self._texts for key in keys)

    def get(self, key: str, /) -> bytes:
        with self._lock:
            return self._texts[key].encode()

    def set(self, key: str, value: str, /) -> None:
        with self._lock:
            self._texts[key] = value


@dataclass
class Hall:
    """Where a test holds its roll call."""

    pool: ThreadPoolExecutor
    store: Memory = field(default_factory=Memory)
    stops: list[StopSignal] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def come(self, rank: int, world: int, *, host: str = "", timeout: float = 30, **more: object) -> Future[Roll]:
        """A process takes part."""
        stop = StopSignal()
        self.stops.append(stop)
        seat = Seat(rank, world, 0, 1, None, None, "test")
        meeting = Meeting(seat, stop, timeout, strict=False, say=lambda _, *, message: self.said.append(message))
        entry = replace(Entry(rank, world, host or f"pod-{rank}", 1, settings="{}"), **more)  # type: ignore[arg-type]  # any
        caller = Caller(self.store, entry, meeting)
        return self.pool.submit((lambda: caller.lead(lambda: "a hint")) if rank == 0 else caller.follow)


@pytest.fixture(name="hall")
def _hall() -> Iterator[Hall]:
    with ThreadPoolExecutor(8) as pool:
        hall = Hall(pool)
        yield hall
        for stop in hall.stops:
            stop.request()


def error(future: Future[Roll]) -> TrainerError:
    found = future.exception(60)
    assert isinstance(found, TrainerError), found
    return found


def test_all_get_the_same_roll(hall: Hall) -> None:
    """Whoever comes first: everybody learns of everybody, in order of rank."""
    late = [hall.come(rank, 3) for rank in (2, 1)]
    time.sleep(0.3)
    for future in (hall.come(0, 3), *late):
        roll = future.result(60)
        assert [entry.host for entry in roll.entries] == ["pod-0", "pod-1", "pod-2"]
        assert roll.tick() is None


def test_missing_rank_ends_the_wait(hall: Hall) -> None:
    """Rank 0 lists who is missing when time is up, and the others hear it from rank 0."""
    futures = [hall.come(rank, 4, timeout=1) for rank in (0, 2)]
    for future in futures:
        assert "ranks 1, 3 of 4 did not answer" in str(error(future))
        assert "a hint" in str(error(future))


def test_duplicate_is_seen_while_the_roll_is_incomplete(hall: Hall) -> None:
    """Two processes of one rank that both go on living, while others are still awaited."""
    for future in [hall.come(0, 3), hall.come(1, 3, host="a"), hall.come(1, 3, host="b")]:
        assert "duplicate rank 1: " in str(error(future))


def test_duplicate_that_comes_late_ends_the_running_job(hall: Hall) -> None:
    """The roll is complete without it and training has begun: it ends itself, and the next tick of the others too."""
    rolls = [hall.come(0, 2), hall.come(1, 2)]
    running = [future.result(60) for future in rolls]
    late = hall.come(1, 2, host="late")
    said = None
    until = time.monotonic() + 60
    while said is None and time.monotonic() < until:
        time.sleep(0.1)
        _, said = running[1].tick(), running[0].tick()
    assert "duplicate rank 1: pod-1 pid 1 and late pid 1" in str(error(late))
    assert said == str(error(late))
    assert running[1].late() == said


def test_late_process_of_another_world(hall: Hall) -> None:
    """A process that believes in more ranks comes after the roll is complete: both sides end."""
    running = hall.come(0, 1).result(60)
    assert "world sizes disagree: 1 on rank 0 (pod-0 pid 1), 2 on rank 1" in str(error(hall.come(1, 2)))
    time.sleep(1.1)
    assert "world sizes disagree" in (running.tick() or "")


def test_late_process_whose_place_is_dead_waits(hall: Hall) -> None:
    """A restarted pod is not taken for a duplicate of what it was before; it waits for the old run to end."""
    for future in [hall.come(0, 2), hall.come(1, 2)]:
        future.result(60)  # and no tick ever again
    assert "neither goes on nor ends" in str(error(hall.come(1, 2, timeout=1)))


def test_restarted_pod_takes_its_place(hall: Hall) -> None:
    """A pod that was told to stop while others were awaited, and came again, is one pod."""
    first = [hall.come(0, 3), hall.come(1, 3, host="old")]
    time.sleep(0.5)
    hall.stops[1].request()
    assert isinstance(error(first[1]), Stopped)
    again = [hall.come(1, 3, host="new"), hall.come(2, 3)]
    for future in (first[0], *again):
        assert [entry.host for entry in future.result(60).entries] == ["pod-0", "new", "pod-2"]


def test_fault_of_one_ends_all_with_its_code(hall: Hall) -> None:
    """Code 3 where data is missing, on the ranks that have it too."""
    for future in [hall.come(0, 3), hall.come(1, 3, fault=(3, "no data"))]:
        assert isinstance(error(future), DataError)
        assert "rank 1 (pod-1 pid 1) can't take part: no data" in str(error(future))


def test_silence_of_rank_0_ends_the_wait(hall: Hall) -> None:
    """A rank 0 that opened the store and died leaves nobody waiting for ever."""
    assert "rank 0 gave no verdict" in str(error(hall.come(1, 2, timeout=0.1)))


def test_verdict_that_was_bad_stays_bad(hall: Hall) -> None:
    """Who comes after a roll call that failed hears why it did."""
    assert "rank 1 of 2 did not answer" in str(error(hall.come(0, 2, timeout=0.3)))
    assert isinstance(error(hall.come(1, 2)), RollCallError)
    assert "rank 1 of 2 did not answer" in str(error(hall.come(1, 2)))


def test_a_long_wait_is_told(hall: Hall, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every ten seconds rank 0 says who is awaited."""
    monkeypatch.setattr("trainer.rollcall.SAY", 0.2)
    error(hall.come(0, 3, timeout=1))
    assert "ranks 1-2 (1 of 3 are here)" in hall.said

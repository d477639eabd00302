"""When a run is over: processes that do something, or want to, are never taken for a hang."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
import uuid
from typing import TYPE_CHECKING

import pytest

from conformance import watch
from conformance.activity import Activity, Usage, alive
from conformance.budget import Budget
from conformance.watch import Sampler, Stillness
from demo.leftovers import MARK

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BUSY, IDLE = "while True: pass", "import time; time.sleep(600)"


class Samples(Sampler):
    """What a sampler would have seen, second by second."""

    def __init__(self) -> None:
        super().__init__()
        self.now, self.usage = 0.0, Usage(2, 1.0)

    def of(self, mark: str) -> tuple[float, Usage]:
        assert mark == "run"
        return self.now, self.usage

    def after(self, seconds: float, processes: int = 2, used: float = 0.0, waited: float = 0.0) -> None:
        self.now += seconds
        self.usage = Usage(processes, self.usage.seconds + used, self.usage.waited + waited)


@pytest.fixture(name="samples")
def _samples() -> Samples:
    return Samples()


@pytest.fixture(name="still")
def _still(samples: Samples, tmp_path: Path) -> Stillness:
    return Stillness(samples, "run", tmp_path, began=0.0)


def pass_by(samples: Samples, still: Stillness, count: int, used: float = 0.0) -> float:
    for _ in range(count):
        samples.after(1, used=used)
        still.seconds()
    return still.seconds()


def test_seconds_without_a_movement(samples: Samples, still: Stillness) -> None:
    """They are counted from the last look at which something had moved."""
    assert still.seconds() == 0
    assert pass_by(samples, still, 4, used=0.5) == 0
    assert pass_by(samples, still, 3) == 3
    assert still.moved() == 4


@pytest.mark.parametrize("what", ["cpu", "no cpu", "process", "log", "record"])
def test_what_counts_as_a_movement(what: str, samples: Samples, still: Stillness, tmp_path: Path) -> None:
    """CPU time used or waited for, a process that comes or goes, a line in a log, a record."""
    assert pass_by(samples, still, 5) == 4
    folder = tmp_path / ("records" if what == "record" else "pod-1")
    folder.mkdir()
    if what in ("log", "record"):
        (folder / "x.log").write_text("line\n", encoding="utf-8")
    used, waited = (0.4 if what == "cpu" else 0), (0.6 if what == "no cpu" else 0)
    samples.after(1, processes=3 if what == "process" else 2, used=used, waited=waited)
    assert still.seconds() == 0


def test_a_slow_machine_gets_more_time(samples: Samples, still: Stillness) -> None:
    """Who tried for a minute to reach the others waits longer between two tries."""
    pass_by(samples, still, 60, used=0.5)
    pass_by(samples, still, 10)
    assert not still.enough(watch.QUIET)
    pass_by(samples, still, 35)
    assert still.enough(watch.QUIET)


def test_a_launcher_that_looks_now_and_then_is_still(samples: Samples, still: Stillness) -> None:
    """Agents ask ten times a second how their processes are, and don't get a CPU at once on a busy machine."""
    for _ in range(8):
        samples.after(1, used=0.03, waited=0.3)
        still.seconds()
    assert still.seconds() == 7
    assert still.enough(watch.QUIET)


@pytest.fixture(name="marked")
def _marked() -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    marks = {f"{kind}-{uuid.uuid4().hex}": program for kind, program in (("busy", BUSY), ("idle", IDLE))}
    started = {
        mark: subprocess.Popen([sys.executable, "-c", program], env={**os.environ, MARK: f"{mark}/pod"})
        for mark, program in marks.items()
    }
    yield started
    for process in started.values():
        process.kill()
        process.wait()


def wanted(usage: Usage) -> float:
    """Seconds of a CPU, or of waiting for one on a busy machine."""
    return usage.seconds + usage.waited


def test_processes_are_told_apart_by_their_marks(marked: dict[str, subprocess.Popen[bytes]]) -> None:
    """One pass sees all runs; the CPU that a process had or waited for grows, and that of a sleeping one doesn't."""
    busy, idle = marked
    seen = {mark: Usage() for mark in marked}
    deadline = time.monotonic() + 30
    with Sampler() as sampler:
        while time.monotonic() < deadline:
            time.sleep(watch.PERIOD)
            before, seen = seen, {mark: sampler.of(mark)[1] for mark in marked}
            grown = {mark: wanted(seen[mark]) - wanted(before[mark]) for mark in marked}
            if grown[busy] > 0.3 > 10 * grown[idle] and seen[idle].processes == 1:  # both have started
                break
        else:
            pytest.fail(f"no difference between them: {seen}")
    assert seen[busy].processes == 1
    assert sampler.stopped


def test_a_process_that_has_ended_is_none(marked: dict[str, subprocess.Popen[bytes]]) -> None:
    """Also while its parent hasn't asked how it ended."""
    process = next(iter(marked.values()))
    assert alive(process.pid)
    process.kill()
    deadline = time.monotonic() + 10
    while alive(process.pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not alive(process.pid)
    process.wait()
    assert not alive(process.pid)
    assert f"{process.args!r}" not in Activity().sample()


def test_the_budget_is_kept_and_given_back() -> None:
    """A run waits for its place, one that moves no more lends it out, and a large one runs when nothing moves."""
    budget, order = Budget(4), list[str]()
    with budget.place(3) as moving:
        other = threading.Thread(target=_take, args=(budget, 9, order))
        other.start()
        order.append("first")
        moving(True)
        moving(False)
        other.join(10)
        moving(True)
        order.append("first again")
    assert order == ["first", "other", "first again"]
    with budget.place(4):
        pass


def _take(budget: Budget, weight: int, order: list[str]) -> None:
    with budget.place(weight):
        order.append("other")

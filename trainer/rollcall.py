"""The roll call: before any collective, every process says who it is, and rank 0 judges.

torch itself does not notice two processes of one rank (it trains with whichever came first), says how many
ranks are missing but not which, and can hang beyond all time-outs when world sizes differ.

In the store, below one prefix: `seq` counts entries, `entry/N` is what the N-th process said, `beat/N` grows as
long as it lives, `verdict` is rank 0's judgement, `late` what a process found that came after it.
Beats tell a duplicate from a pod that was restarted while the others still waited: only the former go on twice.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from trainer import muster
from trainer.errors import RollCallError, Stopped, error_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from trainer.muster import Entry, Verdict
    from trainer.stop import StopSignal
    from trainer.world import Seat

DOUBLE = 2  # beats that tell a living process from a leftover

PAUSE = 0.1  # seconds between two looks at the store
SETTLE = 1.0  # a conflict is announced only then, so that it names everybody it concerns
FRESH = 5.0  # an entry without a beat for so long belongs to a dead process
READ = 10.0  # seconds at most for the others to read a verdict that ends the job
TICK = 1.0  # seconds between beats while training
STRAY = 3.0  # seconds between rank 0's looks whether the others may be meeting elsewhere
SAY = 10.0  # seconds between two lines about who is awaited


class Store(Protocol):
    """What is used of torch's stores."""

    def add(self, key: str, amount: int, /) -> int: ...

    def check(self, keys: list[str], /) -> bool: ...

    def get(self, key: str, /) -> bytes: ...

    def set(self, key: str, value: str, /) -> None: ...


class Say(Protocol):
    """Where news of a long wait goes: a report's `event`."""

    def __call__(self, name: str, /, *, message: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Meeting:
    """What a process brings along to find the others."""

    seat: Seat
    stop: StopSignal
    timeout: float
    strict: bool
    say: Say
    listen_fd: int | None = None


class Elsewhere(Exception):  # no error, see meet.py
    """MASTER_ADDR leads to another process of rank 0: the roll call is held there."""


@dataclass(slots=True)
class _Presence:
    entry: Entry
    beat: int
    seen: float  # when the beat last moved
    beats: int = 0  # how often it has


class Roll:
    """An accepted roll call, and this process's entry in it."""

    def __init__(self, store: Store, number: int, entries: tuple[Entry, ...], verdict: Verdict) -> None:
        self.store, self.entries, self.verdict = store, entries, verdict
        self._number = number
        self._ticked = 0.0

    def tick(self) -> str | None:
        """Shows that this process lives; tells what is wrong if a process came too late and does not fit in."""
        now = time.monotonic()
        if now - self._ticked < TICK:
            return None
        self._ticked = now
        self.store.add(f"beat/{self._number}", 1)
        return self.late() if self.store.check(["late"]) else None

    def late(self) -> str:
        """What the process that came too late has found."""
        return self.store.get("late").decode()


class Caller:
    """One process's part in the roll call."""

    def __init__(self, store: Store, entry: Entry, meeting: Meeting) -> None:
        self._store, self._entry, self._meeting = store, entry, meeting
        self._timeout = meeting.timeout
        self._started = self._said = time.monotonic()
        self._number = 0
        self._listeners = 0  # living processes that wait for this one's verdict

    def lead(self, strayed: Callable[[], str | None]) -> Roll:
        """Rank 0's part: waits for everybody, judges, publishes.

        `strayed` says why this may not be the store that the others meet at, once they stay away.
        """
        self._register()
        verdict = self._gather(strayed)
        self._store.set("verdict", verdict.to_json())
        if verdict.code:
            self._wait_until_read()
        return self._accept(verdict)

    def follow(self) -> Roll:
        """Everybody else's part: waits for the verdict."""
        if self._store.check(["verdict"]):
            self._come_late(muster.verdict_from_json(self._store.get("verdict")))
        self._register()
        while not self._store.check(["verdict"]):
            # Rank 0 speaks when time is up; who hears nothing even then has lost it.
            if self._waited() > self._timeout + FRESH:
                raise RollCallError(f"rank 0 gave no verdict on the roll call within {self._waited():.0f} s")
            self._pause()
        verdict = muster.verdict_from_json(self._store.get("verdict"))
        self._store.add("read", 1)
        return self._accept(verdict)

    def _register(self) -> None:
        self._number = self._store.add("seq", 1)
        self._store.set(f"entry/{self._number}", self._entry.to_json())

    def _gather(self, strayed: Callable[[], str | None]) -> Verdict:
        known: dict[int, _Presence] = {}
        since: float | None = None  # when the present conflict was first seen
        hint, hinted = None, self._started
        while True:
            self._look(known)
            alive = {number: one for number, one in known.items() if time.monotonic() - one.seen < FRESH}
            self._listeners = len(alive) - 1
            verdict = muster.conflict([one.entry for one in alive.values()], _duplicates(alive))
            since = (since or time.monotonic()) if verdict else None
            if verdict and since and time.monotonic() - since > SETTLE:
                return verdict
            holders = {one.entry.rank: number for number, one in alive.items()}
            if not verdict and len(holders) == len(alive) == self._entry.world_size:
                numbers = [holders[rank] for rank in sorted(holders)]
                return muster.accept([alive[number].entry for number in numbers], numbers, strict=self._meeting.strict)
            present = [one.entry for one in alive.values()]
            if time.monotonic() - hinted > min(STRAY, self._timeout / 2):
                hint, hinted = strayed(), time.monotonic()
            if self._waited() > self._timeout:
                return muster.missing(present, self._entry.world_size, self._waited(), f"; {hint}" if hint else "")
            self._tell(present)
            self._pause()

    def _look(self, known: dict[int, _Presence]) -> None:
        now = time.monotonic()
        for number in range(1, self._store.add("seq", 0) + 1):
            if number not in known:
                if self._store.check([f"entry/{number}"]):
                    entry = muster.entry_from_json(self._store.get(f"entry/{number}"))
                    known[number] = _Presence(entry, self._store.add(f"beat/{number}", 0), now)
                continue
            one, beat = known[number], self._store.add(f"beat/{number}", 0)
            if self._store.check([f"gone/{number}"]):
                one.seen = now - FRESH
            elif beat != one.beat:
                one.beat, one.seen, one.beats = beat, now, one.beats + 1

    def _come_late(self, verdict: Verdict) -> None:
        """The others have begun without this process: it is one too many, unless the one in its place is dead."""
        if verdict.code:
            raise error_for(verdict.code, verdict.sentence)
        holder, rank = verdict.holders, self._entry.rank
        if self._entry.world_size != len(holder) or rank >= len(holder):
            first = muster.entry_from_json(self._store.get(f"entry/{holder[0]}"))
            odd = muster.conflict([first, self._entry])
            self._object(odd.sentence if odd else f"rank {rank} ({self._entry}) came too late")
        other = muster.entry_from_json(self._store.get(f"entry/{holder[rank]}"))
        seen = self._store.add(f"beat/{holder[rank]}", 0)
        while self._store.add(f"beat/{holder[rank]}", 0) < seen + DOUBLE:
            if self._waited() > self._timeout:
                raise RollCallError(
                    f"rank {rank} has answered already ({other}), and its run neither goes on nor ends; end it first"
                )
            self._pause(beat=False)
        self._object(muster.duplicate(other, self._entry))

    def _object(self, sentence: str) -> None:
        """Tells the running job, so that both sides end with the same sentence."""
        self._store.set("late", sentence)
        raise RollCallError(sentence)

    def _accept(self, verdict: Verdict) -> Roll:
        if verdict.code:
            raise error_for(verdict.code, verdict.sentence)
        entries = tuple(muster.entry_from_json(self._store.get(f"entry/{number}")) for number in verdict.holders)
        if self._number not in verdict.holders:
            self._come_late(verdict)
        return Roll(self._store, self._number, entries, verdict)

    def _wait_until_read(self) -> None:
        """Rank 0 keeps the store: were it to leave first, the others would hear of a lost connection instead."""
        until = time.monotonic() + READ
        while self._store.add("read", 0) < self._listeners and time.monotonic() < until:
            time.sleep(PAUSE / 10)

    def _tell(self, present: list[Entry]) -> None:
        if time.monotonic() - self._said < SAY:
            return
        self._said = time.monotonic()
        absent = set(range(self._entry.world_size)) - {entry.rank for entry in present}
        here = self._entry.world_size - len(absent)
        message = f"{muster.ranks(absent)} ({here} of {self._entry.world_size} are here)"
        self._meeting.say("waiting", message=message)

    def _pause(self, *, beat: bool = True) -> None:
        if self._meeting.stop.requested:
            self._store.set(f"gone/{self._number}", "")
            raise Stopped("stopped before training began; there is nothing to save")
        if beat:
            self._store.add(f"beat/{self._number}", 1)
        time.sleep(PAUSE)

    def _waited(self) -> float:
        return time.monotonic() - self._started


def _duplicates(alive: dict[int, _Presence]) -> list[tuple[Entry, Entry]]:
    """Pairs of entries of one rank that both go on living; a dead one's beat has stopped."""
    by_rank: dict[int, list[_Presence]] = {}
    for one in alive.values():
        by_rank.setdefault(one.entry.rank, []).append(one)
    pairs = [(group[0], group[1]) for group in by_rank.values() if len(group) > 1]
    return [(first.entry, second.entry) for first, second in pairs if _both_live(first, second)]


def _both_live(first: _Presence, second: _Presence) -> bool:
    # `first` must have moved after `second` was there, or it may be what `second` was restarted from.
    return second.beats >= DOUBLE and first.seen >= second.seen - 3 * PAUSE and first.beats >= DOUBLE

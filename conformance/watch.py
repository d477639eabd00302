"""When a run is over: all has ended, somebody crashed and the others only wait, nothing moves, or the time is up."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from conformance.activity import Activity, Usage

if TYPE_CHECKING:
    from pathlib import Path

PERIOD = 0.5  # seconds between two looks at all processes
QUIET = 6.0  # seconds without any movement
OF_AGE = (
    0.7  # and this part of what the run has taken so far: who waits for a slow machine tries again ever more rarely
)
AFTER_CRASH = 1.5
# Of a CPU: launchers look after their processes ten times a second, and wait for a busy one each time. Who has work to
# do waits for it all the time.
_IDLE, _IDLE_EACH = 0.05, 0.02
_WAITS, _WAITS_EACH = 0.5, 0.15


@dataclass(slots=True)
class Sampler:
    """Looks at the processes of all runs, in a thread of its own."""

    activity: Activity = field(default_factory=Activity)
    _latest: dict[str, Usage] = field(default_factory=dict)
    _at: float = 0.0
    _stopped: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        if self._thread is not None:
            self._thread.join()

    def stop(self) -> None:
        """No more looks; whoever waits for one had better end."""
        self._stopped.set()

    @property
    def stopped(self) -> bool:
        """Whether somebody said so."""
        return self._stopped.is_set()

    def _run(self) -> None:
        while not self._stopped.wait(PERIOD):
            self._latest, self._at = self.activity.sample(), time.monotonic()

    def of(self, mark: str) -> tuple[float, Usage]:
        """When it looked last, and what it saw of one run."""
        return self._at, self._latest.get(mark, Usage())


@dataclass(slots=True)
class Stillness:
    """For how long nothing has moved in a run: no CPU time used or wanted, no process come or gone, nothing written."""

    sampler: Sampler
    mark: str
    folder: Path
    began: float = field(default_factory=time.monotonic)
    since: float | None = None
    _seen: tuple[float, Usage, int] | None = None

    def seconds(self) -> float:
        """0 while it moves."""
        at, usage = self.sampler.of(self.mark)
        if at <= self.began:
            return 0.0
        if self._seen is None or at > self._seen[0]:
            self._look(at, usage, written(self.folder))
        return 0.0 if self.since is None else max(0.0, at - self.since)

    def _look(self, at: float, usage: Usage, size: int) -> None:
        if self._seen is not None:
            before, old, had = self._seen
            moves = size != had or _works(old, usage, at - before)
            self.since = None if moves else self.since if self.since is not None else before
        self._seen = (at, usage, size)

    def moved(self) -> float:
        """The seconds that the run moved for."""
        return (self.since or self.began) - self.began

    def enough(self, quiet: float) -> bool:
        """Whether that is a hang: still for `quiet` seconds, and for a part of what the run took until then."""
        return self.seconds() >= max(quiet, OF_AGE * self.moved())


def _works(old: Usage, new: Usage, elapsed: float) -> bool:
    """Whether processes came, went, computed, or would have if there had been a CPU."""
    idle = (_IDLE + _IDLE_EACH * new.processes) * elapsed
    waits = max(_WAITS, _WAITS_EACH * new.processes) * elapsed
    return new.processes != old.processes or new.seconds - old.seconds > idle or new.waited - old.waited > waits


def written(folder: Path) -> int:
    """The bytes of all logs and records below a folder, which grow while something is written."""
    total = 0
    for pattern in ("*/*.log", "records/*"):
        for path in folder.glob(pattern):
            total += path.stat().st_size
    return total

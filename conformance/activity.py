"""What the processes of many runs are doing, read from /proc in one pass for all of them.

A process that waits for the CPU is as busy as one that has it: a slow machine is never taken for a hanging job.
"""

from __future__ import annotations

import contextlib
import os
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from demo.leftovers import MARK

if TYPE_CHECKING:
    from collections.abc import Iterator

_PROC = Path("/proc")
_NANOSECONDS = 1e9
_TICKS = os.sysconf("SC_CLK_TCK")
_PREFIX = f"{MARK}=".encode()


@dataclass(frozen=True, slots=True)
class Usage:
    """Of all processes with one mark: how many, and the seconds that they had a CPU, and that they waited for one."""

    processes: int = 0
    seconds: float = 0.0
    waited: float = 0.0

    def plus(self, pid: int) -> Usage:
        """One more process."""
        return Usage(self.processes + 1, self.seconds + _seconds(pid), self.waited + _waited(pid))


@dataclass(slots=True)
class Activity:
    """Samples when asked; ask often, since a process that has ended takes its seconds along."""

    _marks: dict[int, str] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def sample(self) -> dict[str, Usage]:
        """By the part of the mark before the slash, which is one run's."""
        with self._lock:
            seen: dict[int, str] = {}
            found: dict[str, Usage] = {}
            for pid in _pids():
                mark = self._marks.get(pid) or _mark(pid)
                if mark:
                    seen[pid] = mark
                    found[mark] = found.get(mark, Usage()).plus(pid)
            self._marks = seen  # a mark is inherited and survives an exec, so it needs reading once
            return found


def _pids() -> Iterator[int]:
    return (int(entry.name) for entry in os.scandir(_PROC) if entry.name.isdigit())


def _mark(pid: int) -> str:
    with contextlib.suppress(OSError):  # ended meanwhile, or somebody else's
        for entry in (_PROC / str(pid) / "environ").read_bytes().split(b"\0"):
            if entry.startswith(_PREFIX):
                return entry.removeprefix(_PREFIX).split(b"/")[0].decode()
    return ""


def _seconds(pid: int) -> float:
    """CPU time of all threads."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        fields = (_PROC / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS
    return 0.0


def alive(pid: int) -> bool:
    """Whether a process is there, and hasn't ended; one that has may stay listed until somebody asks how."""
    with contextlib.suppress(OSError, IndexError):
        return (_PROC / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()[0] != b"Z"
    return False


def _waited(pid: int) -> float:
    """The time that the first thread was ready and got no CPU; nothing, where the kernel doesn't count it."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int((_PROC / str(pid) / "schedstat").read_bytes().split()[1]) / _NANOSECONDS
    return 0.0

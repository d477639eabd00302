"""Ends processes for certain: by a mark in their environment, which children inherit wherever they go.

A process group isn't enough: torchrun puts its workers into sessions of their own.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

MARK = "RANKFIX_LOCAL_POD"
_ROUNDS = 100  # a process may start another one while we look


def marked(mark: str) -> list[int]:
    """The processes, of those we may look at, that were started with this mark and haven't ended."""
    wanted = f"{MARK}={mark}".encode()
    return [pid for pid, environ in _environments() if wanted in environ.split(b"\0")]


def _environments() -> Iterator[tuple[int, bytes]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):  # ended meanwhile, or somebody else's
                yield int(entry.name), (entry / "environ").read_bytes()


def end(mark: str, *, grace: float) -> bool:
    """Ask the marked processes to stop, and after `grace` seconds make them; whether none is left."""
    _signal(marked(mark), signal.SIGTERM)
    deadline = time.monotonic() + grace
    while marked(mark) and time.monotonic() < deadline:
        time.sleep(0.05)
    for _ in range(_ROUNDS):
        left = marked(mark)
        if not left:
            return True
        _signal(left, signal.SIGKILL)
        time.sleep(0.05)
    return False


def _signal(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)

"""The one owner of signals in a training process: SIGTERM asks it to stop, a second one ends it.

A thread watches, because Python's own handlers run only between two bytecodes of the main thread, and
that thread may sit in a collective for minutes. The thread never touches torch.
"""

from __future__ import annotations

import os
import selectors
import signal
import socket
import sys
import threading
import time
from typing import TYPE_CHECKING

from trainer.errors import PeerLost, Stopped

if TYPE_CHECKING:
    from collections.abc import Callable

SIGNALS = (signal.SIGTERM, signal.SIGINT)
PATIENCE = 10.0  # seconds from the first signal until the process ends even if no step boundary comes


class StopSignal:
    """Whether somebody has asked this process to stop. `install` once, in the main thread."""

    def __init__(self, *, parent: int | None = None, leave: Callable[[int, str], None] | None = None) -> None:
        self._parent = parent  # read end of a pipe that the parent holds open as long as it lives
        self._leave = leave or leave_at_once
        self._asked = threading.Event()

    @property
    def requested(self) -> bool:
        """True from the first SIGTERM or SIGINT on."""
        return self._asked.is_set()

    def request(self) -> None:
        """Asks this process to stop, as a signal would."""
        self._asked.set()

    def install(self) -> None:
        """Takes the signals over. As PID 1 a process ignores every signal that it has no handler for."""
        reader, writer = socket.socketpair()
        writer.setblocking(False)
        # Detached: the kernel's handler writes to it as long as the process lives.
        signal.set_wakeup_fd(writer.detach(), warn_on_full_buffer=False)
        for number in SIGNALS:
            signal.signal(number, _only_wake)
        threading.Thread(target=self._watch, args=(reader,), name="stop-signal", daemon=True).start()

    def _watch(self, reader: socket.socket) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(reader, selectors.EVENT_READ)
            if self._parent is not None:
                selector.register(self._parent, selectors.EVENT_READ)
            deadline: float | None = None
            while True:
                left = None if deadline is None else max(0.0, deadline - time.monotonic())
                ready = {key.fileobj for key, _ in selector.select(left)}
                if self._parent in ready:
                    self._leave(PeerLost.code, "the process that started this one is gone")
                if deadline is not None and not ready:
                    self._leave(Stopped.code, f"stopped in the middle of a step: none ended within {PATIENCE:.0f} s")
                for _ in range(_signals(reader) if reader in ready else 0):
                    if self._asked.is_set():
                        self._leave(Stopped.code, "stopped at once by a second signal; the last checkpoint stands")
                    self._asked.set()
                    deadline = time.monotonic() + PATIENCE


def _signals(reader: socket.socket) -> int:
    return sum(number in SIGNALS for number in reader.recv(64))


def leave_at_once(code: int, sentence: str) -> None:
    """Ends the process now: no destructor of a process group may block it."""
    sys.stderr.write(f"rankfix-train: {sentence}\n")
    sys.stderr.flush()
    os._exit(code)


def _only_wake(number: int, frame: object) -> None:
    """The byte in the wake-up socket is all that's wanted; the watching thread reads it."""

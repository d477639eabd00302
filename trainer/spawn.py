"""The parent of a pod's processes: starts one a rank, passes signals on, reaps, and ends with the right code.

It works as PID 1: it waits for signals instead of handling them, and reaps orphans that are not its own.
Imports no torch, so that a pod pays for it only in the processes that use it.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainer.errors import FINISHED, DataError, LaunchError, PeerLost, Stopped, TargetMissed
from trainer.world import Address, Launch, child_env

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

LISTEN_FD = "RANKFIX_TRAINER_LISTEN_FD"  # a listening socket for rank 0: no other process can take the port meanwhile
PARENT_FD = "RANKFIX_TRAINER_PARENT_FD"  # read end of a pipe: closed when the parent is gone
STOPS = (signal.SIGTERM, signal.SIGINT)
WATCHED = (*STOPS, signal.SIGCHLD)
GRACE = 3.0  # seconds that the others get to find out by themselves that one has failed
STOP_GRACE = 15.0  # the same after an agreed stop, when rank 0 may still be saving
# Of several failures the one with a cause of its own counts; a lost peer or a stop are what the others saw of it.
CAUSES = (LaunchError.code, DataError.code, TargetMissed.code)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a pod ends."""

    code: int
    sentence: str | None


def run_all(launch: Launch, argv: Sequence[str]) -> Outcome:
    """Runs the pod's ranks to their end."""
    # Blocked before the first child exists, so that no signal is lost or acted on too early.
    signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED)
    ours, alive = os.pipe()
    listener = socket.create_server(("127.0.0.1", 0)) if launch.master is None else None
    master = launch.master or Address("127.0.0.1", listener.getsockname()[1] if listener else 0)
    os.set_inheritable(ours, True)
    children = {}
    for index in range(launch.nproc):
        env = {**os.environ, **child_env(launch, index, master), PARENT_FD: str(ours)}
        if listener is not None:
            listener.set_inheritable(index == 0)
            env.update({LISTEN_FD: str(listener.fileno())} if index == 0 else {})
        children[_start(argv, env)] = launch.first_rank + index
    os.close(ours)
    if listener is not None:
        listener.close()
    try:
        return _watch(children)
    finally:
        os.close(alive)


def _start(argv: Sequence[str], env: Mapping[str, str]) -> int:
    command = [sys.executable, "-m", "trainer", *argv]
    # A session of its own, so that Ctrl-C in a terminal reaches the parent alone and is not counted twice.
    return os.posix_spawn(sys.executable, command, env, setsid=True, setsigmask=())


def _watch(running: dict[int, int]) -> Outcome:
    codes: dict[int, int] = {}  # by rank; negative for a signal
    killed: set[int] = set()  # ranks that this process has killed
    stops = 0
    deadline: float | None = None
    while running:
        left = 60.0 if deadline is None else max(0.0, deadline - time.monotonic())
        info = signal.sigtimedwait(WATCHED, left)
        if info is not None and info.si_signo in STOPS:
            stops += 1
            _send(running, signal.SIGTERM if stops == 1 else signal.SIGKILL)
            killed.update(running.values() if stops > 1 else ())
        for pid, status in _reap():
            if (rank := running.pop(pid, None)) is not None:
                codes[rank] = os.waitstatus_to_exitcode(status)
                if codes[rank] != FINISHED and deadline is None:
                    deadline = time.monotonic() + (STOP_GRACE if codes[rank] == Stopped.code else GRACE)
        if deadline is not None and time.monotonic() >= deadline:
            killed.update(running.values())
            _send(running, signal.SIGKILL)
            deadline = time.monotonic() + GRACE
    return outcome(codes, killed, stopping=stops > 0)


def outcome(codes: Mapping[int, int], killed: set[int], *, stopping: bool) -> Outcome:
    """The pod's end, from those of its ranks (negative: by signal); `killed` are those that the parent ended."""
    own = {rank: code for rank, code in codes.items() if rank not in killed and code != FINISHED}
    if stopping and (own or killed) and all(code in (Stopped.code, -signal.SIGTERM) for code in own.values()):
        if killed:
            return Outcome(Stopped.code, "stopped at once: a second signal came, or a rank did not end in time")
        # A rank that says 143 has said why; one that SIGTERM ended was not even far enough to catch it.
        return Outcome(Stopped.code, None if Stopped.code in own.values() else "stopped before training began")
    for cause in CAUSES:
        if cause in own.values():
            return Outcome(cause, None)
    for rank, code in own.items():
        if code < 0:
            name = signal.Signals(-code).name
            return Outcome(
                PeerLost.code, f"rank {rank} was ended by {name}; the other ranks of this pod were ended too"
            )
    return Outcome(next(iter(own.values()), FINISHED), None)


def _reap() -> list[tuple[int, int]]:
    """Everything that has ended, orphans of PID 1 included."""
    ended: list[tuple[int, int]] = []
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended
        if pid == 0:
            return ended
        ended.append((pid, status))


def _send(running: Mapping[int, int], number: int) -> None:
    for pid in running:
        os.kill(pid, number)  # not reaped yet, so the number is still that process's

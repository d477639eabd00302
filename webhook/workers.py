"""`serve --workers N`: processes that share the listening sockets, and the one that looks after them.

Each worker is a server as any other, started by `exec`, so that neither threads nor memory of this process get into it.
The sockets are made here and handed down: a connection that waits in their queue belongs to no worker, and outlives the
one that dies. A worker says that it lives, each second, through a pipe; a worker that hears of a broken pipe has lost
its supervisor, and ends.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from webhook import begin, logs, metrics, tls
from webhook import settings as settings_

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import FrameType

    from structlog.typing import FilteringBoundLogger

    from webhook.settings import Settings

SIGNALS = (signal.SIGTERM, signal.SIGINT)
_LOOK_EVERY = 0.1  # seconds
_FIRST_WAIT, _LONGEST_WAIT = 0.1, 30.0  # seconds before a worker that died is started again; doubled each time
_SOUND = 60.0  # seconds after which a worker has proved itself, and the next wait is the first one again
_SILENT = 30.0  # seconds without a word after which a worker is stuck
_MARGIN = 5.0  # seconds beyond its own bound that a worker gets to end
_MEMORY = Path("/dev/shm")  # noqa: S108 - a folder of our own is made in it; it's there where the root is read-only


@dataclass
class Worker:
    """A slot for a process, and how its life goes."""

    slot: int
    process: subprocess.Popen[bytes] | None = None
    pulse: int = -1  # file descriptor
    began: float = 0
    heard: float = 0
    wait: float = _FIRST_WAIT
    due: float = 0
    starts: int = 0

    @property
    def pid(self) -> int | None:
        return self.process.pid if self.process else None


@dataclass
class Supervisor:
    """Keeps `workers` running until a signal says stop. `start` makes the process of one."""

    workers: Sequence[Worker]
    start: Callable[[Worker], None]
    ended: Callable[[int], None]
    log: FilteringBoundLogger
    patience: float  # seconds for all to end
    clock: Callable[[], float] = time.monotonic
    signals: int = 0
    _passed_on: int = 0
    _deadline: float | None = None

    def run(self) -> None:
        """Until all have ended."""
        while not self.signals or any(worker.process for worker in self.workers):
            self.step()
            time.sleep(_LOOK_EVERY)

    def step(self) -> None:
        """Look at each once, and pass signals on."""
        for worker in self.workers:
            self._look(worker)
        self._pass_on()

    def handle(self, _number: int, _frame: FrameType | None) -> None:
        """A signal handler."""
        self.signals += 1

    def _look(self, worker: Worker) -> None:
        now = self.clock()
        if worker.process is None:
            if now >= worker.due and not self.signals:
                self._start(worker)
        elif worker.process.poll() is not None:
            self._bury(worker, worker.process.returncode)
        elif _speaks(worker.pulse):
            worker.heard = now
        elif now - worker.heard > _SILENT and not self.signals:
            self.log.error("worker", worker=worker.slot, outcome="stuck", silent=round(now - worker.heard))
            worker.process.kill()

    def _start(self, worker: Worker) -> None:
        try:
            self.start(worker)
        except OSError as exc:  # no memory, no file descriptor, no process to be had: perhaps soon
            self._later(worker, "not started", why=exc.strerror)
            return
        worker.starts += 1
        worker.began = worker.heard = self.clock()
        self.log.info("worker", worker=worker.slot, outcome="started", process=worker.pid)

    def _bury(self, worker: Worker, code: int) -> None:
        os.close(worker.pulse)
        worker.process, now = None, self.clock()
        self.ended(worker.slot)
        if self.signals:
            return
        worker.wait = _FIRST_WAIT if now - worker.began > _SOUND else worker.wait
        self._later(worker, "died", code=code)

    def _later(self, worker: Worker, outcome: str, **more: object) -> None:
        worker.due = self.clock() + worker.wait
        self.log.error("worker", worker=worker.slot, outcome=outcome, **more, again_after=worker.wait)
        worker.wait = min(2 * worker.wait, _LONGEST_WAIT)

    def _pass_on(self) -> None:
        """Each signal to each worker; and those who don't end in time are ended."""
        now = self.clock()
        if self.signals and self._deadline is None:
            self._deadline = now + self.patience
            self.log.info("stopping")
        running = [worker.process for worker in self.workers if worker.process]
        for process in running if self._passed_on < self.signals else []:
            process.terminate()
        self._passed_on = self.signals
        if self._deadline is not None and now > self._deadline:
            for process in running:
                process.kill()


def _speaks(pulse: int) -> bool:
    try:
        return bool(os.read(pulse, 1 << 10))
    except BlockingIOError:
        return False


def run(settings: Settings, *, version: str, stream: TextIO) -> None:
    """Serve with several processes until a signal says stop. Raises `RankfixError` if it can't begin."""
    begin.check(settings)
    log = logs.make(stream, settings.log_level)
    workers = [Worker(slot) for slot in range(settings.workers)]
    with begin.beside(settings, log, lambda: [worker.pid for worker in workers if worker.pid]):
        if not settings.plain_http:
            begin.patiently(lambda: tls.load(settings.cert_dir, settings.client_ca), settings.cert_wait, log)
        with begin.listening(settings) as sockets, _folder() as folder:
            made = Supervisor(
                workers,
                start=lambda worker: _start(worker, settings, [sock.fileno() for sock in sockets], folder),
                ended=lambda slot: metrics.gone(slot, folder),
                log=log,
                patience=settings.drain + settings.grace + _MARGIN,
            )
            with _signals(made):
                log.info("starting", version=version, mode=settings.default_mode, workers=settings.workers)
                made.run()
                log.info("stopped")


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    """A folder for the counters: in memory, where that is to be had."""
    where = _MEMORY if os.access(_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="rankfix-", dir=where) as made:
        yield Path(made)


@contextlib.contextmanager
def _signals(supervisor: Supervisor) -> Iterator[None]:
    before = {number: signal.signal(number, supervisor.handle) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _start(worker: Worker, settings: Settings, sockets: list[int], folder: Path) -> None:
    with contextlib.ExitStack() as stack:
        hears, speaks = os.pipe()
        stack.callback(os.close, speaks)
        undo = stack.enter_context(contextlib.ExitStack())
        undo.callback(os.close, hears)
        os.set_blocking(hears, False)
        words = [sys.executable, "-m", "webhook", "worker", *_told(worker, sockets, speaks, folder)]
        environment = settings_.without_ours({metrics.VARIABLE: str(folder)})
        process = subprocess.Popen(  # noqa: S603 - our own program
            words, stdin=subprocess.PIPE, pass_fds=[*sockets, speaks], env=environment, start_new_session=True
        )
        undo.pop_all()
    assert process.stdin  # noqa: S101 - it's a pipe
    with contextlib.suppress(BrokenPipeError), process.stdin:
        process.stdin.write(settings.model_dump_json().encode())
    worker.process, worker.pulse = process, hears


def _told(worker: Worker, sockets: list[int], speaks: int, folder: Path) -> list[str]:
    words = [f"--slot={worker.slot}", f"--pulse={speaks}", f"--shared={folder}"]
    return [*words, *(f"--socket={number}" for number in sockets), *(["--again"] if worker.starts else [])]

"""Chaos: the machine fails the server, which is stopped, starved, out of descriptors, and can't write its log."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from demo.server import free_port
from tests.support_edges import Running, body, child, pod, serve_command
from tests.support_traffic import load, told

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SMALL = body()
CPU = Path("/sys/fs/cgroup/cpu")


def test_stopped_for_three_seconds(folder: Path) -> None:
    """SIGSTOP, as a machine that swaps or a debugger that looks: calls wait, none fails, nobody is blamed."""
    with child(folder) as running, load(folder, running.port, clients=4, pause=0.01) as made:
        assert running.process
        made.wait(50)
        running.process.send_signal(signal.SIGSTOP)
        time.sleep(3)
        running.process.send_signal(signal.SIGCONT)
        made.wait(100)
        told("SIGSTOP for 3 s", made)
        assert made.failed == {}
        assert made.slowest > 2.9
        assert b"connections_ended_total{" not in running.ask("GET", "/metrics").body


@contextlib.contextmanager
def starved(process: int, percent: int) -> Iterator[Callable[[], int]]:
    """A process with so much of a core: by the kernel's quota where we may set it, else stopped most of the time. Gives
    how often it was held up.
    """
    group = CPU / f"rankfix-test-{process}"
    try:
        group.mkdir()
        (group / "cpu.cfs_quota_us").write_text(str(percent * 1000))
        (group / "cgroup.procs").write_text(str(process))
    except OSError:
        with stopped_mostly(process, percent) as held_up:
            yield held_up
        return
    try:
        yield lambda: int((group / "cpu.stat").read_text().split("nr_throttled ")[1].split()[0])
    finally:
        (CPU / "cgroup.procs").write_text(str(process))
        group.rmdir()


@contextlib.contextmanager
def stopped_mostly(process: int, percent: int) -> Iterator[Callable[[], int]]:
    """The same with signals, ten times a second."""
    over, times = threading.Event(), [0]

    def run() -> None:
        while not over.is_set():
            os.kill(process, signal.SIGSTOP)
            over.wait(0.1 - percent / 1000)
            os.kill(process, signal.SIGCONT)
            over.wait(percent / 1000)
            times[0] += 1

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield lambda: times[0]
    finally:
        over.set()
        thread.join()


@pytest.mark.parametrize("way", [starved, stopped_mostly])
def test_starved_of_cpu(folder: Path, way: Callable[[int, int], contextlib.AbstractContextManager[Any]]) -> None:
    """A fifth of a core for more work than that: slower, and no call fails."""
    large = body(pod(*((f"V{number}", "x") for number in range(1500))))
    with child(folder) as running, load(folder, running.port, clients=8, data=large) as made:
        assert running.process
        made.wait(20)
        with way(running.process.pid, 20) as held_up:
            start = time.monotonic()
            while (spent := time.monotonic() - start) < 1.5 or (held_up() < 3 and spent < 10):  # or others starve it
                made.wait(20)
        made.wait(20)
        told("20 % of a core", made)
        assert made.failed == {}


@contextlib.contextmanager
def logging_to(folder: Path, log: int, *flags: str) -> Iterator[Running]:
    """A server whose log goes to a file descriptor."""
    port = free_port()
    command = [*serve_command(folder), "--port", str(port), "--log-level", "debug", *flags]
    with subprocess.Popen(command, stderr=log) as process:
        running = Running(port, folder)
        try:
            deadline = time.monotonic() + 20
            while True:
                with contextlib.suppress(OSError):
                    running.ask("GET", "/healthz")
                    break
                assert time.monotonic() < deadline
                time.sleep(0.05)
            yield running
        finally:
            process.terminate()
            assert process.wait(20) == 0


def test_a_full_disk_for_the_log(folder: Path) -> None:
    """No space left: the lines are lost, and nothing else."""
    with Path("/dev/full").open("wb") as full, logging_to(folder, full.fileno()) as running:
        with load(folder, running.port, clients=4) as made:
            made.wait(500)
        told("full disk for the log", made)
        assert made.failed == {}


def test_a_log_that_nobody_reads(folder: Path) -> None:
    """A pipe that isn't emptied: nobody waits for it; when it is, the number of lines that were lost is said."""
    reads, writes = os.pipe()
    with open(reads, "rb") as pipe:  # noqa: PTH123 - a file descriptor
        with logging_to(folder, writes) as running:
            with load(folder, running.port, clients=4) as made:
                made.wait(500)
            assert made.failed == {}
            os.set_blocking(reads, False)
            full = pipe.read()
            assert len(full) > 30_000  # of the 64 KiB that a pipe holds in pages, which texts fill as they come
            assert running.ask("POST", "/mutate", SMALL).status == 200
            os.close(writes)
        told("a log that nobody reads", made)
        assert b'"event": "lost"' in pipe.read()


def test_no_file_descriptor_is_left(folder: Path) -> None:
    """Every descriptor in use by idle strangers: room is made, one by one, and callers come through."""
    with (
        child(folder, prefix=["prlimit", "--nofile=64:64"]) as running,
        contextlib.ExitStack() as stack,
    ):
        for _ in range(100):
            stack.enter_context(socket.create_connection(("127.0.0.1", running.port)))
        time.sleep(1.2)
        with load(folder, running.port, clients=2, pause=0.01) as made:
            made.wait(50)
        told("no file descriptor left", made)
        assert made.failed == {}
        assert running.ask("GET", "/readyz").status == 200

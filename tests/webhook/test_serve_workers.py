"""`serve --workers`: several processes on one port, one that dies, figures that add up, and an end for all."""

from __future__ import annotations

import contextlib
import os
import re
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from demo.server import free_port
from tests.support_edges import Running, body, child, tls_socket, until

if TYPE_CHECKING:
    from collections.abc import Iterator

SMALL = body()


@pytest.fixture(scope="module", name="running")
def _running(folder: Path) -> Iterator[Running]:
    with child(folder, "--workers", "2", "--metrics-port", str(free_port())) as made:
        until(lambda: listening(made) == 4)
        yield made


def listening(running: Running) -> int:
    """How often a process has said that it listens on a port: each does for two of them."""
    return sum('"listening"' in line for line in running.said)


def processes(running: Running) -> set[int]:
    """The workers."""
    assert running.process
    supervisor = running.process.pid
    return set(map(int, Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split()))


def open_files(process: int) -> int:
    return len(list(Path(f"/proc/{process}/fd").iterdir()))


def value(running: Running, sample: str) -> float:
    """A line of /metrics."""
    said = running.ask("GET", "/metrics").body.decode()
    found = re.search(rf"^{re.escape(sample)} ([0-9.e+]+)$", said, re.MULTILINE)
    return float(found[1]) if found else 0


def alive(process: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2][0] != "Z"
    return False


CHANGED = 'rankfix_requests_total{outcome="changed",reason="patched"}'


def test_one_that_dies_is_replaced_and_its_figures_stay(running: Running) -> None:
    """Kill -9: the other answers at once, the counters never go down, and soon there are two again."""
    before = value(running, CHANGED)
    for _ in range(20):
        assert running.ask("POST", "/mutate", SMALL).status == 200
    until(lambda: value(running, CHANGED) == before + 20)  # what a process did in its last moment, it takes along
    old = processes(running)
    assert len(old) == 2
    os.kill(min(old), signal.SIGKILL)
    for _ in range(20):
        assert running.ask("POST", "/mutate", SMALL).status == 200
    until(lambda: len(processes(running) - old) == 1 and listening(running) == 6)
    until(lambda: value(running, "rankfix_worker_restarts_total") == 1)
    until(lambda: value(running, CHANGED) == before + 40)
    assert value(running, "rankfix_certificate_seconds_left") > 80_000
    assert value(running, "rankfix_bugs_total") == 0


def test_connections_are_shared_out(running: Running) -> None:
    """Twenty callers who come at once and stay: no process has them all."""
    before = {process: open_files(process) for process in processes(running)}
    with contextlib.ExitStack() as stack:
        for _ in range(20):
            stack.enter_context(tls_socket(running))
        grown = [open_files(process) - count for process, count in before.items()]
    assert len(grown) == 2
    assert min(grown) >= 1


def test_each_line_says_which_process(running: Running) -> None:
    """A log of several is still one that can be read."""
    assert {re.findall(r'"worker":(\d)', line)[0] for line in running.said if '"listening"' in line} == {"0", "1"}


def test_all_end_with_the_supervisor(folder: Path) -> None:
    """A signal ends all of them well; a supervisor that is killed takes them along within seconds."""
    with child(folder, "--workers", "2") as one:
        workers = processes(one)
        assert one.stop() == 0
        assert not any(map(alive, workers))
    with child(folder, "--workers", "2") as other:
        workers = processes(other)
        assert len(workers) == 2
        assert other.stop(signal.SIGKILL) == -9
        until(lambda: not any(map(alive, workers)))


def test_what_can_not_begin_says_so_once(tmp_path: Path) -> None:
    """A supervisor doesn't start again and again what never can."""
    with pytest.raises(AssertionError, match="No such file or directory: point --cert-dir"):  # noqa: SIM117 - it's the start that fails
        with child(tmp_path / "nowhere", "--workers", "2"):
            pass

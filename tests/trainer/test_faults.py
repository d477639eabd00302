"""What clusters do to running jobs: signals, deaths, silence. Real processes."""

from __future__ import annotations

import os
import shutil
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.trainer.support import LEAVE, PYTHON, SLACK, contract, end, free_port, needs_torch

if TYPE_CHECKING:
    from tests.trainer.support import Cluster, Run

pytestmark = [*needs_torch, pytest.mark.timeout(400)]

OPTIONS = ["--allow-unknown-data", "--batch", "128", "--json", "--data-dir"]
LONG = ["--epochs", "100000", "--model", "linear", *OPTIONS]  # never ends by itself
EPOCH = r'"event": "epoch".*"epoch": 2,'


def pods(cluster: Cluster, *options: str) -> list[Run]:
    """Two pods of one process each, under the process contract."""
    port = free_port()
    return [cluster.train(*options, env={**contract(pod, 2, 1), **cluster.master(port)}, pod=pod) for pod in (0, 1)]


def test_sigterm_on_any_rank_stops_all_and_resumes(cluster: Cluster, digits: Path, tmp_path: Path) -> None:
    """SIGTERM to one child of one pod: all agree on a step, rank 0 saves, all end with 143 in time; then it resumes."""
    folder = tmp_path / "checkpoints"
    options = ["--nproc", "2", "--checkpoint-dir", str(folder), *LONG, str(digits)]
    first = cluster.train(*options).until(EPOCH)
    signalled = end(first.children()[1], signal.SIGTERM)
    first.expect(143)
    assert time.monotonic() - signalled < LEAVE + SLACK
    assert "stopped at step " in first.sentence()
    assert str(folder) in first.sentence()
    step = int(first.sentence().split("stopped at step ")[1].split()[0])
    assert f"checkpoint-{step:08d}.pt" in {path.name for path in folder.iterdir()}

    again = cluster.train(*options).until(r'"event": "epoch"')
    assert any(f"step {step}" in event["message"] for event in again.events("warning"))
    # As PID 1 would get it: SIGTERM to the parent alone, which passes it on.
    signalled = end(again.process.pid, signal.SIGTERM)
    again.expect(143)
    assert time.monotonic() - signalled < LEAVE + SLACK


def test_second_sigterm_ends_at_once(cluster: Cluster, digits: Path) -> None:
    """A process that hangs in a collective, its peer frozen, ends with 143 at the second signal."""
    first, second = pods(cluster, *LONG, str(digits))
    first.until(EPOCH)
    second.process.send_signal(signal.SIGSTOP)
    time.sleep(1)
    first.process.send_signal(signal.SIGTERM)
    time.sleep(1)
    assert first.process.poll() is None, "the first signal waits for a step boundary"
    signalled = end(first.process.pid, signal.SIGTERM)
    first.expect(143)
    assert time.monotonic() - signalled < LEAVE + SLACK
    assert "second signal" in first.sentence()


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("unshare") is None, reason="a PID namespace needs root")
def test_sigterm_as_pid_1(cluster: Cluster, digits: Path) -> None:
    """As PID 1, where a signal without a handler does nothing, SIGTERM stops the parent and its children in time."""
    script = "echo $$; exec " + " ".join([PYTHON, "-m", "trainer", "--nproc", "2", *LONG, str(digits)])
    run = cluster.start(["unshare", "--pid", "--fork", "--kill-child", "sh", "-c", script]).until(EPOCH)
    assert run.said.startswith("1\n")
    signalled = end(run.children()[0], signal.SIGTERM)
    run.expect(143)
    assert time.monotonic() - signalled < LEAVE + SLACK
    assert "stopped at step" in run.sentence()


@pytest.mark.parametrize("victim", [0, 1])
def test_death_of_a_peer_ends_the_survivor(victim: int, cluster: Cluster, digits: Path) -> None:
    """Kill -9 of either pod: the other ends with 134 in time, and says after which step."""
    runs = pods(cluster, *LONG, str(digits))
    runs[0].until(EPOCH)
    killed = end(runs[victim].process.pid)
    survivor = runs[1 - victim]
    survivor.expect(134)
    assert time.monotonic() - killed < LEAVE + SLACK
    assert f"rank {1 - victim} lost another rank after step " in survivor.sentence()


def test_death_of_a_child_ends_its_pod(cluster: Cluster, digits: Path) -> None:
    """Kill -9 of one process of a pod: its siblings go with it, and the pod's code is 134."""
    run = cluster.train("--nproc", "2", *LONG, str(digits)).until(EPOCH)
    children = run.children()
    killed = end(children[1])
    run.expect(134)
    assert time.monotonic() - killed < LEAVE + SLACK
    assert "rank 1 was ended by SIGKILL" in run.complaint
    assert not any(Path(f"/proc/{pid}").exists() for pid in children)


def test_death_of_the_parent_ends_the_children(cluster: Cluster, digits: Path) -> None:
    """Kill -9 of a pod's first process leaves no orphan behind that would hold a GPU."""
    run = cluster.train("--nproc", "2", *LONG, str(digits)).until(EPOCH)
    children = run.children()
    killed = end(run.process.pid)
    while any(Path(f"/proc/{pid}").exists() for pid in children):
        assert time.monotonic() - killed < LEAVE + SLACK
        time.sleep(0.05)


def test_silent_peer_ends_after_the_time_out(cluster: Cluster, digits: Path) -> None:
    """A peer that hangs is given up after --timeout, not after torch's half an hour."""
    first, second = pods(cluster, "--timeout", "4", *LONG, str(digits))
    first.until(EPOCH)
    frozen = end(second.process.pid, signal.SIGSTOP)
    first.expect(134)
    assert time.monotonic() - frozen < 4 + LEAVE + SLACK
    assert "lost another rank after step " in first.sentence()

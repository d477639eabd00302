"""What goes wrong between processes before training, as measured in the field, and the sentence that each gets."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from tests.trainer.support import PYTHON, contract, free_port, needs_torch

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.trainer.support import Cluster, Run

pytestmark = [*needs_torch, pytest.mark.timeout(400)]

LONG = ["--allow-unknown-data", "--epochs", "100000", "--batch", "128", "--data-dir"]  # never ends by itself


@dataclass(frozen=True)
class Case:
    """RANK and WORLD_SIZE of each process, and what each of them must say at its end."""

    places: Sequence[tuple[int, int]]
    said: Sequence[str]
    patience: float = 60


CASES = {
    "duplicate rank that torch doesn't notice": Case(
        [(0, 2), (1, 2), (1, 2)], ["duplicate rank 1", "pod-1 pid", "pod-2 pid"]
    ),
    "duplicate rank and a missing one": Case([(0, 3), (1, 3), (1, 3)], ["duplicate rank 1", "pod-1 pid", "pod-2 pid"]),
    "world sizes 2 and 3": Case([(0, 2), (1, 3)], ["world sizes disagree", "2 on rank 0 (pod-0", "3 on rank 1 (pod-1"]),
    "world sizes 2, 3 and 3": Case([(0, 2), (1, 3), (2, 3)], ["world sizes disagree", "2 on rank 0", "3 on ranks 1-2"]),
    "ranks 0 and 2 of 2": Case([(0, 2), (2, 2)], ["rank 2 (pod-1 pid", "outside a world of 2", "0-1"]),
    "one rank of three never comes": Case(
        [(0, 3), (2, 3)], ["rank 1 of 3 did not answer", "rank 0 on pod-0", "rank 2 on pod-1"], 12
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_wrong_ranks_are_named_by_all(name: str, cluster: Cluster, digits: Path) -> None:
    """Every process of the job ends with code 2 and the same sentence, within the roll call's time."""
    case, port = CASES[name], free_port()
    runs = [
        cluster.train(
            *LONG,
            str(digits),
            "--start-timeout",
            str(case.patience),
            env={"RANK": str(rank), "WORLD_SIZE": str(world), **cluster.master(port)},
            pod=pod,
        )
        for pod, (rank, world) in enumerate(case.places)
    ]
    (sentence,) = {run.expect(2).sentence() for run in runs}
    for word in case.said:
        assert word in sentence


def test_second_rank_0_is_named_wherever_it_is(cluster: Cluster, digits: Path) -> None:
    """A rank 0 in another pod finds the one at MASTER_ADDR, and both end with the names of both."""
    port = free_port()
    env = {"RANK": "0", "WORLD_SIZE": "2", **cluster.master(port)}
    runs = [cluster.train(*LONG, str(digits), env=env, pod=pod) for pod in (0, 1)]
    for run in runs:
        sentence = run.expect(2).sentence()
        assert "duplicate rank 0" in sentence
        assert "pod-0 pid" in sentence
        assert "pod-1 pid" in sentence


def test_master_that_does_not_resolve(cluster: Cluster, digits: Path) -> None:
    """The name, and how long it was tried; far sooner than torch's twice the time-out."""
    env = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "job-master-0.invalid", "MASTER_PORT": "23456"}
    started = time.monotonic()
    sentence = cluster.train(*LONG, str(digits), "--start-timeout", "3", env=env).expect(2).sentence()
    assert "MASTER_ADDR job-master-0.invalid does not resolve (tried for " in sentence
    assert time.monotonic() - started < 60


def test_fault_of_one_rank_ends_all(cluster: Cluster, digits: Path, tmp_path: Path) -> None:
    """Where one pod lacks the data all end with code 3 and hear of it, rather than wait for that pod."""
    port = free_port()
    broken = tmp_path / "empty"
    broken.mkdir()
    env = [{**contract(pod, 2, 1), **cluster.master(port)} for pod in (0, 1)]
    good = cluster.train(*LONG, str(digits), env=env[0], pod=0)
    bad = cluster.train(*LONG, str(broken), env=env[1], pod=1)
    assert "holds neither train-images-idx3-ubyte.gz nor" in bad.expect(3).sentence()
    sentence = good.expect(3).sentence()
    assert "rank 1 (pod-1 pid" in sentence
    assert "holds neither train-images-idx3-ubyte.gz" in sentence


def test_differences_are_warned_of_or_refused(cluster: Cluster, digits: Path) -> None:
    """Unequal NCCL variables and settings are warnings that name the ranks; with --strict they end the job."""

    def start(port: int, *more: str) -> list[Run]:
        options = ["--allow-unknown-data", "--batch", "128", "--json", "--data-dir", str(digits), *more]
        return [
            cluster.train(
                *options,
                "--epochs",
                str(pod + 1),
                env={**contract(pod, 2, 1), **cluster.master(port), "NCCL_DEBUG": ("WARN", "INFO")[pod]},
                pod=pod,
            )
            for pod in (0, 1)
        ]

    first, second = start(free_port())
    warnings = [event["message"] for event in first.expect(0).events("warning")]
    second.expect(0)
    assert len(warnings) == 2
    assert "NCCL_DEBUG differs: WARN on rank 0 (pod-0" in warnings[0]
    assert "settings" in warnings[1]
    assert "those of rank 0 go for all" in warnings[1]
    assert [event["epoch"] for event in first.events("epoch")] == [1]
    for run in start(free_port(), "--strict"):
        assert "--strict: NCCL_DEBUG differs" in run.expect(2).sentence()


def test_something_else_at_the_masters_port(cluster: Cluster, digits: Path) -> None:
    """A port that another program has is told apart from a master that isn't up yet."""
    port = free_port()
    cluster.start([PYTHON, "-c", f"import socket, time; s = socket.create_server(('', {port})); time.sleep(600)"])
    env = {**contract(1, 2, 1), **cluster.master(port)}
    options = ["--start-timeout", "4", *LONG, str(digits)]
    sentence = cluster.train(*options, env=env, pod=1).expect(2).sentence()
    assert "is not the store of a training job" in sentence

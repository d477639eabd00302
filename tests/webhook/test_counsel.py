"""What a job's owner is advised to write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support_jobs import container, job, recorded_job, replicas
from webhook import explain
from webhook.operator_job import GENERATIONS
from webhook.policy import Policy

if TYPE_CHECKING:
    from webhook.explained import Job

N4: dict[str, Any] = {"nprocPerNode": "4"}


def explained(raw: dict[str, Any], version: str = "1.9") -> Job:
    return explain.explain(raw, GENERATIONS[version], Policy())


ADVICE: list[tuple[dict[str, Any], str, list[str]]] = [
    (job(["bash", "r.sh"], **N4), "1.9", ["rankfix/mode=process", "rankfix/mode=node", "rankfix/mode=off"]),
    (job(["deepspeed", "t.py"], **N4), "1.9", []),
    (job(["python", "t.py"], master=False, workers=2), "1.9", ["rankfix/mode=process"]),
    (
        job(["python", "t.py"], master=False, workers=2, gpus=4),
        "1.9",
        ["rankfix/mode=process rankfix/nproc-per-node=4"],
    ),
    (job(["python", "t.py"], master=False, workers=2), "1.6", ["Give the job a Master: training-operator 1.6"]),
    (job(["python", "t.py"], gpus=8), "1.9", ["nprocPerNode=8"]),
    (job(["python", "t.py"], gpus=8), "1.5", ["rankfix/nproc-per-node=8"]),
    (job(["python", "t.py"], gpus=1), "1.9", []),
    (job(["python", "t.py"]), "1.9", []),
    (job(["python", "t.py", "--num_nodes=2"], gpus=8), "1.9", []),
    (job(["python", "t.py"], **N4), "1.9", ["rankfix/mode=torchrun"]),
    (job(["python", "t.py"], nprocPerNode="1"), "1.9", []),
    (job(["python", "t.py"], annotations={"rankfix/mode": "process"}, **N4), "1.9", []),
    (job(["composer", "t.py"], **N4), "1.9", []),
    (
        job(["torchrun", "--nnodes=3", "t.py"]),
        "1.9",
        ["Write --nnodes=2, which is the number of its pods, in place of 3."],
    ),
    (job(["torchrun", "--nnodes=2", "t.py"]), "1.9", []),
    (
        job(["python", "t.py"], annotations={"rankfix/mode": "audit"}, nprocPerNode="1"),
        "1.9",
        ["To have it done, take rankfix/mode"],
    ),
]


@pytest.mark.parametrize(("raw", "version", "advice"), ADVICE)
def test_advice(raw: dict[str, Any], version: str, advice: list[str]) -> None:
    """What a job's owner should write is said once, ready to be copied; nothing where nothing is to be done."""
    found = explained(raw, version)["advice"]
    told_ = [
        " ".join(f"{k}={v}" for k, v in {**item.get("annotations", {}), **item.get("spec", {})}.items()) or item["text"]
        for item in found
    ]
    assert len(told_) == len(advice)
    assert all(got.startswith(want) for got, want in zip(told_, advice, strict=True)), told_


def test_unequal_gpus_make_unequal_advice() -> None:
    """One pod can't see it, a job can: the annotation for unequal nodes."""
    (advice,) = explained(recorded_job("mixed-gpus"))["advice"]
    assert advice.get("annotations") == {"rankfix/nproc-per-node": "master=1,worker=2"}
    assert "1 GPU, a Worker 2 GPUs" in advice["text"]


def test_advice_on_gpus_only_where_all_pods_are_alike() -> None:
    """A Master of another kind keeps it quiet."""
    raw = job(["python", "t.py"], gpus=8)
    raw["spec"]["pytorchReplicaSpecs"]["Master"] = replicas(container(command=["bash", "r.sh"]))
    assert explained(raw)["advice"] == []

"""Command lines -> classes, fed flags and changes: the tables in tests/data/commands, each row through the whole core.

A row's pod is worker `k - 1` of a job with a Master; see tests/data/commands/README.md for the format.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from webhook.launch import Classifier, Launch, classify
from webhook.mutate import Answer, patched, respond
from webhook.policy import Policy

FOLDER = Path(__file__).parent.parent / "data" / "commands"
TOPOLOGY_RULES = ("A1", "A2", "C1", "C2", "F1", "F2")


def rows() -> list[Any]:
    """Every row of every table, by its id."""
    found = [
        pytest.param(row, id=row["id"])
        for file in sorted(FOLDER.glob("*.yaml"))
        for row in yaml.load(file.read_text(encoding="utf-8"), yaml.CSafeLoader)
    ]
    assert len(found) >= 250
    return found


def container(row: dict[str, Any]) -> dict[str, Any]:
    """The row's container, with the env that the operator gives it."""
    shape = {"P": 2, "N": 4, "k": 1, "operator": "1.9", **row.get("pod", {})}
    modern = str(shape["operator"]) >= "1.7"
    pods, procs = shape["P"], shape["N"]
    given: dict[str, object] = {
        "PYTHONUNBUFFERED": 1,
        "MASTER_PORT": 23456,
        "MASTER_ADDR": "job-master-0",
        "WORLD_SIZE": pods * procs if modern and isinstance(procs, int) else pods,
        "RANK": shape["k"],
    }
    if modern:
        given |= {"PET_MASTER_PORT": 23456, "PET_MASTER_ADDR": "job-master-0", "PET_NODE_RANK": shape["k"]}
        given |= {"PET_NPROC_PER_NODE": procs, "PET_NNODES": pods}
    env = [*row.get("env", []), *({"name": name, "value": str(value)} for name, value in given.items())]
    out: dict[str, Any] = {"name": "pytorch", "image": "registry.example.com/train:1", "env": env}
    if "gpu" in shape:
        out["resources"] = {"limits": {"nvidia.com/gpu": str(shape["gpu"])}}
    return out | {key: row[key] for key in ("command", "args") if key in row}


def review(row: dict[str, Any]) -> dict[str, Any]:
    """An AdmissionReview for the row's pod."""
    rank = row.get("pod", {}).get("k", 1)
    labels = {
        "training.kubeflow.org/job-name": "job",
        "training.kubeflow.org/operator-name": "pytorchjob-controller",
        "training.kubeflow.org/replica-type": "worker" if rank else "master",
        "training.kubeflow.org/replica-index": str(max(rank - 1, 0)),
    }
    owner = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "name": "job", "uid": "1", "controller": True}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "x", "labels": labels, "ownerReferences": [owner]},
        "spec": {"containers": [container(row)]},
    }
    request = {
        "uid": "u",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "operation": "CREATE",
        "namespace": "team",
        "object": pod,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def answered(document: dict[str, Any]) -> Answer:
    """The answer to a review."""
    return respond(json.dumps(document).encode(), Policy())


def fed(launch: Launch) -> dict[str, set[str]]:
    """The topology that the pair feeds, by kind."""
    out: dict[str, set[str]] = {}
    for item in launch.fed:
        out.setdefault(item.what, set()).add(item.source)
    return out


@pytest.mark.parametrize("row", rows())
def test_a_command_line_is_judged_and_repaired_as_its_row_says(row: dict[str, Any]) -> None:
    """Class, fed flags, rules, words, warnings are as the row reads the contract; a second call changes nothing."""
    launch = classify(container(row))
    assert row.get("class") in (None, launch.cls)
    assert fed(launch) == {kind: set(sources) for kind, sources in row.get("fed", {}).items()}
    assert launch.parse_error is row.get("parse_error", False)

    document = review(row)
    answer = answered(document)
    assert answer.bug is None
    assert sorted(set(answer.rules) & set(TOPOLOGY_RULES)) == sorted(row["rules"])
    assert bool(answer.warnings) is row.get("warn", bool(answer.warnings)), answer.warnings
    after = patched(document["request"]["object"], answer.patch)
    main, wanted = after["spec"]["containers"][0], {**row, **row.get("after", {})}
    assert (main.get("command"), main.get("args")) == (wanted.get("command"), wanted.get("args"))
    document["request"]["object"] = after
    assert answered(document).patch == []


def test_the_remembering_judge_says_the_same() -> None:
    """A Classifier that has seen every command line, twice, judges each as the one that remembers nothing."""
    remembering = Classifier(most=100)
    tables = [param.values[0] for param in rows()]
    for row in [*tables[::9], *tables[::9][-50:]]:
        assert remembering(container(row)) == classify(container(row))
    assert remembering.misses > remembering.hits

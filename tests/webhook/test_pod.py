"""The view of a raw pod: what counts, what is ours, and that no JSON is too odd to look at."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support_core import Job, entries
from webhook import pod

ODD: tuple[Any, ...] = (None, 0, 1.5, True, "text", [], {}, [None], [[]], [1, "a", {}], {"a": None})


def env(*items: Any) -> pod.Env:
    """The env of a container that has these entries."""
    return pod.read({"spec": {"containers": [{"name": "c", "env": list(items)}]}}).containers[0].env


def test_the_last_entry_of_a_name_counts() -> None:
    """Of several entries with one name the last one is read, as kubelet does."""
    seen = env(*entries({"A": "1"}), *entries({"B": "2"}), *entries({"A": "3"}))
    assert (seen.text("A"), seen.last) == ("3", {"A": 2, "B": 1})


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        ({"name": "A", "value": "1"}, "1"),
        ({"name": "A", "value": ""}, ""),
        ({"name": "A"}, ""),
        ({"name": "A", "value": None}, ""),
        ({"name": "A", "value": 1}, None),
        ({"name": "A", "valueFrom": {"fieldRef": {}}}, None),
        ({"name": "A", "value": "1", "valueFrom": {}}, None),
        ({"name": "A", "value": "1", "valueFrom": None}, "1"),
    ],
)
def test_present_is_by_name(entry: dict[str, Any], text: str | None) -> None:
    """An entry without a value, or with one from elsewhere, is there all the same; its text is what's written."""
    seen = env(entry)
    assert "A" in seen
    assert seen.text("A") == text
    assert seen.sourced("A") is (entry.get("valueFrom") is not None)


def test_an_absent_name_has_no_text() -> None:
    """A name without an entry is neither there nor from elsewhere."""
    assert "A" not in env()
    assert (env().text("A"), env().sourced("A")) == (None, False)


@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_odd_shapes_are_not_there(odd: Any) -> None:
    """Wherever JSON hasn't the shape of a pod, the view has nothing there, and nothing raises."""
    for raw in (
        {"metadata": odd, "spec": odd},
        {"metadata": {"labels": odd, "annotations": odd, "ownerReferences": odd}, "spec": {"containers": odd}},
        {"metadata": {"ownerReferences": [{"controller": True, "kind": odd, "apiVersion": odd, "name": odd}]}},
        {"spec": {"containers": [odd, {"name": odd, "env": odd}, {"env": [odd, {"name": odd, "value": odd}]}]}},
    ):
        view = pod.read(raw)
        assert pod.is_ours(raw) is False
        assert all(isinstance(container.name, str) for container in view.containers)


def test_entries_that_are_no_entries_keep_their_places() -> None:
    """What isn't an entry is passed over, and still counted: positions are the patch's."""
    assert env(None, "RANK", {"value": "1"}, {"name": 3}, {"name": "RANK", "value": "1"}).last == {"RANK": 4}


@pytest.mark.parametrize(
    ("names", "managed"),
    [
        (("RANK",), True),
        (("PET_NNODES",), True),
        (("PET_NPROC_PER_NODE",), True),
        (("WORLD_SIZE", "MASTER_ADDR", "PET_NODE_RANK"), False),
        ((), False),
    ],
)
def test_managed_containers_carry_the_operators_env(names: tuple[str, ...], *, managed: bool) -> None:
    """RANK, PET_NNODES or PET_NPROC_PER_NODE tell the operator's containers from another webhook's."""
    raw = {"spec": {"containers": [{"name": "c", "env": entries(dict.fromkeys(names, "1"))}]}}
    assert pod.read(raw).containers[0].managed is managed


OWNER = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "name": "job", "controller": True}
LABEL = {"training.kubeflow.org/operator-name": "pytorchjob-controller"}


@pytest.mark.parametrize(
    ("metadata", "ours"),
    [
        ({"ownerReferences": [OWNER]}, True),
        ({"ownerReferences": [{**OWNER, "apiVersion": "kubeflow.org/v2beta7"}]}, True),
        ({"ownerReferences": [{"kind": "Other"}, OWNER]}, True),
        ({"ownerReferences": [{**OWNER, "controller": False}]}, False),
        ({"ownerReferences": [{**OWNER, "controller": "true"}]}, False),
        ({"ownerReferences": [{**OWNER, "apiVersion": "training.kubedl.io/v1alpha1"}]}, False),
        ({"ownerReferences": [{**OWNER, "apiVersion": "kubeflow.org"}]}, False),
        ({"ownerReferences": [{**OWNER, "apiVersion": None}]}, False),
        ({"ownerReferences": [{**OWNER, "kind": "TFJob"}]}, False),
        ({"ownerReferences": [{**OWNER, "kind": "TFJob"}], "labels": LABEL}, False),
        ({"labels": LABEL}, True),
        ({"labels": LABEL, "ownerReferences": []}, True),
        ({"labels": LABEL, "ownerReferences": [{**OWNER, "kind": "X", "controller": False}]}, True),
        ({"labels": {next(iter(LABEL)): "tfjob-controller"}}, False),
        ({"ownerReferences": [OWNER], "annotations": {"kubernetes.io/config.mirror": "x"}}, False),
        ({"labels": LABEL, "annotations": {"kubernetes.io/config.mirror": ""}}, False),
        ({}, False),
    ],
)
def test_ours_is_what_a_pytorchjob_controls(metadata: dict[str, Any], *, ours: bool) -> None:
    """A controller of kind PyTorchJob in kubeflow.org, or the label where no controller is; never a mirror pod."""
    assert pod.is_ours({"metadata": metadata}) is ours


@pytest.mark.parametrize(
    ("metadata", "job"),
    [
        ({"ownerReferences": [OWNER], "labels": {"job-name": "other"}}, "job"),
        ({"ownerReferences": [{**OWNER, "name": 3}], "labels": {"job-name": "other"}}, ""),
        ({"labels": {"job-name": "old", "training.kubeflow.org/job-name": "new"}}, "new"),
        ({"labels": {"pytorch-job-name": "oldest", "job-name": 3}}, "oldest"),
        ({}, ""),
    ],
)
def test_the_job_is_the_controllers_name(metadata: dict[str, Any], job: str) -> None:
    """The owner names the job; without one, the labels of the newest generation do."""
    assert pod.read({"metadata": metadata}).job == job


def test_the_first_container_is_pytorch_if_there_is_one() -> None:
    """`pytorch` goes first wherever it stands; without it, the first container does."""
    view = pod.read(Job(names=("a", "pytorch")).pod())
    other = pod.read(Job(names=("a", "b")).pod())
    assert [view.first(), other.first()] == [view.containers[1], other.containers[0]]
    assert pod.read({}).first() is None

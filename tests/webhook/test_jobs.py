"""Where PyTorchJobs are found, and what is said where there is none."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support_jobs import job
from webhook import jobs

ONE = job()
TEMPLATE = {key: value for key, value in ONE.items() if key != "metadata"}


@pytest.mark.parametrize(
    ("document", "places"),
    [
        (ONE, [""]),
        ([ONE, ONE], ["[0]", "[1]"]),
        ({"kind": "List", "items": [{"kind": "ConfigMap"}, ONE]}, ["items[1]"]),
        (
            {"kind": "AppWrapper", "spec": {"components": [{"template": ONE}]}},
            ["spec.components[0].template"],
        ),
        (
            {"kind": "AppWrapper", "spec": {"resources": {"GenericItems": [{"generictemplate": ONE}]}}},
            ["spec.resources.GenericItems[0].generictemplate"],
        ),
        ({**ONE, "apiVersion": "training.kubedl.io/v1alpha1"}, []),
        ({**ONE, "apiVersion": "kubeflow.org"}, []),
        ({**ONE, "apiVersion": None}, []),
        ("text", []),
    ],
)
def test_places(document: object, places: list[str]) -> None:
    """Jobs are found at any depth, and told by their place."""
    assert [found.where for found in jobs.find(document)] == places


def test_katib_s_template_gets_a_name() -> None:
    """A trial's name is the experiment's and an ending; a job with a name keeps it."""
    trial: dict[str, Any] = {"kind": "Experiment", "metadata": {"name": "tune"}}
    trial["spec"] = {"trialTemplate": {"trialSpec": TEMPLATE, "other": ONE}}
    unnamed, named = jobs.find(trial)
    assert unnamed.job["metadata"] == {"generateName": "tune-"}
    assert named.job is ONE
    assert "metadata" not in TEMPLATE


@pytest.mark.parametrize("metadata", [[], {"generateName": "x-"}, {"labels": {}}])
def test_metadata_of_a_template(metadata: Any) -> None:
    """What it has stays; metadata of a wrong type stays for the check to find."""
    (found,) = jobs.find({"metadata": {"name": "outer"}, "spec": {**TEMPLATE, "metadata": metadata}})
    expected = {"labels": {}, "generateName": "outer-"} if metadata == {"labels": {}} else metadata
    assert found.job["metadata"] == expected


def test_too_deep() -> None:
    """A document nested beyond reason has no jobs, and no endless search."""
    document: Any = ONE
    for _ in range(100):
        document = [document]
    assert jobs.find(document) == []


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ("hello", "is no Kubernetes object: expected a PyTorchJob (kubeflow.org/v1)"),
        ({"a": 1}, "has no kind; expected a PyTorchJob (kubeflow.org/v1)"),
        ({"kind": "secret value"}, "has no kind; expected a PyTorchJob (kubeflow.org/v1)"),
        ({"kind": "PyTorchJob"}, "a PyTorchJob of another API group; expected apiVersion: kubeflow.org/v1"),
        ({"kind": "MPIJob"}, "kind MPIJob isn't a PyTorchJob: mpirun gives its processes their ranks"),
        (
            {"kind": "TrainJob"},
            "kind TrainJob isn't a PyTorchJob: Trainer v2 makes its pods by JobSet, and writes neither",
        ),
        ({"kind": "Pod"}, "kind Pod isn't a PyTorchJob: use `rankfix mutate -o diff` for a pod"),
        ({"kind": "Service"}, "kind Service: no PyTorchJob (kubeflow.org/v1) in it; it may also be in a List"),
    ],
)
def test_none_in(document: object, said: str) -> None:
    """Each says what was expected."""
    assert jobs.none_in(document).startswith(said)

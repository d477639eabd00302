"""Finds the PyTorchJobs in what people keep them in: a document, a List, an AppWrapper, a Katib Experiment."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

KIND, GROUP = "PyTorchJob", "kubeflow.org"
_DEEPEST = 64
_KIND = re.compile(r"[A-Z][A-Za-z0-9]{1,62}")

# What people take for a PyTorchJob, and why rankfix has nothing to say of it.
_OTHERS = {
    "MPIJob": "mpirun gives its processes their ranks",
    "TFJob": "TensorFlow reads TF_CONFIG",
    "XGBoostJob": "only the pods of PyTorchJobs are repaired",
    "PaddleJob": "only the pods of PyTorchJobs are repaired",
    "JAXJob": "only the pods of PyTorchJobs are repaired",
    "TrainJob": "Trainer v2 makes its pods by JobSet, and writes neither RANK nor WORLD_SIZE",
    "RayJob": "Ray gives its workers their ranks",
    "Pod": "use `rankfix mutate -o diff` for a pod",
    "PodList": "use `rankfix mutate -o diff` for pods",
    "AdmissionReview": "use `rankfix mutate -o diff` for a recorded review",
}


@dataclass(frozen=True, slots=True)
class Found:
    """A job, and its place in the object it was in ("" for the object itself)."""

    job: Mapping[str, Any]
    where: str


def find(document: object) -> list[Found]:
    """The jobs in a document, in order."""
    return list(_walk(document, "", "", 0))


def _walk(value: object, where: str, owner: str, depth: int) -> Iterator[Found]:
    if depth > _DEEPEST:
        return
    if isinstance(value, dict):
        if value.get("kind") == KIND and is_kubeflow(value.get("apiVersion")):
            yield Found(_named(value, owner), where)
            return
        owner = _name(value) or owner
        for key, inner in value.items():
            yield from _walk(inner, f"{where}.{key}" if where else str(key), owner, depth + 1)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _walk(inner, f"{where}[{index}]", owner, depth + 1)


def is_kubeflow(version: object) -> bool:
    """Whether an apiVersion is of Kubeflow's own group; KubeDL has PyTorchJobs, too."""
    return isinstance(version, str) and version.partition("/")[::2][0] == GROUP and "/" in version


def _name(value: Mapping[str, Any]) -> str:
    metadata = value.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return name if isinstance(name, str) else ""


def _named(job: Mapping[str, Any], owner: str) -> Mapping[str, Any]:
    """A template without a name (Katib's) gets one from the object around it, as its trials do."""
    metadata = job.get("metadata")
    known = metadata if isinstance(metadata, dict) else {}
    if not owner or metadata not in (None, known) or known.get("name") or known.get("generateName"):
        return job
    return {**job, "metadata": {**known, "generateName": f"{owner}-"}}


def none_in(document: object) -> str:
    """Why nothing in a document can be explained."""
    if not isinstance(document, dict):
        return f"is no Kubernetes object: expected a {KIND} ({GROUP}/v1)"
    kind = document.get("kind")
    if kind == KIND:
        return f"a {KIND} of another API group; expected apiVersion: {GROUP}/v1"
    if not isinstance(kind, str) or not _KIND.fullmatch(kind):
        return f"has no kind; expected a {KIND} ({GROUP}/v1)"
    if kind in _OTHERS:
        return f"kind {kind} isn't a {KIND}: {_OTHERS[kind]}"
    return f"kind {kind}: no {KIND} ({GROUP}/v1) in it; it may also be in a List, an AppWrapper or a Katib Experiment"

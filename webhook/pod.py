"""A read-only view of a raw pod. Takes any JSON at all: what hasn't the right shape isn't there.

Nothing here copies or normalises the pod, so that positions in the view are positions in the JSON that a patch changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

OPERATOR = "training.kubeflow.org/operator-name"
MIRROR = "kubernetes.io/config.mirror"
DEFAULT_CONTAINER = "pytorch"  # the container that the training-operator's validation asks for

_GROUP, _KIND, _CONTROLLER = "kubeflow.org", "PyTorchJob", "pytorchjob-controller"
_JOB_LABELS = ("training.kubeflow.org/job-name", "job-name", "pytorch-job-name")

Field = Literal["containers", "initContainers"]


@dataclass(frozen=True, slots=True)
class Env:
    """A container's env list as kubelet reads it: of several entries with one name the last one counts.

    `last` has the index of that entry in `entries` for each name. Entries without a name that is a string don't exist.
    """

    entries: Sequence[Any]
    last: Mapping[str, int]

    def __contains__(self, name: str) -> bool:
        """Whether there is an entry: one with an empty value, or with none, is there too."""
        return name in self.last

    def sourced(self, name: str) -> bool:
        """Whether the value comes from somewhere else (`valueFrom`), where nobody can read it before the pod runs."""
        index = self.last.get(name)
        return index is not None and self.entries[index].get("valueFrom") is not None

    def text(self, name: str) -> str | None:
        """The value as written; "" for an entry with a name only; None if absent, from elsewhere, or no string."""
        index = self.last.get(name)
        if index is None:
            return None
        entry = self.entries[index]
        value = entry.get("value")
        if entry.get("valueFrom") is not None or not (value is None or isinstance(value, str)):
            return None
        return value or ""


@dataclass(frozen=True, slots=True)
class Container:
    """One container: where it stands (`spec[field][index]`), its JSON, its name ("" if it has none) and its env."""

    field: Field
    index: int
    raw: Mapping[str, Any]
    name: str
    env: Env

    @property
    def managed(self) -> bool:
        """Whether the operator gave it its env; a sidecar that another webhook put in has none of these names."""
        last = self.env.last
        return "RANK" in last or "PET_NNODES" in last or "PET_NPROC_PER_NODE" in last


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod: its JSON, labels, annotations and containers. `job` is the PyTorchJob's name, "" where none is told."""

    raw: Mapping[str, Any]
    labels: Mapping[str, Any]
    annotations: Mapping[str, Any]
    containers: tuple[Container, ...]
    init_containers: tuple[Container, ...]
    job: str

    def first(self) -> Container | None:
        """The container `pytorch`, else the first one."""
        return next((c for c in self.containers if c.name == DEFAULT_CONTAINER), next(iter(self.containers), None))


def read(raw: Mapping[str, Any]) -> Pod:
    """The view of a pod. Never raises, on no JSON."""
    metadata, spec = _mapping(raw.get("metadata")), _mapping(raw.get("spec"))
    labels = _mapping(metadata.get("labels"))
    return Pod(
        raw=raw,
        labels=labels,
        annotations=_mapping(metadata.get("annotations")),
        containers=tuple(_containers(spec, "containers")),
        init_containers=tuple(_containers(spec, "initContainers")),
        job=_job(metadata, labels),
    )


def is_ours(raw: Mapping[str, Any]) -> bool:
    """Whether the training-operator (or pytorch-operator) made this pod for a PyTorchJob of `kubeflow.org`.

    Its controller says so or, where it has none, the label with the operator's name. KubeDL's jobs have the same kind
    in another group. The mirror of a static pod can't be changed, so it isn't ours.
    """
    metadata = _mapping(raw.get("metadata"))
    if MIRROR in _mapping(metadata.get("annotations")):
        return False
    owner = _controller(metadata)
    if owner is None:
        return _mapping(metadata.get("labels")).get(OPERATOR) == _CONTROLLER
    return _is_pytorchjob(owner)


def _controller(metadata: Mapping[str, Any]) -> Mapping[str, Any] | None:
    owners = metadata.get("ownerReferences")
    for owner in owners if isinstance(owners, list) else ():
        if isinstance(owner, dict) and owner.get("controller") is True:
            return owner
    return None


def _is_pytorchjob(owner: Mapping[str, Any]) -> bool:
    version = owner.get("apiVersion")
    return (
        owner.get("kind") == _KIND and isinstance(version, str) and version.split("/")[0] == _GROUP and "/" in version
    )


def _job(metadata: Mapping[str, Any], labels: Mapping[str, Any]) -> str:
    owner = _controller(metadata)
    names = (owner.get("name"),) if owner is not None else tuple(labels.get(label) for label in _JOB_LABELS)
    return next((name for name in names if isinstance(name, str) and name), "")


def _containers(spec: Mapping[str, Any], field: Field) -> Iterator[Container]:
    items = spec.get(field)
    for index, item in enumerate(items if isinstance(items, list) else ()):
        if isinstance(item, dict):
            name = item.get("name")
            yield Container(field, index, item, name if isinstance(name, str) else "", _env(item.get("env")))


def _env(entries: object) -> Env:
    if not isinstance(entries, list):
        return Env((), {})
    last = {
        entry["name"]: index
        for index, entry in enumerate(entries)
        if isinstance(entry, dict) and isinstance(entry.get("name"), str)
    }
    return Env(entries, last)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}

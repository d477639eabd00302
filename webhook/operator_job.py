"""A PyTorchJob as its operator reads it: what the job asks for, with the defaults that the controller fills in memory.

No defaulting webhook exists, so what `kubectl get -o yaml` shows may lack replicas, ports and nprocPerNode, and may
spell the replica types in any case. The operator's version decides which fields there are at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from webhook.errors import RankfixError

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_CONTAINER, PORT_NAME, DEFAULT_PORT = "pytorch", "pytorchjob-port", 23456
REPLICAS_FIELD, MASTER, WORKER = "pytorchReplicaSpecs", "Master", "Worker"
TYPES = (MASTER, WORKER)


class BadJob(RankfixError):
    """A job that the API server or the operator refuses; `problems` has one line for each field."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


@dataclass(frozen=True, slots=True)
class Generation:
    """What tells the pods of one operator version from those of another.

    `common`, `training`: which set of labels it writes. `elastic`: knows elasticPolicy, and jobs without a Master.
    `nproc`: knows nprocPerNode, and writes PET_* for every job; `nproc_always`: also where there is no Master.
    `waits`: the init container of Workers gives up after 100 tries; None: there is no such container.
    """

    version: str
    common: bool
    training: bool
    elastic: bool
    nproc: bool
    nproc_always: bool
    unbuffered: str
    waits: bool | None


_ALL = (
    Generation("1.3", True, False, False, False, False, "0", None),
    Generation("1.5", True, True, True, False, False, "0", False),
    Generation("1.6", False, True, True, False, False, "0", False),
    Generation("1.7", False, True, True, True, False, "1", True),
    Generation("1.8", False, True, True, True, True, "1", True),
    Generation("1.9", False, True, True, True, True, "1", True),
)
GENERATIONS = {generation.version: generation for generation in _ALL}
NEWEST = _ALL[-1].version


def generation(version: str) -> Generation | None:
    """The generation that a version such as `1.9`, `v1.8.1` belongs to; None where its pods aren't known."""
    parts = version.removeprefix("v").split(".")
    known = GENERATIONS.get(".".join(parts[:2]))
    return known if len(parts) == 2 or (len(parts) == 3 and parts[2].isdigit()) else None  # noqa: PLR2004 - MAJOR.MINOR[.PATCH]


@dataclass(frozen=True, slots=True)
class Replicas:
    """The pods of one type: `kind` is Master or Worker, `key` how the job spells it."""

    kind: str
    key: str
    count: int
    restart: str
    template: Mapping[str, Any]

    @property
    def port(self) -> int:
        """The port that the operator announces for these pods."""
        mine = (container for container in self.containers if container["name"] == DEFAULT_CONTAINER)
        ports = (port for container in mine for port in container.get("ports") or ())
        return next((port["containerPort"] for port in ports if is_rendezvous(port)), DEFAULT_PORT)

    @property
    def containers(self) -> list[dict[str, Any]]:
        """The raw containers of the template."""
        containers: list[dict[str, Any]] = self.template["spec"]["containers"]
        return containers


def is_rendezvous(port: object) -> bool:
    """Whether a container port is the one for the rendezvous."""
    return isinstance(port, dict) and port.get("name") == PORT_NAME


@dataclass(frozen=True, slots=True)
class Job:
    """A job that was checked. `elastic` is its elasticPolicy, empty where there is none or the operator knows none."""

    name: str
    namespace: str
    api_version: str
    replicas: tuple[Replicas, ...]
    nproc: str | None
    elastic: Mapping[str, Any]
    is_elastic: bool

    def has(self, kind: str) -> bool:
        """Whether there are replicas of a type."""
        return any(replicas.kind == kind for replicas in self.replicas)

    def count(self, kind: str) -> int:
        """The number of a type's pods."""
        return sum(replicas.count for replicas in self.replicas if replicas.kind == kind)

    def port(self, kind: str) -> int:
        """The port that the operator announces for the pods of a type that is there."""
        return next(replicas.port for replicas in self.replicas if replicas.kind == kind)

    @property
    def pods(self) -> int:
        """P: all pods of the job."""
        return sum(replicas.count for replicas in self.replicas)


def typed(key: str) -> str | None:
    """The replica type that a key of the job means, whatever its case."""
    return next((kind for kind in TYPES if kind.lower() == key.lower()), None)


def read(raw: Mapping[str, Any], operator: Generation) -> Job:
    """The job in `raw`, which `operator_check` found nothing wrong with, with the operator's defaults."""
    metadata, spec = raw["metadata"], raw["spec"]
    elastic = spec.get("elasticPolicy") if operator.elastic else None
    found = {typed(key): _replicas(key, value) for key, value in spec[REPLICAS_FIELD].items() if typed(key)}
    return Job(
        name=name_of(metadata),
        namespace=str(metadata.get("namespace") or "default"),
        api_version=raw["apiVersion"],
        replicas=tuple(found[kind] for kind in TYPES if kind in found),
        nproc=_nproc(spec, elastic) if operator.nproc else None,
        elastic=elastic or {},
        is_elastic=elastic is not None,
    )


def name_of(metadata: Mapping[str, Any]) -> str:
    """The job's name; one that is still to be generated gets five letters, as the API server would append."""
    return str(metadata.get("name") or f"{metadata['generateName']}xxxxx")


def _replicas(key: str, raw: Mapping[str, Any]) -> Replicas:
    kind = typed(key) or key
    count = raw.get("replicas")
    return Replicas(kind, key, 1 if count is None else count, raw.get("restartPolicy") or "OnFailure", raw["template"])


def _nproc(spec: Mapping[str, Any], elastic: Mapping[str, Any] | None) -> str | None:
    """nprocPerNode; `auto` where nobody says, but nothing where the deprecated field of elasticPolicy says."""
    written: str | None = spec.get("nprocPerNode")
    if written is None and (elastic is None or elastic.get("nProcPerNode") is None):
        return "auto"
    return written

"""The facts that rules reason from: node rank k, number of pods P, processes per node N, and where each came from.

All of them are read from the pod itself, so the pods of one job may come in any order, to any replica, twice. RANK is
never a source of k: at a second call of the webhook it is our own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from webhook.notes import NPROC, RANKS, Asked, Earlier, Procs, is_rank
from webhook.policy import Reason

if TYPE_CHECKING:
    from collections.abc import Mapping

    from webhook.pod import Container, Env, Pod

_DIGITS = 9
_RANGE = re.compile(r"([0-9]{1,9}):([0-9]{1,9})")
_TYPES = ("training.kubeflow.org/replica-type", "replica-type", "pytorch-replica-type")
_INDICES = ("training.kubeflow.org/replica-index", "replica-index", "pytorch-replica-index")
_KINDS = {"master": True, "worker": False}


class Found(NamedTuple):
    """A number, and in words where it was found."""

    value: int
    source: str


class Trouble(NamedTuple):
    """Why the rules can't be applied: the reason, and the finding in words."""

    reason: Reason
    text: str


@dataclass(frozen=True, slots=True)
class Replica:
    """What the labels say: a Master or a Worker, and its index."""

    master: bool
    index: int


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts of one container. None: not known, or, for N, not declared.

    `nproc` is the N of this node, `sizes` the N of Master and Workers; `master`: the job has a Master replica. `soft`
    is what only mode `auto` minds (no pair, or one from elsewhere), `hard` what no mode can do without; where `hard`
    is None, k and P are known and agree.
    """

    node: Found | None
    pods: Found | None
    nproc: Found | None
    sizes: Procs | None
    master: bool
    soft: Trouble | None
    hard: Trouble | None

    @property
    def trouble(self) -> Trouble | None:
        """What keeps mode `auto` from applying its rules."""
        if self.hard is not None and self.hard.reason in (Reason.BAD_LABEL, Reason.ELASTIC):
            return self.hard
        return self.soft or self.hard

    @property
    def at(self) -> int:
        """k, where `hard` is None."""
        return self.node.value if self.node else 0

    @property
    def of(self) -> int:
        """P, where `hard` is None."""
        return self.pods.value if self.pods else 1

    def span(self, sizes: Procs) -> tuple[int, int, int]:
        """This node's first rank, its processes, and those of all nodes, where nodes run `sizes` processes."""
        k, pods = self.at, self.of
        if not self.master:
            return k * sizes.worker, sizes.worker, pods * sizes.worker
        world = sizes.master + (pods - 1) * sizes.worker
        return (0, sizes.master, world) if k == 0 else (sizes.master + (k - 1) * sizes.worker, sizes.worker, world)


def plain(text: object) -> int | None:
    """The number that a string of one to nine ASCII digits writes, else None."""
    if isinstance(text, str) and 0 < len(text) <= _DIGITS and text.isascii() and text.isdigit():
        return int(text)  # which alone would also take "٣", " 1", "1_0" and "+1"
    return None


def replica(labels: Mapping[str, object]) -> Replica | Trouble | None:
    """What the labels of the newest operator generation that set them say; None where one of the two is missing."""
    kind, index = _newest(labels, _TYPES), _newest(labels, _INDICES)
    if kind is not None and (not isinstance(kind, str) or not kind.isascii() or kind.lower() not in _KINDS):
        return Trouble(Reason.BAD_LABEL, "the label replica-type is neither master nor worker")
    if index is not None and plain(index) is None:
        return Trouble(Reason.BAD_LABEL, "the label replica-index is not a number of one to nine digits")
    if kind is None or index is None:
        return None
    return Replica(_KINDS[str(kind).lower()], int(str(index)))


def _newest(labels: Mapping[str, object], keys: tuple[str, ...]) -> object:
    for key in keys:
        if key in labels:
            return labels[key]
    return None


def gpu_limit(container: Container) -> int | None:
    """The whole number that limits the container's one kind of GPU; None if it has none, or more than one kind."""
    resources = container.raw.get("resources")
    limits = resources.get("limits") if isinstance(resources, dict) else None
    found = [value for name, value in limits.items() if _is_gpu(name)] if isinstance(limits, dict) else []
    if len(found) != 1:
        return None
    whole = found[0] if type(found[0]) is int else plain(found[0])
    return whole or None


def _is_gpu(resource: str) -> bool:
    return resource.endswith("/gpu") or resource.startswith("nvidia.com/mig-")


def believed(earlier: Earlier, env: Env) -> Earlier | None:
    """The results of an earlier call, if this env shows them; users do copy a pod's annotations into a new template."""
    if earlier.world < 0:
        return None
    rank, world = env.text("RANK") or "", env.text("WORLD_SIZE") or ""
    if not is_rank(rank) or not is_rank(world) or int(world) != earlier.world:
        return None
    if not earlier.first <= int(rank) <= earlier.last:
        return None
    shows = earlier.world == earlier.pods or "LOCAL_WORLD_SIZE" in env or "PET_NNODES" in env
    return earlier if shows else None


def own_master(pod: Pod, env: Env) -> bool:
    """Whether MASTER_ADDR is the job's first Worker: then there is no Master, and most likely rankfix wrote it."""
    return bool(pod.job) and (env.text("MASTER_ADDR") or "").split(".")[0] == f"{pod.job}-worker-0"


def read(pod: Pod, container: Container, asked: Asked, before: Earlier | None, gpus: int | None) -> Facts:
    """The facts of one managed container.

    `before` are the believed results of an earlier call, `gpus` the limit that the annotation's value `gpu` means.
    """
    env, labels = container.env, replica(pod.labels)
    master = "MASTER_ADDR" in env and not own_master(pod, env)
    seen = labels if isinstance(labels, Replica) else None
    node = _node(env, seen, master)
    pods = _pods(env, master, before)
    sizes, source = _declared(env, asked, gpus)
    known = pods if isinstance(pods, Found) else None
    first = seen.master if seen else node is not None and node.value == 0
    nproc = None if sizes is None else Found(sizes.master if master and first else sizes.worker, source)
    hard: Trouble | None
    if isinstance(labels, Trouble):
        hard = labels
    elif isinstance(pods, Trouble):
        hard = pods
    else:
        hard = _dynamic(env, master) or _contradiction(pods, node, seen, master, sizes)
    return Facts(node, known, nproc, sizes, master, _no_pair(env), hard)


def _node(env: Env, labels: Replica | None, master: bool) -> Found | None:
    written = plain(env.text("PET_NODE_RANK"))
    if written is not None:
        return Found(written, "PET_NODE_RANK")
    return None if labels is None else Found(_by_labels(labels, master), "labels")


def _by_labels(labels: Replica, master: bool) -> int:
    return 0 if labels.master else labels.index + master


def _pods(env: Env, master: bool, before: Earlier | None) -> Found | Trouble | None:
    if env.sourced("PET_NNODES"):
        return Trouble(Reason.VALUE_FROM, "PET_NNODES comes from valueFrom")
    written = env.text("PET_NNODES")
    if "PET_NNODES" not in env:
        return _pods_before_1_7(env, before)
    if plain(written) is not None:
        return Found(int(str(written)), "PET_NNODES")
    ends = _RANGE.fullmatch(written or "")
    if ends is None:
        return Trouble(Reason.INCONSISTENT, "PET_NNODES is neither a number nor a range")
    if not master or int(ends[1]) != int(ends[2]):
        return Trouble(Reason.ELASTIC, "nodes may come and go (PET_NNODES is a range)")
    if before is not None:
        return Found(before.pods, RANKS)
    return Found(int(ends[1]) + 1, "PET_NNODES and the Master, which it leaves out")


def _pods_before_1_7(env: Env, before: Earlier | None) -> Found | Trouble | None:
    if "WORLD_SIZE" not in env:
        return None
    pods = plain(env.text("WORLD_SIZE"))
    if before is not None and pods and before.pods and (pods == before.world or pods % before.pods == 0):
        return Found(before.pods, RANKS)  # else somebody gave this container a world of its own
    if pods is None and not env.sourced("WORLD_SIZE"):
        return Trouble(Reason.INCONSISTENT, "neither PET_NNODES nor WORLD_SIZE is a number")
    return None if pods is None else Found(pods, "WORLD_SIZE")


def _declared(env: Env, asked: Asked, gpus: int | None) -> tuple[Procs | None, str]:
    if asked.gpu and gpus is not None:
        return Procs(gpus, gpus), f"{NPROC}: gpu"
    if asked.procs is not None:
        return asked.procs, NPROC
    written = plain(env.text("PET_NPROC_PER_NODE"))
    return (None if written is None else Procs(written, written)), "PET_NPROC_PER_NODE"


def _dynamic(env: Env, master: bool) -> Trouble | None:
    backend = "" if "PET_RDZV_BACKEND" not in env else env.text("PET_RDZV_BACKEND")
    if master or backend in ("", "static"):
        return None
    return Trouble(Reason.ELASTIC, "the rendezvous gives out ranks, and the job has no Master")


def _no_pair(env: Env) -> Trouble | None:
    if "RANK" not in env or "WORLD_SIZE" not in env:
        return Trouble(Reason.NO_RANK_ENV, "the operator wrote no RANK and WORLD_SIZE")
    if env.sourced("RANK") or env.sourced("WORLD_SIZE"):
        return Trouble(Reason.VALUE_FROM, "RANK or WORLD_SIZE comes from valueFrom")
    return None


def _contradiction(
    pods: Found | None, node: Found | None, labels: Replica | None, master: bool, sizes: Procs | None
) -> Trouble | None:
    """What in these facts can't be true together, or is missing."""
    if node is None:
        return Trouble(
            Reason.BAD_LABEL, "no PET_NODE_RANK, and no labels replica-type and replica-index, tell the node rank"
        )
    if pods is None:
        return Trouble(Reason.INCONSISTENT, "the number of pods isn't known")
    if node.value >= pods.value:
        return Trouble(Reason.INCONSISTENT, f"node rank {node.value}, but only {pods.value} pods")
    if sizes is not None and sizes.master < 1:
        return Trouble(Reason.INCONSISTENT, "PET_NPROC_PER_NODE is 0")
    return None if labels is None else _mislabelled(node, labels, master)


def _mislabelled(node: Found, labels: Replica, master: bool) -> Trouble | None:
    if labels.master and labels.index:
        return Trouble(Reason.INCONSISTENT, f"the label replica-index of the Master is {labels.index}, not 0")
    if node.value != _by_labels(labels, master):
        return Trouble(Reason.INCONSISTENT, "PET_NODE_RANK and the labels disagree on the node rank")
    return None

"""The pod's annotations with the prefix `rankfix/`: what a user asks for, and what rankfix wrote at an earlier call."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from webhook import say
from webhook.errors import Refused
from webhook.policy import Mode, Status

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from webhook.pod import Pod

PREFIX = "rankfix/"
MODE, NPROC = "rankfix/mode", "rankfix/nproc-per-node"
CONTAINERS, INIT = "rankfix/containers", "rankfix/init-containers"
STATUS, RULES, RANKS, REASON = "rankfix/status", "rankfix/rules", "rankfix/ranks", "rankfix/reason"
RESULTS = (STATUS, RULES, RANKS, REASON)

_COUNT = re.compile(r"[1-9][0-9]{0,3}")
_NUMBER = re.compile(r"[0-9]{1,20}")
_UNEQUAL = re.compile(r"master=([1-9][0-9]{0,3}),worker=([1-9][0-9]{0,3})")
_RANKS = re.compile(r"k=([0-9]{1,9}) P=([0-9]{1,9})(?: N=[0-9]{1,9})? ranks=([0-9]{1,20})-([0-9]{1,20})/([0-9]{1,20})")
_CHANGED = frozenset({Status.PROCESS, Status.NODE, Status.ARGUMENTS, Status.ENVIRONMENT})


@dataclass(frozen=True, slots=True)
class Procs:
    """Processes per node as declared: equally many, or one number for the Master and one for each Worker."""

    master: int
    worker: int

    @property
    def equal(self) -> bool:
        """Whether all nodes run equally many."""
        return self.master == self.worker


@dataclass(frozen=True, slots=True)
class Asked:
    """What the user's annotations ask for, None where there is none. `gpu`: the number is the limit of GPUs."""

    mode: Mode | None = None
    procs: Procs | None = None
    gpu: bool = False
    containers: frozenset[str] | None = None
    init_containers: bool = False


@dataclass(frozen=True, slots=True)
class Earlier:
    """Result annotations of an earlier call; the numbers of `rankfix/ranks` are -1 where it is missing."""

    status: Status | None = None
    rules: tuple[str, ...] = field(default=())
    node: int = -1
    pods: int = -1
    first: int = -1
    last: int = -1
    world: int = -1

    @property
    def changed(self) -> bool:
        """Whether that call changed the pod."""
        return self.status in _CHANGED


NOTHING_EARLIER = Earlier()


def asked_mode(pod: Pod) -> Mode | None:
    """The mode that the pod asks for.

    Raises:
        Refused: it is none of ours.
    """
    value = pod.annotations.get(MODE)
    if value is None and MODE not in pod.annotations:
        return None
    try:
        return Mode(str(value))
    except ValueError:
        raise Refused(say.allowed(MODE, value, ", ".join(Mode))) from None


def asked(pod: Pod) -> Asked:
    """All that the pod asks for.

    Raises:
        Refused: a value isn't allowed, or a key is unknown.
    """
    given: dict[str, Any] = {}
    for key, value in pod.annotations.items():
        if key.startswith(PREFIX) and key not in RESULTS:
            given |= _reader(key, value)(pod, value)
    return Asked(**given)


def _reader(key: str, value: object) -> Callable[[Pod, object], Mapping[str, Any]]:
    readers: Mapping[str, Callable[[Pod, object], Mapping[str, Any]]] = {
        MODE: _mode,
        NPROC: _procs,
        CONTAINERS: _containers,
        INIT: _init,
    }
    if key not in readers:
        known = ", ".join(sorted(readers))
        raise Refused(f"annotation {say.line(key, 60)} (value {say.quoted(value)}) is unknown; allowed: {known}")
    return readers[key]


def _mode(pod: Pod, value: object) -> Mapping[str, Any]:
    del value
    return {"mode": asked_mode(pod)}


def _procs(pod: Pod, value: object) -> Mapping[str, Any]:
    del pod
    if isinstance(value, str):
        if value == "gpu":
            return {"gpu": True}
        if _COUNT.fullmatch(value):
            return {"procs": Procs(int(value), int(value))}
        if unequal := _UNEQUAL.fullmatch(value):
            return {"procs": Procs(int(unequal[1]), int(unequal[2]))}
    raise Refused(say.allowed(NPROC, value, 'a number from 1 to 9999, "gpu", or two as in "master=1,worker=2"'))


def _containers(pod: Pod, value: object) -> Mapping[str, Any]:
    names = frozenset(name.strip() for name in value.split(",")) if isinstance(value, str) else frozenset()
    there = {container.name for container in pod.containers if container.name}
    if not names or not there.issuperset(names):
        known = ", ".join(container.name for container in pod.containers if container.name)
        raise Refused(say.allowed(CONTAINERS, value, f"one or more of this pod's containers ({say.line(known, 120)})"))
    return {"containers": names}


def _init(pod: Pod, value: object) -> Mapping[str, Any]:
    del pod
    if value not in ("true", "false"):
        raise Refused(say.allowed(INIT, value, '"true" or "false"'))
    return {"init_containers": value == "true"}


def earlier(pod: Pod) -> Earlier:
    """The results of an earlier call; what isn't in the form that rankfix writes counts as absent."""
    notes = pod.annotations
    if STATUS not in notes:
        return NOTHING_EARLIER
    status, rules, ranks = (notes.get(key) for key in (STATUS, RULES, RANKS))
    numbers = _RANKS.fullmatch(ranks) if isinstance(ranks, str) else None
    return Earlier(
        Status(status) if status in tuple(Status) else None,
        tuple(rules.split(",")) if isinstance(rules, str) and rules else (),
        *(map(int, numbers.groups()) if numbers else ()),
    )


def ranks(node: tuple[int, int], procs: int | None, own: tuple[int, int], world: int) -> str:
    """The value of `rankfix/ranks`: node k of P, its N where that is known, its first and last rank, all ranks."""
    declared = "" if procs is None else f" N={procs}"
    return f"k={node[0]} P={node[1]}{declared} ranks={own[0]}-{own[1]}/{world}"


def is_rank(text: str) -> bool:
    """Whether an env value is a number that `rankfix/ranks` can repeat."""
    return _NUMBER.fullmatch(text) is not None

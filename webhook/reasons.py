"""Why a container is as it is, in a sentence for its owner: what `rankfix explain` says where no rule speaks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webhook.launch import LaunchClass
from webhook.policy import Reason

if TYPE_CHECKING:
    from collections.abc import Mapping

    from webhook.launch import Launch
    from webhook.result import Decision, Judged

CLASSES: Mapping[LaunchClass, str] = {
    LaunchClass.LAUNCHER_ENV: "it is told its node by RANK or WORLD_SIZE",
    LaunchClass.READS_RANK: "the command itself reads RANK or WORLD_SIZE",
    LaunchClass.HIDDEN: "a script or program that nobody can look into from here",
    LaunchClass.LAUNCHER_FIXED: "a launcher whose node rank is written out",
    LaunchClass.LAUNCHER: "a launcher, which gives its processes their ranks",
    LaunchClass.OWN_LAUNCHER: "a launcher that counts processes",
    LaunchClass.PYTHON: "a Python program, which reads a process's RANK and WORLD_SIZE",
    LaunchClass.ENTRYPOINT: "the image's own program, taken for one that reads a process's RANK and WORLD_SIZE",
}

_SPAWNS = "a Python program, which starts its own processes from a node's RANK and WORLD_SIZE"
_COUNTS = "a Python program, which is told the number of nodes and asks for NODE_RANK"

_REASONS: Mapping[Reason, str] = {
    Reason.NOT_OURS: "it is no pod of a PyTorchJob",
    Reason.OFF: "rankfix/mode: off asks to leave it alone",
    Reason.ELASTIC: "nodes may come and go, so the rendezvous gives out ranks",
    Reason.NO_RANK_ENV: "without a Master, the operator writes no RANK and WORLD_SIZE",
    Reason.VALUE_FROM: "RANK or WORLD_SIZE comes from valueFrom, which is never overwritten",
    Reason.UNCLEAR_LAUNCH: "RANK counts pods and WORLD_SIZE processes, and nothing tells which of the two is meant",
}

_RIGHT: Mapping[LaunchClass, str] = {
    LaunchClass.LAUNCHER_ENV: "RANK and WORLD_SIZE already are what it wants",
    LaunchClass.READS_RANK: "RANK and WORLD_SIZE both count pods, so its own reading stays right",
    LaunchClass.HIDDEN: "nothing in sight asks for a change",
    LaunchClass.LAUNCHER_FIXED: "the node rank that is written out is this pod's own",
    LaunchClass.LAUNCHER: "its launcher finds all it needs",
}


def means(launch: Launch) -> str:
    """What the class of a launch says of it."""
    if launch.cls is LaunchClass.PYTHON and launch.multiprocessing_distributed:
        return _SPAWNS
    if launch.cls is LaunchClass.PYTHON and launch.node_count_in_sight:
        return _COUNTS
    return CLASSES[launch.cls]


def why(decision: Decision, judged: Judged | None, cls: LaunchClass) -> str:
    """The sentence; empty where rules speak for themselves."""
    if judged is None:
        return _not_judged(decision)
    if judged.trouble is not None and judged.reason not in _REASONS:
        return judged.trouble.text
    if judged.reason in _REASONS and not judged.rules:
        return _REASONS[judged.reason]
    return "" if judged.rules else _RIGHT.get(cls, "RANK and WORLD_SIZE already are what its processes need")


def _not_judged(decision: Decision) -> str:
    if decision.denial is not None:
        return "an annotation of rankfix can't be obeyed"
    if decision.containers:
        return "the annotation rankfix/containers leaves it out"
    return _REASONS.get(decision.reason, "left as it is")

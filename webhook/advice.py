"""What rankfix warns of and leaves alone: findings where only the user can act (rank contract, section 6)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webhook import say
from webhook.facts import Trouble, plain
from webhook.launch import LaunchClass
from webhook.notes import INIT, NPROC
from webhook.policy import Mode, Reason, Status

if TYPE_CHECKING:
    from collections.abc import Iterator

    from webhook.case import Case

_SEEN_THROUGH = frozenset({LaunchClass.LAUNCHER, LaunchClass.LAUNCHER_FIXED, LaunchClass.LAUNCHER_ENV})


def of_trouble(case: Case, trouble: Trouble) -> Iterator[str]:
    """What to say where the rules can't be applied; nothing for pods that are right as they are."""
    if trouble.reason in (Reason.INCONSISTENT, Reason.BAD_LABEL):
        yield say.nothing_done(trouble.text)
    if trouble.reason is Reason.NO_RANK_ENV and case.launch.cls in (LaunchClass.PYTHON, LaunchClass.ENTRYPOINT):
        yield say.no_rank_env(obeyable=case.facts.hard is None)
    if case.order.asked.init_containers:
        yield say.no_effect(INIT, trouble.text)


def is_unclear(case: Case) -> bool:
    """Whether the pair is half node, half process, and nothing tells which half the command wants.

    Under operators before 1.7 the pair is a node pair; there it is unclear only what a declared N is to change.
    """
    if (
        case.order.mode is not Mode.AUTO
        or case.facts.of <= 1
        or case.procs is None
        or case.procs.value <= 1
        or case.launch.unsets
    ):
        return False
    before = case.order.before
    if before is not None and before.status in (Status.PROCESS, Status.NODE):
        return False
    half = case.container.env.text("WORLD_SIZE") != str(case.facts.of)
    if case.launch.cls is LaunchClass.LAUNCHER_ENV:
        return half and case.launch.unread_file and not case.launch.node_count_in_sight
    if case.launch.parse_error or case.launch.cls in (
        LaunchClass.READS_RANK,
        LaunchClass.HIDDEN,
        LaunchClass.ENTRYPOINT,
    ):
        return half or case.procs.source.startswith(NPROC)
    return False


def of_launch(case: Case) -> Iterator[str]:
    """What looks wrong in the command of a container whose facts are known."""
    name, launch, several = case.container.name, case.launch, case.facts.of > 1
    if several and any(start.standalone for start in launch.launchers):
        yield say.standalone(name)
    if several and launch.deepspeed:
        yield say.deepspeed(name)
    procs = processes(case)
    if launch.literal_rank and procs > 1:
        yield say.literal_rank(name)
    if case.gpus is not None and procs and procs != case.gpus:
        yield say.gpus(name, case.gpus, procs)


def processes(case: Case) -> int:
    """How many processes this container runs: by its launcher's flag, else as declared; 0 where nothing tells."""
    counts = {_count(start.nproc.literal, case.gpus) for start in case.launch.launchers if start.nproc is not None}
    if case.launch.cls in _SEEN_THROUGH and counts:
        return counts.pop() if len(counts) == 1 else 0
    if case.procs is None:
        return 0
    return case.procs.value // (case.twin.count if case.twin is not None else 1)


def _count(written: str | None, gpus: int | None) -> int:
    return (gpus or 0) if written in ("auto", "gpu") else plain(written) or 0

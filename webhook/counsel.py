"""What a job's owner can do: annotations and fields that settle what rankfix can't know, or leaves alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webhook import say
from webhook.facts import plain
from webhook.launch import LaunchClass
from webhook.notes import MODE, NPROC
from webhook.pod import DEFAULT_CONTAINER
from webhook.policy import Mode, Reason, Status

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from webhook.case import Case
    from webhook.explained import Advice
    from webhook.operator_job import Generation
    from webhook.result import Decision, Judged

_REWORDS = frozenset({"F1", "F2"})
_READERS = (LaunchClass.PYTHON, LaunchClass.ENTRYPOINT)


def of(decisions: Sequence[Decision], operator: Generation) -> list[Advice]:
    """Advice for a job, from the decisions on its pods; each once."""
    mains = [main for decision in decisions if (main := _main(decision)) is not None]
    found: list[Advice] = []
    for advice in (*_unclear(mains), *_no_pair(decisions, mains, operator), *_gpus(mains, operator), *_spawn(mains)):
        if advice not in found:
            found.append(advice)
    found.extend(_nodes(mains))
    if any(decision.status is Status.WOULD_CHANGE for decision in decisions):
        found.append({"text": f"To have it done, take {MODE}: audit off the replica templates."})
    return found


def _main(decision: Decision) -> Judged | None:
    managed = decision.containers
    return next((one for one in managed if one.name == DEFAULT_CONTAINER), managed[0] if managed else None)


def _unclear(mains: Sequence[Judged]) -> Iterator[Advice]:
    if any(main.reason is Reason.UNCLEAR_LAUNCH and not main.case.launch.deepspeed for main in mains):
        yield {
            "text": "If its processes read RANK and WORLD_SIZE themselves:",
            "annotations": {MODE: Mode.PROCESS.value},
        }
        yield {
            "text": "If it hands them to a launcher, as in --node_rank=$RANK --nnodes=$WORLD_SIZE:",
            "annotations": {MODE: Mode.NODE.value},
        }
        yield {"text": "If it does sums with them, and works:", "annotations": {MODE: Mode.OFF.value}}


def _no_pair(decisions: Sequence[Decision], mains: Sequence[Judged], operator: Generation) -> Iterator[Advice]:
    """A job without a Master whose program wants ranks."""
    if not operator.nproc and any(d.reason is Reason.NO_RANK_ENV and d.warnings for d in decisions):
        yield {"text": f"Give the job a Master: training-operator {operator.version} tells Workers alone nothing."}
    for main in mains:
        if main.reason is Reason.NO_RANK_ENV and main.cls in _READERS and main.facts[1] is not None:
            declared = main.case.facts.sizes
            gpus = main.case.gpus or 1
            more = {NPROC: str(gpus)} if declared is None and gpus > 1 else {}
            yield {"text": "To get ranks without a Master:", "annotations": {MODE: Mode.PROCESS.value, **more}}


def _gpus(mains: Sequence[Judged], operator: Generation) -> Iterator[Advice]:
    """GPUs, but one process a pod: right for some, and forgotten by others."""
    open_cases = [main.case for main in mains if _is_undeclared(main)]
    counts = {(case.facts.at > 0 or not case.facts.master): case.gpus or 1 for case in open_cases}
    if not open_cases or len(open_cases) < len(mains) or max(counts.values()) == 1:
        return
    if len(set(counts.values())) > 1:
        text = f"The Master has {_of(counts[False])}, a Worker {_of(counts[True])}. If each starts one process a GPU:"
        yield {"text": text, "annotations": {NPROC: f"master={counts[False]},worker={counts[True]}"}}
        return
    count = str(max(counts.values()))
    text = f"Its pods have {count} GPUs. If its program starts one process a GPU, declare it:"
    if operator.nproc:
        yield {"text": text, "spec": {"nprocPerNode": count}}
    else:
        yield {"text": text, "annotations": {NPROC: count}}


def _is_undeclared(main: Judged) -> bool:
    case = main.case
    counts_itself = case.launch.node_count_in_sight or case.launch.multiprocessing_distributed
    return (
        case.procs is None
        and main.cls in _READERS
        and case.order.mode is Mode.AUTO
        and not counts_itself
        and _known(case)
    )


def _known(case: Case) -> bool:
    return case.facts.trouble is None


def _of(gpus: int) -> str:
    return f"{gpus} GPU{'s' if gpus > 1 else ''}"


def _spawn(mains: Sequence[Judged]) -> Iterator[Advice]:
    """Ranks for N processes, which somebody has to start."""
    for main in mains:
        case = main.case
        if (
            "C1" in main.rules
            and case.order.mode is Mode.AUTO
            and case.launch.wrap is not None
            and not case.launch.launchers
        ):
            count = case.procs.value if case.procs is not None else 1
            if count > 1 and main.cls is LaunchClass.PYTHON:
                text = f"Its program must start its {count} processes itself. If it doesn't, torchrun can do it:"
                yield {"text": text, "annotations": {MODE: Mode.TORCHRUN.value}}


def _nodes(mains: Sequence[Judged]) -> Iterator[Advice]:
    """A launcher whose node count is written out, and isn't the job's."""
    counts = {
        (plain(start.node_count.literal), main.case.facts.of)
        for main in mains
        if main.case.facts.hard is None and not _REWORDS.intersection(main.rules)
        for start in main.case.launch.launchers
        if start.node_count is not None and plain(start.node_count.literal) is not None and not start.dynamic
    }
    for written, pods in sorted(counts, key=str):
        if written != pods:
            yield {"text": say.line(f"Write --nnodes={pods}, which is the number of its pods, in place of {written}.")}

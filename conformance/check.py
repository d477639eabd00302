"""What can be said of cases before anything runs: whether rankfix decides as they say, and which arms they are for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from conformance import arms, jobs
from conformance.cases import BadCase
from conformance.words import Arm, Outcome
from demo import kubelet

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from conformance.cases import Case
    from conformance.compare import Task
    from conformance.jobs import Pod

_WORKS = {(Outcome.TOGETHER,), (Outcome.ALONE,)}


def problems(case: Case) -> list[str]:
    """Why a case can't be used, or where rankfix says something else than its `status`; nothing is started."""
    if fatal := unusable(case):
        return fatal
    made = arms.made(case, Arm.RANKFIX, arms.left)
    return [f"{_where(case)}: {fault}" for fault in (arms.faults(case, made.said) if made.said else ())]


def unusable(case: Case) -> list[str]:
    """Why no pod of a case can be started."""
    try:
        pods = arms.made(case, Arm.OPERATOR, arms.left).pods
    except BadCase as bad:
        return list(bad.problems)
    names = [pod["metadata"]["name"] for pod in pods]
    found = [f"{_where(case)}: {fault}" for pod in pods for fault in _beyond(case, pod)]
    if case.recreate and not any(name.endswith(case.recreate) for name in names):
        found.append(f"{_where(case)}: recreate {case.recreate!r}: no pod's name ends so; the pods: {', '.join(names)}")
    return found


def _beyond(case: Case, pod: Pod) -> Iterator[str]:
    """What a container asks for that only a cluster has."""
    for container in pod["spec"]["containers"]:
        entrypoint = jobs.SIDECARS.get(container.get("image")) or case.entrypoint
        try:
            kubelet.command_line(container, kubelet.environment(container, pod, "127.0.0.1"), entrypoint)
        except kubelet.Unsupported as exc:
            yield f"{exc}; write entrypoint: [WORDS] for an image without a command, and values instead of references"


def _where(case: Case) -> str:
    return f"{case.family}.yaml: case {case.name}"


def arms_of(case: Case) -> list[Arm]:
    """The arms that a case has; the annotated one only where it says what to annotate."""
    return [arm for arm in Arm if arm is not Arm.ANNOTATED or case.annotate]


def affordable(todo: Sequence[Task]) -> list[Task]:
    """The runs of the fast part: no pods that only the naive patch or the policy comes to, but those that it breaks."""
    return [task for task in todo if not set(task.arms) <= {Arm.NAIVE, Arm.POLICY} or _breaks(task)]


def _breaks(task: Task) -> bool:
    """Whether the naive patch is said to break what works: the proof that the runner sees such a thing."""
    expect = task.case.expect
    return (
        Arm.NAIVE in task.arms and expect.get(Arm.OPERATOR) in _WORKS and expect.get(Arm.NAIVE) not in {None, *_WORKS}
    )

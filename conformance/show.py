"""What the runner prints: a line a run, faults with all that is needed to find their cause, and a summary."""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING

from conformance.compare import declared, regressions, right
from conformance.words import Arm

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from conformance.cases import Case
    from conformance.compare import Result, Task
    from conformance.run import Ran

SHOWN = ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NODE_RANK", "LOCAL_RANK", "PET_NNODES", "PET_NPROC_PER_NODE")


def line(text: str = "") -> None:
    """A line, at once."""
    print(text, flush=True)


def problems(lines: Iterable[str]) -> None:
    """What keeps the runner from its work."""
    for text in lines:
        print(f"conformance: {text}", file=sys.stderr, flush=True)


def ran(task: Task, came: Sequence[Result], progress: str, *, verbose: bool) -> None:
    """A run that is over."""
    result = came[0]
    if result.ran is None:
        return
    mark = "FAULT" if any(one.faults for one in came) else "ok   "
    names = "=".join(arm.value for arm in task.arms)
    line(f"{mark} {progress:>8} {task.case.name} [{names}] {result.ran.outcome}, {result.ran.seconds:.0f} s")
    if result.ran.why:
        line(f"          {result.ran.why}")
    if verbose:
        _details(task, result.ran)


def _details(task: Task, ran: Ran) -> None:
    for pod in task.made.pods:
        for container in pod["spec"]["containers"]:
            env = {entry["name"]: entry.get("value", "(from elsewhere)") for entry in container.get("env") or ()}
            told = " ".join(f"{name}={env[name]}" for name in SHOWN if name in env)
            line(f"          {pod['metadata']['name']}/{container['name']}: {told}")
    for text in ran.ranks:
        line(f"          {text}")
    for name, log in ran.logs:
        line(f"          --- the end of {name}'s log")
        line("\n".join(f"          {text}" for text in log.splitlines()))


def summary(chosen: Sequence[Case], done: Sequence[Result], seconds: float) -> int:
    """The number of faults and regressions of what is ours; each is told with its logs, and how to run it again."""
    ours = {Arm.RANKFIX, Arm.ANNOTATED}
    by_case = {case.name: [result for result in done if result.case.name == case.name] for case in chosen}
    broken = [result for results in by_case.values() for result in regressions(results)]
    bad = [r for r in done if r.faults or (r in broken and r.arm in ours and not declared(r))]
    for result in bad:
        _fault(result, regression=result in broken)
    _table(by_case)
    counted = Counter(result.arm.value for result in broken)
    told = ", ".join(f"{arm} {count}" for arm, count in sorted(counted.items())) or "none"
    line(f"regressions (right before, and not after): {told}")
    for result in broken:
        if declared(result):
            line(f"  declared: {result.case.name} [{result.arm}]: {result.case.known}")
    unsteady = [result for result in done if result.unsteady]
    if unsteady:
        line(f"ran twice, with two outcomes: {', '.join(f'{r.case.name} [{r.arm}]' for r in unsteady)}")
    line(f"{len(chosen)} cases, {len(bad)} faults, {seconds:.0f} s")
    return len(bad)


def _fault(result: Result, *, regression: bool) -> None:
    case = result.case
    line(f"\nFAULT {case.family}.yaml: case {case.name} [{result.arm}]")
    line(f"  {case.about}")
    if regression:
        line(f"  a regression: without {result.arm} it is {case.truth.right}, with it {result.outcome}")
    for fault in result.faults:
        line(f"  {fault}")
    if result.ran is not None:
        line(f"  why: {result.ran.why or 'nothing to tell'}")
        for name, log in result.ran.logs:
            line(f"  --- the end of {name}'s log")
            line("\n".join(f"  {text}" for text in log.splitlines()))
    line(f"  again: make conformance ARGS='--case {case.name} --arm {result.arm} -v' CASES={case.path}")


def _table(by_case: dict[str, list[Result]]) -> None:
    line()
    for arm in Arm:
        found = [result for results in by_case.values() for result in results if result.arm is arm]
        shown = [result for result in found if result.ran is not None]
        judged = [result for result in shown if result.case.truth.right is not None]
        if not found:
            continue
        outcomes = Counter(result.outcome.value for result in shown if result.outcome is not None)
        told = ", ".join(f"{count} {name}" for name, count in outcomes.most_common())
        line(f"{arm:10} right in {sum(map(right, judged))} of {len(judged)}   {told}")
        for reason in sorted({result.skipped for result in found if result.ran is None}):
            line(f"{'':10} skipped in {sum(result.skipped == reason for result in found)}: {reason}")

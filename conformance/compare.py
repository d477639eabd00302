"""All arms of many cases: pods made, equal ones run once, several at a time; what came out, against what was said."""

from __future__ import annotations

import tempfile
from concurrent.futures import CancelledError, ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from conformance import arms, run, same, staged
from conformance.run import Ran, Stage
from conformance.words import Arm, Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from conformance.arms import Made, Treat
    from conformance.budget import Budget
    from conformance.cases import Case
    from conformance.jobs import Pod
    from conformance.watch import Sampler
    from demo.net import Network

THREADS = 16  # runs that only wait cost no more than a thread each


@dataclass(frozen=True, slots=True)
class Result:
    """A case in one arm. `like` is the arm with the same pods, whose run this is; `faults` what wasn't foreseen."""

    case: Case
    arm: Arm
    ran: Ran | None  # None: skipped
    skipped: str = ""
    like: Arm | None = None
    faults: tuple[str, ...] = ()
    unsteady: str = ""  # what a first run came to, if a second one came to something else

    @property
    def outcome(self) -> Outcome | None:
        """None: the arm was skipped."""
        return self.ran.outcome if self.ran else None


@dataclass(slots=True)
class Task:
    """Pods to run, and the arms that come to them."""

    case: Case
    made: Made
    arms: list[Arm]
    make: Callable[[int | None], Sequence[Pod]]

    @property
    def weight(self) -> int:
        """The processes that it is expected to start."""
        return max(len(run.starters(self.made.pods)), self.case.truth.world or 0)

    @property
    def order(self) -> tuple[float, int]:
        """Those that take long by waiting begin first."""
        slow = bool(self.case.scale or self.case.recreate)
        return (-run.patience(self.case) - 100 * slow, -self.weight)


@dataclass(frozen=True, slots=True)
class Place:
    """Where and how runs take place."""

    sampler: Sampler
    network: Callable[[Path], Network]
    budget: Budget
    keep: Path | None = None
    threads: int = THREADS


def tasks(case: Case, which: Iterable[Arm], policy: Treat, *, share: bool = True) -> tuple[list[Task], list[Result]]:
    """What has to be run for a case, and the arms of which that is clear without.

    Raises:
        BadCase: the job makes no pods.
    """
    todo: dict[str, Task] = {}
    settled = []
    unread = same.unread(case) if share else ()
    for arm in which:
        made = arms.made(case, arm, policy)
        if made.denied or made.skipped:
            settled.append(_settled(case, arm, made))
            continue
        key = same.digest(made.pods, unread) if share else arm.value
        if key in todo:
            todo[key].arms.append(arm)
        else:
            todo[key] = Task(case, made, [arm], _maker(case, arm, policy))
    return list(todo.values()), settled


def _settled(case: Case, arm: Arm, made: Made) -> Result:
    ran = Ran(Outcome.DENIED, made.denied) if made.denied else None
    return judged(Result(case, arm, ran, skipped=made.skipped or ""), made)


def _maker(case: Case, arm: Arm, policy: Treat) -> Callable[[int | None], Sequence[Pod]]:
    """The same pods once more, admitted anew; another number of Workers."""
    return lambda workers: arms.made(case, arm, policy, workers=workers).pods


def perform(todo: Sequence[Task], place: Place) -> Iterator[tuple[Task, Ran]]:
    """Run all, several at a time; each as it is over."""
    with ThreadPoolExecutor(place.threads) as pool:
        futures = {pool.submit(_perform, task, place): task for task in sorted(todo, key=lambda task: task.order)}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            place.sampler.stop()  # the runs in progress end at once
            raise


def _perform(task: Task, place: Place) -> Ran:
    with place.budget.place(task.weight) as moving, tempfile.TemporaryDirectory(prefix="rankfix-case-") as name:
        if place.sampler.stopped:
            raise CancelledError
        folder = Path(name) if place.keep is None else place.keep / task.case.name / task.arms[0].value
        folder = folder.with_name(f"{folder.name}-again") if any(folder.glob("*")) else folder
        folder.mkdir(parents=True, exist_ok=True)
        stage = Stage(folder, place.sampler, place.network, moving)
        return _staged(task, stage)


def _staged(task: Task, stage: Stage) -> Ran:
    if task.case.recreate:
        return staged.recreated(task.case, lambda: task.make(None), stage)
    if task.case.scale:
        return staged.scaled(task.case, task.make, stage)
    return run.run(task.case, task.made.pods, stage)


def results(task: Task, ran: Ran, *, before: Ran | None = None) -> list[Result]:
    """What a run means for each of its arms; `before` is a first run, if this one is the second."""
    unsteady = before.outcome.value if before is not None and before.outcome is not ran.outcome else ""
    first = task.arms[0]
    return [
        judged(Result(task.case, arm, ran, like=None if arm is first else first, unsteady=unsteady), task.made)
        for arm in task.arms
    ]


def judged(result: Result, made: Made) -> Result:
    """The result with its faults: what the case foresaw otherwise."""
    faults = [] if foreseen(result) else [_surprise(result)]
    if result.arm is Arm.RANKFIX and made.said is not None:
        faults += arms.faults(result.case, made.said)
    return Result(result.case, result.arm, result.ran, result.skipped, result.like, tuple(faults), result.unsteady)


def foreseen(result: Result) -> bool:
    """Whether the outcome is one that the case foresaw, or that it says nothing about."""
    expected = result.case.expect.get(result.arm)
    return not expected or result.ran is None or result.ran.outcome in expected


def _surprise(result: Result) -> str:
    expected = " or ".join(result.case.expect[result.arm])
    return f"expected {expected}, and it came to: {result.outcome}"


def right(result: Result) -> bool:
    """Whether a result is what its case's author wants."""
    return result.outcome is not None and result.outcome is result.case.truth.right


def regressions(of_case: Iterable[Result]) -> list[Result]:
    """The results of one case that are worse than the operator's own, which was right."""
    found = {result.arm: result for result in of_case}
    operator = found.get(Arm.OPERATOR)
    if operator is None or not right(operator):
        return []
    return [result for result in found.values() if result.ran is not None and not right(result)]


def declared(regression: Result) -> bool:
    """Whether the case says that rankfix breaks it, and why; the annotated arm must not."""
    return regression.case.known is not None and regression.arm is Arm.RANKFIX

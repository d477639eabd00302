"""Runs in which pods go and come while the job runs: one that is deleted and made anew, and Workers that are scaled.

The training processes go on until the file that CONFORMANCE_STOP names is there. In each stage all living pods have to
come to be one group.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from conformance import judge, run, watch
from conformance.activity import alive
from conformance.run import Ran, starters
from conformance.words import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from conformance.cases import Case, Truth
    from conformance.jobs import Pod
    from conformance.judge import Seen
    from conformance.run import Stage
    from demo.pods import LocalPods

RESTARTS = 8  # of all containers of a job together
_TICK = 0.25


@dataclass(slots=True)
class _Job:
    """A running job, as its operator and kubelet look after it."""

    case: Case
    local: LocalPods
    stage: Stage
    pods: dict[str, Pod]
    restarts: int = 0

    def delete(self, name: str) -> None:
        self.local.delete(name)
        del self.pods[name]

    def start(self, pods: Sequence[Pod]) -> None:
        self.pods |= {pod["metadata"]["name"]: pod for pod in pods}
        self.local.start(pods)

    def restart_failed(self) -> None:
        """What kubelet does under OnFailure: the same container again, with the same env; a few times."""
        for (name, _), code in self.local.codes().items():
            if code and name in self.pods and self.restarts < RESTARTS:
                self.restarts += 1
                pod = self.pods[name]
                self.delete(name)
                self.start([pod])

    def living(self) -> list[Seen]:
        """The training processes that haven't ended; their pids are this machine's."""
        return [one for one in self.stage.seen() if alive(one.process[1])]

    def assembled(self, truth: Truth) -> bool:
        """Whether all that lives is one group, of all pods."""
        return judge.together(self.living(), self.pods, truth)

    def until(self, holds: Callable[[], bool]) -> str:
        """Wait; why that came to nothing, or ""."""
        still = watch.Stillness(self.stage.sampler, self.local.mark, self.stage.folder)
        most = run.limit(self.case, len(starters(self.pods.values())))
        deadline = time.monotonic() + most
        while time.monotonic() < deadline and not self.stage.sampler.stopped:
            if holds():
                return ""
            self.restart_failed()
            self.stage.moving(still.seconds() < 1)
            if still.enough(run.patience(self.case)):
                return "nothing moves any more"
            time.sleep(_TICK)
        return f"not over after {most:.0f} s"


def recreated(case: Case, make: Callable[[], Sequence[Pod]], stage: Stage) -> Ran:
    """All together; then the pod that the case names is deleted, and made and admitted anew; then all together again,
    each pod with the ranks that it had.
    """
    victim = next(pod for pod in make() if pod["metadata"]["name"].endswith(str(case.recreate)))["metadata"]["name"]

    def again(job: _Job) -> str:
        ranks = _ranks(job.living())
        job.delete(victim)
        job.start([pod for pod in make() if pod["metadata"]["name"] == victim])
        if cut := job.until(lambda: job.assembled(case.truth)):
            return f"{victim} was made anew: {cut}"
        after = _ranks(job.living())
        return "" if after == ranks else f"{victim} was made anew, and the ranks are {after}, not {ranks}"

    return _staged(case, make(), stage, [again])


def scaled(case: Case, make: Callable[[int], Sequence[Pod]], stage: Stage) -> Ran:
    """The Workers of an elastic job are as many as each number of `scale` says, one after another."""
    each = (case.truth.world or case.scale[-1]) // case.scale[-1]

    def to(count: int) -> Callable[[_Job], str]:
        def scale(job: _Job) -> str:
            wanted = {pod["metadata"]["name"]: pod for pod in make(count)}
            for name in [name for name in job.pods if name not in wanted]:
                job.delete(name)
            job.start([pod for name, pod in wanted.items() if name not in job.pods])
            truth = case.truth.model_copy(update={"world": count * each})
            cut = job.until(lambda: job.assembled(truth))
            return f"{count} Workers: {cut}" if cut else ""

        return scale

    first, *rest = case.scale
    case_of_first = case.model_copy(update={"truth": case.truth.model_copy(update={"world": first * each})})
    return _staged(case_of_first, make(first), stage, [to(count) for count in rest])


def _staged(case: Case, pods: Sequence[Pod], stage: Stage, steps: Sequence[Callable[[_Job], str]]) -> Ran:
    began = time.monotonic()
    stop = stage.folder / "stop"
    with stage.local(case, CONFORMANCE_STOP=str(stop)) as local:
        job = _Job(case, local, stage, {})
        job.start(pods)
        cut = job.until(lambda: job.assembled(case.truth))
        for step in steps:
            cut = cut or step(job)
        seen = job.living()
        stop.touch()
        ended = local.wait(run.LIMIT if not cut else 0)
    seconds = time.monotonic() - began
    if cut or any(one.code for one in ended):
        return run.ran(judge.Evidence(tuple(job.pods), stage.seen(), tuple(ended), cut), case.truth, seconds)
    return Ran(Outcome.TOGETHER, "", seconds, tuple(seen))


def _ranks(seen: Sequence[Seen]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for one in seen:
        if one.rank is not None:
            found.setdefault(one.process[0], []).append(one.rank)
    return {pod: sorted(ranks) for pod, ranks in sorted(found.items())}

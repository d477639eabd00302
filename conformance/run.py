"""One run: a case's pods as real processes, until it is clear what becomes of them."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from conformance import jobs, judge, tell, watch
from conformance.cases import PROGRAM, PROGRAMS, ROOT, program
from demo.pods import LocalPods

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from conformance.cases import Case, Truth
    from conformance.jobs import Pod
    from conformance.judge import Seen
    from conformance.watch import Sampler
    from conformance.words import Outcome
    from demo.net import Network

LIMIT, LIMIT_EACH = 60.0, 15.0  # seconds of a run that never falls still, and more for each process
# Of stillness: a rendezvous notices only after 15 s that somebody has gone, and one that may have more than the least
# number waits for 30 s whether more come.
PATIENT, MORE_PATIENT = 20.0, 40.0
_RENDEZVOUS = re.compile(r"rdzv[-_]backend|elasticPolicy|RDZV_BACKEND", re.IGNORECASE)
_RANGE = re.compile(r"nnodes['\", =]+\d+:\d+|minReplicas")
_GRACE = 0.3  # nothing is kept of a process that must be ended
_MACHINE = (ROOT / "conformance" / "machine", PROGRAMS / "site")
_TICK = 0.1


@dataclass(frozen=True, slots=True)
class Ran:
    """What became of some pods: the outcome, why it is none better, and what is left to look at."""

    outcome: Outcome
    why: str = ""
    seconds: float = 0.0
    processes: tuple[Seen, ...] = ()
    logs: tuple[tuple[str, str], ...] = ()  # container, the end of its log

    @property
    def ranks(self) -> list[str]:
        """`POD: rank R of W`, of each process that joined a group."""
        joined = sorted((one.process[0], one.rank or 0, one.world) for one in self.processes if one.members)
        return [f"{pod}: rank {rank} of {world}" for pod, rank, world in joined]


def _ignore(_: bool) -> None:
    """For those who needn't know."""


@dataclass(slots=True)
class Stage:
    """Where one run takes place: a folder of its own; `moving` is told whether it wants the CPUs."""

    folder: Path
    sampler: Sampler
    network: Callable[[Path], Network]
    moving: Callable[[bool], None] = field(default=_ignore)

    @property
    def records(self) -> Path:
        """Where the training processes write."""
        return self.folder / "records"

    def local(self, case: Case, **more: str) -> LocalPods:
        """The local pods of the run."""
        self.records.mkdir(parents=True)
        environment = {
            "CONFORMANCE_OUT": str(self.records),
            "PYTHONPATH": ":".join(map(str, _MACHINE)),
            "OMP_NUM_THREADS": "1",
            **more,
        }
        return LocalPods(
            self.folder,
            network=self.network(self.folder),
            entrypoints=_Entrypoints(case.entrypoint),
            environment=environment,
            files={path: _text(text) for path, text in case.files.items()},
            inits=True,
            grace=_GRACE,
        )

    def seen(self) -> tuple[Seen, ...]:
        """The training processes, as far as they have written."""
        files = self.records.glob("*.jsonl")
        return judge.processes(judge.read(line for file in files for line in file.read_text().splitlines()))


class _Entrypoints(dict[str, Any]):
    """What any image of a case runs by itself, but for those of the sidecars."""

    def __init__(self, words: Sequence[str]) -> None:
        super().__init__(jobs.SIDECARS)
        self._words = words

    def get(self, key: str, default: Any = None) -> Any:  # noqa: ANN401 - as dict's
        return super().get(key) or self._words or default


def _text(file: str) -> str:
    return program(file).read_text(encoding="utf-8") if file.startswith(PROGRAM) else file


def run(case: Case, pods: Sequence[Pod], stage: Stage) -> Ran:
    """Start the pods of a case, and wait until it is clear what becomes of them. Nothing runs afterwards.

    Raises:
        kubelet.Unsupported: a container asks for what only a cluster has.
    """
    began = time.monotonic()
    with stage.local(case) as local:
        local.start(pods)
        cut = _until_over(case, starters(pods), local, stage)
        ended = local.wait(0)
    seconds = time.monotonic() - began
    mine = tuple(one for one in ended if (one.pod, one.container) in starters(pods))
    names = tuple(pod["metadata"]["name"] for pod in pods)
    return ran(judge.Evidence(names, stage.seen(), mine, cut), case.truth, seconds)


def ran(evidence: judge.Evidence, truth: Truth, seconds: float) -> Ran:
    """What became of pods that are gone."""
    verdict = judge.verdict(evidence, truth)
    logs = tuple((one.name, tell.tail(one.log)) for one in evidence.ended)
    return Ran(verdict.outcome, verdict.why, seconds, evidence.processes, logs)


def starters(pods: Iterable[Pod]) -> set[tuple[str, str]]:
    """The containers, by pod, whose end is their pod's."""
    return {(pod["metadata"]["name"], name) for pod in pods for name in jobs.starters(pod)}


def _until_over(case: Case, mine: set[tuple[str, str]], local: LocalPods, stage: Stage) -> str:
    """Why the run must be ended from outside; "" if it has come to its end."""
    still = watch.Stillness(stage.sampler, local.mark, stage.folder)
    most, quiet = limit(case, len(mine)), patience(case)
    deadline = time.monotonic() + most
    while time.monotonic() < deadline and not stage.sampler.stopped:
        codes = local.codes()
        if all(codes[one] is not None for one in mine):
            return ""
        silent = still.seconds()
        stage.moving(silent < 1)
        if any(codes[one] for one in mine) and silent >= watch.AFTER_CRASH:
            return "others wait for one that has ended"
        if still.enough(quiet):
            return f"nothing moves any more after {still.moved():.0f} s"
        time.sleep(_TICK)
    return f"not over after {most:.0f} s"


def patience(case: Case) -> float:
    """The seconds of stillness that mean a hang."""
    words = f"{case.job} {case.files}"
    if case.quiet is not None:
        return case.quiet
    return MORE_PATIENT if _RANGE.search(words) else PATIENT if _RENDEZVOUS.search(words) else watch.QUIET


def limit(case: Case, containers: int) -> float:
    """The seconds after which a run that still moves is ended."""
    return case.limit or LIMIT + LIMIT_EACH * max(containers, case.truth.world or 0)

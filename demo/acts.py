"""What happens in the demo: the job without rankfix, the repair, the job with it, and what both came to."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from demo import job
from demo.pods import LocalPods

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from demo.job import Pod, Repaired
    from demo.net import Network
    from demo.pods import Ended
    from demo.server import Client
    from demo.story import Story

PLAIN = job.ROOT / "demo" / "plain.py"
TARGET = 0.97
SOME = 4  # where no bar moves, every fourth epoch is told
_NUMBER = re.compile(r"(\w+)=(\S+)")
_QUIET = {"TORCH_CPP_LOG_LEVEL": "ERROR"}  # torch warns of each address that has no name


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds. `silence`: how long waiting pods are watched, once each of their processes waits."""

    fail: float = 120
    gather: float = 180
    silence: float = 6
    together: float = 180
    train: float = 900


@dataclass(slots=True)
class Stage:
    """Where the pods run."""

    folder: Path
    network: Callable[[], Network]
    story: Story
    limits: Limits
    left: int = 0

    def run(
        self,
        pods: Sequence[Pod],
        limit: float,
        watch: Callable[[str, str], None] | None = None,
        until: Callable[[], bool] | None = None,
    ) -> list[Ended]:
        """Run some pods to their end or to the limit, with nothing of them left."""
        with LocalPods(self.folder, network=self.network(), environment=_QUIET) as local:
            local.start(pods)
            ended = local.wait(limit, watch, until)
            self.left += len(local.left)
        return ended


def short(pod: str) -> str:
    """A pod's name without the job's."""
    return "-".join(pod.rsplit("-", 2)[-2:])


def fails_with_a_reason(stage: Stage, pods: Sequence[Pod]) -> str:
    """The trainer, which looks at its ranks first: it ends at once, and says what is wrong."""
    story = stage.story
    story.command("python -m trainer")
    ended = stage.run(pods, stage.limits.fail)
    said: set[str] = set()
    for one in ended:
        text = _last(one.log)
        shape = re.sub(r"\d+", "", text)
        story.line(short(one.pod), "the same" if shape in said else text)
        said.add(shape)
    codes = ", ".join(str(one.code) for one in ended)
    story.promise(
        "without rankfix the trainer refuses: the operator's pair is half pods, half processes",
        kept=all(one.code not in (0, None) and "raw pair" in one.log for one in ended),
    )
    return f"ends with code {codes}"


def _last(log: str) -> str:
    return (log.strip().splitlines() or ["(nothing)"])[-1]


@dataclass(slots=True)
class Waiting:
    """Counts the processes of the plain script that wait, and says when they have been silent for long enough."""

    processes: int
    silence: float
    lines: list[tuple[str, str]] = field(default_factory=list)
    since: float = 0.0

    def hear(self, pod: str, line: str) -> None:
        """A line that a pod wrote."""
        if line.startswith("rank "):
            self.lines.append((pod, line))
            self.since = time.monotonic()

    def is_over(self) -> bool:
        """Whether all wait, and have for so long."""
        return len(self.lines) >= self.processes and time.monotonic() - self.since > self.silence


def hangs(stage: Stage, pods: Sequence[Pod]) -> str:
    """A script that doesn't look: it waits for ranks that nobody has."""
    story, limits = stage.story, stage.limits
    story.command("python plain.py        # as most scripts are: no roll call, no time limit")
    waiting = Waiting(processes(pods), limits.silence)
    ended = stage.run(job.with_command(pods, "python", str(PLAIN)), limits.gather, waiting.hear, waiting.is_over)
    for pod, line in waiting.lines:
        story.line(short(pod), line)
    story.promise(
        f"without rankfix a plain script hangs: {processes(pods)} processes wait for each other, and none gets on",
        kept=all(one.code is None for one in ended) and len(waiting.lines) == processes(pods),
    )
    story.say(
        f"  (watched for {limits.silence:g} s in silence, then stopped; torch itself would wait for half an hour)",
        "dim",
    )
    return "hangs"


def processes(pods: Iterable[Pod]) -> int:
    """The processes of all pods."""
    return sum(int(job.env(pod)["PET_NPROC_PER_NODE"]) for pod in pods)


def repair(stage: Stage, pods: Sequence[Pod], client: Client) -> list[Repaired]:
    """Send each pod to the server, and show what it changes."""
    story = stage.story
    story.say(
        f"Each pod goes to https://127.0.0.1:{client.port}/mutate as an AdmissionReview, as the API server sends it:"
    )
    repaired = [job.repair(pod, client) for pod in pods]
    for one in repaired:
        story.line(short(one.name), f"rule {one.rules}: {', '.join(_told(one))}", "green")
    story.promise(
        "the server allows each pod, repairs it, and has nothing to add to it at a second call",
        kept=all(one.allowed and any(one.changes()) and not one.again for one in repaired),
    )
    return repaired


def _told(one: Repaired) -> Iterator[str]:
    for name, before, after in one.changes():
        if name in job.SHOWN:
            yield f"{name} {before} → {after}" if before else f"{name}={after} is added"


def gets_together(stage: Stage, pods: Sequence[Pod]) -> str:
    """The same plain script, with ranks that are right."""
    story, count = stage.story, processes(pods)
    story.command("python plain.py")
    told: list[tuple[str, str]] = []
    ended = stage.run(
        job.with_command(pods, "python", str(PLAIN)),
        stage.limits.together,
        lambda pod, line: told.append((pod, line)) if "together" in line else None,
    )
    for pod, line in told:
        story.line(short(pod), line)
    total = sum(range(count))
    story.promise(
        f"with rankfix the plain script finds together: {count} ranks, each once",
        kept=all(one.code == 0 for one in ended)
        and len([1 for _, line in told if line.endswith(f" {total}")]) == count,
    )
    return "finds together"


@dataclass(slots=True)
class Training:
    """What the master's log tells while it trains."""

    update: Callable[[int, int, str], None]
    answers: Callable[[str], None]
    verified: str = ""
    result: dict[str, str] = field(default_factory=dict)

    def hear(self, pod: str, line: str) -> None:
        """A line that a pod wrote."""
        del pod
        word, _, rest = line.partition(" ")
        values = dict(_NUMBER.findall(line))
        if word == "roll":
            self.answers(rest)
        elif word == "epoch":
            told = f"loss {values['loss']}" + (f", accuracy {values['accuracy']}" if "accuracy" in values else "")
            self.update(int(values["epoch"]), int(values["epochs"]), told)
        elif word == "verified":
            self.verified = line
        elif line.startswith("accuracy="):
            self.result = values


def trains(stage: Stage, pods: Sequence[Pod]) -> str:
    """The trainer: roll call, training, and the proof of its ranks at the end."""
    story, count = stage.story, processes(pods)
    story.command("python -m trainer")
    with story.bar() as bar:
        task = bar.add_task("training", total=None, told="roll call")

        def update(done: int, of: int, told: str) -> None:
            bar.update(task, completed=done, total=of, told=told)
            if not story.moves and (done % SOME == 0 or done == of):
                story.line("master-0", f"epoch {done} of {of}: {told}")

        training = Training(update, lambda entry: story.line("roll", entry))
        ended = stage.run(pods, stage.limits.train, training.hear)
    for one in ended if any(one.code for one in ended) else ():
        story.line(short(one.pod), _last(one.log), "red")
    accuracy = float(training.result.get("accuracy", "0"))
    told = training.result
    story.line("master-0", training.verified or "(nothing was verified)", "green")
    story.line(
        "master-0", f"accuracy={told.get('accuracy')} world={told.get('world')} total_s={told.get('total_s')}", "green"
    )
    story.promise(
        f"with rankfix {count} ranks train together to over {TARGET:.0%}: {accuracy:.1%}",
        kept=all(one.code == 0 for one in ended) and f"ranks={count} " in training.verified and accuracy >= TARGET,
    )
    return f"trains to {accuracy:.1%}"

"""The demo's job and its pods: before rankfix as training-operator 1.9 makes them, after it as the server answers."""

from __future__ import annotations

import base64
import copy
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from webhook import operator_
from webhook.mutate import patched
from webhook.operator_job import GENERATIONS, NEWEST
from webhook.review import review_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from demo.server import Client

ROOT = Path(__file__).parents[1]
JOB = ROOT / "deploy" / "examples" / "pytorchjob-mnist-cpu.yaml"
SHOWN = ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NODE_RANK")

Pod = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Repaired:
    """A pod before and after, and the server's answer."""

    before: Pod
    after: Pod
    allowed: bool
    again: int  # operations in the answer to a second call

    @property
    def name(self) -> str:
        """The pod's name."""
        return name(self.before)

    @property
    def rules(self) -> str:
        """The rules that fired, by the pod's own annotation."""
        return str(self.after["metadata"].get("annotations", {}).get("rankfix/rules", "none"))

    def changes(self) -> Iterator[tuple[str, str | None, str]]:
        """Variables that differ: name, before, after."""
        before, after = env(self.before), env(self.after)
        yield from ((key, before.get(key), value) for key, value in after.items() if before.get(key) != value)


def load(path: Path = JOB) -> Pod:
    """The job."""
    job: Pod = yaml.safe_load(path.read_text(encoding="utf-8"))
    return job


def pods(job: Pod) -> list[Pod]:
    """Its pods, Master first."""
    return operator_.pods(job, GENERATIONS[NEWEST])


def with_command(made: Sequence[Pod], *command: str) -> list[Pod]:
    """The same pods with another command, and no arguments."""
    changed = copy.deepcopy(list(made))
    for container in (container for pod in changed for container in pod["spec"]["containers"]):
        container |= {"command": list(command)}
        container.pop("args", None)
    return changed


def with_arguments(made: Sequence[Pod], *arguments: str, without: str = "") -> list[Pod]:
    """The same pods with more arguments, the later one of two counts; and without those that begin like this."""
    changed = copy.deepcopy(list(made))
    for container in (container for pod in changed for container in pod["spec"]["containers"]):
        kept = [word for word in container.get("args") or () if not (without and word.startswith(without))]
        container["args"] = [*kept, *arguments]
    return changed


def repair(pod: Pod, client: Client) -> Repaired:
    """Send a pod to the server as the API server would, apply the answer, and send it once more."""
    answer = client.review(_body(pod))
    after: Pod = patched(pod, patch_of(answer))
    again = patch_of(client.review(_body(after)))
    return Repaired(pod, after, bool(answer.get("allowed")), len(again))


def _body(pod: Pod) -> bytes:
    return json.dumps(review_of(pod)).encode()


def patch_of(answer: Pod) -> list[Any]:
    """The JSON Patch of an answer, empty if it has none."""
    encoded = answer.get("patch")
    operations: list[Any] = json.loads(base64.b64decode(encoded)) if encoded else []
    return operations


def env(pod: Pod) -> dict[str, str]:
    """The variables of the container `pytorch`; of one name the last counts, as for kubelet."""
    container = next(item for item in pod["spec"]["containers"] if item["name"] == "pytorch")
    return {entry["name"]: entry.get("value", "") for entry in container.get("env") or ()}


def name(pod: Pod) -> str:
    """A pod's name."""
    return str(pod["metadata"]["name"])

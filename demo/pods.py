"""A recorded pod before and after its answer: what the table shows, and what must be true of it."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from webhook.mutate import patched

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

RULES = "rankfix/rules"


@dataclass(frozen=True, slots=True)
class Seen:
    """A pod as the API server sent it, and as it is with the server's patch applied."""

    name: str
    before: dict[str, Any]
    after: dict[str, Any]

    def env(self, name: str) -> tuple[str, str]:
        """A variable before and after, "-" where there's none. The last entry counts, as for the kubelet."""
        return _env(self.before).get(name, "-"), _env(self.after).get(name, "-")

    def words(self) -> list[tuple[str, str]]:
        """Words of command and arguments that differ, before and after."""
        pairs = zip(_words(self.before), _words(self.after), strict=True)
        return [(before, after) for before, after in pairs if before != after]

    def flag(self, name: str) -> str:
        """The value of `--name=value` in the arguments afterwards, "" if it isn't there."""
        found = [re.fullmatch(rf"--{name}=(.*)", word) for word in _words(self.after)]
        return next((match[1] for match in found if match), "")

    @property
    def rules(self) -> str:
        """The rules that fired, as the pod's own annotation says."""
        annotations: dict[str, str] = self.after["metadata"].get("annotations", {})
        return annotations.get(RULES, "-")


def recorded(folder: Path, job: str) -> list[tuple[str, bytes]]:
    """Name and review of each pod of a job, Master first."""
    return [(path.stem, path.read_bytes()) for path in sorted(folder.glob(f"{job}-*-[0-9].json"))]


def seen(name: str, review: bytes, response: dict[str, Any]) -> Seen:
    """The pod in `review`, and the same with the patch in `response` applied."""
    before = json.loads(review)["request"]["object"]
    return Seen(name, before, patched(before, patch(response)))


def patch(response: dict[str, Any]) -> list[Any]:
    """The JSON Patch of an answer, empty if it has none."""
    encoded = response.get("patch")
    operations: list[Any] = json.loads(base64.b64decode(encoded)) if encoded else []
    return operations


def again(review: bytes, pod: Seen) -> bytes:
    """The review that the API server would send if it called a second time, with the patched pod."""
    document = json.loads(review)
    document["request"]["object"] = pod.after
    return json.dumps(document).encode()


def ranks_tile(pods: Sequence[Seen]) -> bool:
    """Whether the processes of all pods number 0 to WORLD_SIZE-1, each once, and all agree on WORLD_SIZE."""
    ranks: list[int] = []
    for pod in pods:
        first, count = int(pod.env("RANK")[1]), int(pod.env("LOCAL_WORLD_SIZE")[1])
        ranks += range(first, first + count)
    sizes = {pod.env("WORLD_SIZE")[1] for pod in pods}
    return sizes == {str(len(ranks))} and sorted(ranks) == list(range(len(ranks)))


def pair_is_of_nodes(pods: Sequence[Seen]) -> bool:
    """Whether RANK and WORLD_SIZE count pods, which is what `--node_rank=$RANK --nnodes=$WORLD_SIZE` needs."""
    pairs = [(pod.env("RANK")[1], pod.env("WORLD_SIZE")[1]) for pod in pods]
    return pairs == [(str(number), str(len(pods))) for number in range(len(pods))]


def nodes_find_their_master(pods: Sequence[Seen]) -> bool:
    """Whether each launcher has a node rank of its own and asks the job's Master."""
    flags = [(pod.flag("node_rank"), pod.flag("nnodes"), pod.flag("master_addr")) for pod in pods]
    return flags == [(str(number), str(len(pods)), "$(MASTER_ADDR)") for number in range(len(pods))]


def _container(pod: dict[str, Any]) -> dict[str, Any]:
    container: dict[str, Any] = next(item for item in pod["spec"]["containers"] if item["name"] == "pytorch")
    return container


def _env(pod: dict[str, Any]) -> dict[str, str]:
    return {entry["name"]: entry.get("value", "") for entry in _container(pod).get("env") or []}


def _words(pod: dict[str, Any]) -> list[str]:
    container = _container(pod)
    return [*(container.get("command") or []), *(container.get("args") or [])]

"""What is measured: request bodies, made from recorded reviews."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

REVIEWS = Path(__file__).resolve().parent.parent / "tests" / "data" / "reviews" / "v1.9.0"
EXEC_FORM = "bare-n4-worker-0"
SHELL_FORM = "torchrun-shell-n8-worker-0"
PODS, RANKS = "99999999", "399999996"  # of a job so large that each pod of a run can be another


@dataclass(frozen=True, slots=True)
class Case:
    """Bodies that are sent in turn; with one of them, each after the first is the same text again."""

    name: str
    bodies: Sequence[bytes]
    calls: int

    def turns(self) -> Iterator[bytes]:
        """`calls` bodies."""
        return (self.bodies[number % len(self.bodies)] for number in range(self.calls))


def recorded(name: str) -> dict[str, Any]:
    """A recorded AdmissionReview."""
    review: dict[str, Any] = json.loads((REVIEWS / f"{name}.json").read_text(encoding="utf-8"))
    return review


def body(review: dict[str, Any]) -> bytes:
    """The bytes that an API server would send."""
    return json.dumps(review, separators=(",", ":")).encode()


def with_env(entries: int) -> bytes:
    """The pod in exec form with `entries` variables of its own before the operator's, in its managedFields too."""
    review = recorded(EXEC_FORM)
    pod = review["request"]["object"]
    container = pod["spec"]["containers"][0]
    own = [{"name": f"SETTING_{number}", "value": f"value-{number}"} for number in range(entries)]
    container["env"] = own + container["env"]
    fields = pod["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]["f:containers"]['k:{"name":"pytorch"}']["f:env"]
    fields |= {f'k:{{"name":"{one["name"]}"}}': {".": {}, "f:name": {}, "f:value": {}} for one in own}
    return body(review)


def with_new_text(number: int) -> bytes:
    """The pod in shell form with a text that no other number gives."""
    review = recorded(SHELL_FORM)
    review["request"]["object"]["spec"]["containers"][0]["command"][-1] += f" --seed {number}"
    return body(review)


def with_new_rank(number: int) -> bytes:
    """The pod in exec form as another worker of a large job: what differs between the pods of a job does."""
    review = recorded(EXEC_FORM)
    pod = review["request"]["object"]
    job = pod["metadata"]["labels"]["training.kubeflow.org/job-name"]
    review["request"] |= {"uid": f"uid-{number}", "name": f"{job}-worker-{number}"}
    pod["metadata"]["name"] = f"{job}-worker-{number}"
    pod["metadata"]["labels"]["training.kubeflow.org/replica-index"] = str(number)
    changed = {"RANK": str(number + 1), "PET_NODE_RANK": str(number + 1), "PET_NNODES": PODS, "WORLD_SIZE": RANKS}
    for entry in pod["spec"]["containers"][0]["env"]:
        entry["value"] = changed.get(entry["name"], entry["value"])
    return body(review)


def all_cases(calls: int) -> list[Case]:
    """The table's rows, the small pods `calls` times each and the large ones less often."""
    return [
        Case("exec form", [body(recorded(EXEC_FORM))], calls),
        Case("shell form, text seen before", [body(recorded(SHELL_FORM))], calls),
        Case("exec form, each pod new", [with_new_rank(number) for number in range(calls)], calls),
        Case("shell form, each text new", [with_new_text(number) for number in range(calls)], calls),
        Case("100 env entries (25 KiB)", [with_env(100)], max(calls // 10, 3)),
        Case("1,000 env entries", [with_env(1_000)], max(calls // 20, 3)),
        Case("1,500 env entries", [with_env(1_500)], max(calls // 20, 3)),
        Case("10,000 env entries", [with_env(10_000)], max(calls // 100, 3)),
    ]

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
    """The pod in exec form with `entries` variables of its own before the operator's."""
    review = recorded(EXEC_FORM)
    container = review["request"]["object"]["spec"]["containers"][0]
    own = [{"name": f"SETTING_{number}", "value": f"value-{number}"} for number in range(entries)]
    container["env"] = own + container["env"]
    return body(review)


def with_new_text(number: int) -> bytes:
    """The pod in shell form with a text that no other number gives."""
    review = recorded(SHELL_FORM)
    review["request"]["object"]["spec"]["containers"][0]["command"][-1] += f" --seed {number}"
    return body(review)


def all_cases(calls: int) -> list[Case]:
    """The table's rows, the small pods `calls` times each and the large ones less often."""
    return [
        Case("exec form", [body(recorded(EXEC_FORM))], calls),
        Case("shell form, text seen before", [body(recorded(SHELL_FORM))], calls),
        Case("shell form, each text new", [with_new_text(number) for number in range(calls)], calls),
        Case("1,000 env entries", [with_env(1_000)], max(calls // 20, 3)),
        Case("10,000 env entries", [with_env(10_000)], max(calls // 100, 3)),
    ]

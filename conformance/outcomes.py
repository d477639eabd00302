"""What came out, as data that a page can be made of: nothing in it depends on the machine or the hour."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from conformance.compare import right

if TYPE_CHECKING:
    from collections.abc import Sequence

    from conformance.cases import Case
    from conformance.compare import Result

_SECONDS = re.compile(r" after \d+ s\b")


def text(chosen: Sequence[Case], done: Sequence[Result]) -> str:
    """JSON, a line an arm."""
    cases = [_case(case, [result for result in done if result.case.name == case.name]) for case in chosen]
    return json.dumps({"cases": cases}, indent=1) + "\n"


def _case(case: Case, results: Sequence[Result]) -> dict[str, Any]:
    return {
        "case": case.name,
        "family": case.family,
        "truth": case.truth.right.value if case.truth.right else "unknowable",
        "status": list(case.status),
        **({"known": case.known} if case.known else {}),
        "arms": {result.arm.value: _arm(result) for result in sorted(results, key=lambda result: list(type(result.arm)).index(result.arm))},
    }


def _arm(result: Result) -> dict[str, Any]:
    if result.ran is None:
        return {"skipped": result.skipped}
    told: dict[str, Any] = {"outcome": result.ran.outcome.value, "right": right(result)}
    if result.ran.why:
        told["why"] = _SECONDS.sub("", result.ran.why)
    return told | ({"like": result.like.value} if result.like else {})

"""What came out, as data that the page is made of: nothing in it depends on the machine or the hour."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from conformance.cases import ROOT
from conformance.compare import right
from conformance.words import Arm

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from conformance.compare import Result

FILE = ROOT / "tests" / "conformance" / "results.json"
_PASSING = (
    (re.compile(r" after \d+ s\b"), ""),
    (re.compile(r"(/[\w.+-]+){2,}/"), ".../"),
    (re.compile(r"\[?\b\d+\.\d+\.\d+\.\d+\]?(:\d+)?"), "ADDRESS"),
    (re.compile(r"\b(pid|port):? \d+"), r"\1 N"),
)

Arms = dict[str, dict[str, Any]]  # by arm: outcome, whether it is right, why it is none better


def load(file: Path = FILE) -> dict[str, Arms]:
    """By case. Nothing, where nothing was noted yet."""
    found: dict[str, Arms] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    return found


def note(done: Iterable[Result], file: Path = FILE) -> None:
    """Note results beside those of other cases and arms."""
    noted = load(file)
    for result in done:
        noted.setdefault(result.case.name, {})[result.arm.value] = _told(result)
    ordered = {name: _ordered(noted[name]) for name in sorted(noted)}
    lines = (f"{json.dumps(name)}: {json.dumps(arms)}" for name, arms in ordered.items())
    file.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def _ordered(arms: Arms) -> Arms:
    return {arm.value: arms[arm.value] for arm in Arm if arm.value in arms}


def _told(result: Result) -> dict[str, Any]:
    if result.ran is None:
        return {"skipped": result.skipped}
    told: dict[str, Any] = {"outcome": result.ran.outcome.value, "right": right(result)}
    return told | ({"why": lasting(result.ran.why)} if result.ran.why else {})


def lasting(why: str) -> str:
    """A reason without what another run would have otherwise: seconds, folders, addresses."""
    for pattern, instead in _PASSING:
        why = pattern.sub(instead, why)
    return why

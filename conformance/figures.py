"""The figures of a run, counted from its results file. Pure functions."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from conformance.words import Arm, Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from conformance.cases import Case
    from conformance.outcomes import Arms

SILENT = frozenset({Outcome.ALONE, Outcome.DUPLICATE, Outcome.PARTIAL})
BOTH = "rankfix and its annotations"
_FEW = 5
_NEEDED = {Arm.OPERATOR.value, Arm.RANKFIX.value}


@dataclass(frozen=True, slots=True)
class Row:
    """A case, and what each arm came to: the outcomes, those of them that are right, and why others aren't."""

    case: Case
    outcomes: dict[Arm, Outcome]
    right: frozenset[Arm]
    why: dict[Arm, str]

    @property
    def known(self) -> bool:
        """Whether anybody can say what is right."""
        return self.case.truth.right is not None

    @property
    def published(self) -> bool:
        """Whether it is modelled after something that somebody else wrote."""
        return self.case.source != "made"

    @property
    def helped(self) -> bool:
        """Whether it is right with rankfix, with an annotation where the case has one."""
        return bool(self.right & {Arm.RANKFIX, Arm.ANNOTATED})

    def broken(self, arm: Arm) -> bool:
        """Whether the arm made worse what the operator had right."""
        return Arm.OPERATOR in self.right and arm in self.outcomes and arm not in self.right


class Missing(Exception):
    """Cases without a result; the text says how to get them."""


def rows(cases: Iterable[Case], found: Mapping[str, Arms]) -> list[Row]:
    """The cases with their results.

    Raises:
        Missing: a case has none.
    """
    cases = list(cases)
    if missing := [case.name for case in cases if not found.get(case.name, {}).keys() >= _NEEDED]:
        names = "".join(f" --case {name}" for name in missing) if len(missing) <= _FEW else ""
        raise Missing(f"{len(missing)} cases have no results: make conformance ARGS='--results{names}'")
    return [_row(case, found[case.name]) for case in cases]


def _row(case: Case, arms: Arms) -> Row:
    shown = {Arm(name): told for name, told in arms.items() if "outcome" in told}
    return Row(
        case,
        {arm: Outcome(told["outcome"]) for arm, told in shown.items()},
        frozenset(arm for arm, told in shown.items() if told["right"]),
        {arm: told.get("why", "") for arm, told in shown.items()},
    )


def error(row: Row, arm: Arm) -> str:
    """The error's own text, without the pod that said it and without numbers; "" for what fails in silence."""
    why = row.why.get(arm, "")
    text = re.sub(rf"^{row.case.job['metadata']['name']}\S*: ", "", why)
    return re.sub(r"\b\d+\b", "N", text) if text != why else ""


@dataclass(frozen=True, slots=True)
class Bar:
    """What an arm came to, in numbers of cases: right, waiting for ever, ended by an error, wrong without a word."""

    name: str
    right: int
    hang: int
    crash: int
    silent: int

    @property
    def total(self) -> int:
        """All of them."""
        return self.right + self.hang + self.crash + self.silent


def bars(rows: Sequence[Row]) -> list[Bar]:
    """The arms, the best one last; cases of which nobody knows what is right aren't counted."""
    known = [row for row in rows if row.known]
    each = [_bar(arm.value, known, arm) for arm in (Arm.OPERATOR, Arm.NAIVE, Arm.POLICY, Arm.RANKFIX)]
    return [*each, _bar(BOTH, known, Arm.RANKFIX, Arm.ANNOTATED)]


def _bar(name: str, rows: Sequence[Row], *arms: Arm) -> Bar:
    count = Counter(_kind(row, arms) for row in rows if any(arm in row.outcomes for arm in arms))
    return Bar(name, count["right"], count["hang"], count["crash"], count["silent"])


def _kind(row: Row, arms: Sequence[Arm]) -> str:
    if row.right & set(arms):
        return "right"
    outcome = next(row.outcomes[arm] for arm in arms if arm in row.outcomes)
    if outcome is Outcome.HANG:
        return "hang"
    return "crash" if outcome in (Outcome.CRASH, Outcome.DENIED) else "silent"

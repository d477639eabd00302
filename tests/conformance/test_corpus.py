"""The corpus itself: all that the contract speaks of is in it, and rankfix decides each case as the case says."""

from __future__ import annotations

from functools import cache

import pytest

from conformance import check
from conformance.cases import Case, load
from conformance.words import RULE_IDS, Arm, Outcome
from webhook.launched import LaunchClass
from webhook.policy import Mode

CASES = {case.name: case for case in load()}
# Each is looked through on the way to what a container starts.
WRAPPERS = {
    "exec", "env", "nohup", "setsid", "tini", "dumb-init", "numactl", "taskset", "nice", "time", "stdbuf", "timeout",
    "sudo", "conda-run", "micromamba-run", "uv-run", "poetry-run", "xvfb-run", "nsys", "function", "bash-c", "eval",
    "here-document",
}  # fmt: skip


@cache
def covered(kind: str) -> frozenset[str]:
    entries = (entry for case in CASES.values() for entry in case.covers)
    return frozenset(name for its_kind, _, name in (entry.partition(":") for entry in entries) if its_kind == kind)


def test_there_are_enough() -> None:
    """The figure is about what people do, not about a handful of jobs."""
    assert len(CASES) >= 120
    assert sum(case.source != "made" for case in CASES.values()) >= len(CASES) // 2


@pytest.mark.parametrize("case", CASES.values(), ids=lambda case: case.name)
def test_rankfix_says_what_the_case_says(case: Case) -> None:
    """Rules, status, reason and whether there is a warning; and the job makes pods that can be run here."""
    assert check.problems(case) == []


@pytest.mark.parametrize("part", ["all", "fast"])
def test_each_class_and_rule_is_there(part: str) -> None:
    """In the fast part, too."""
    covers = {entry for case in CASES.values() if part == "all" or case.fast for entry in case.covers}
    wanted = {f"class:{cls.value}" for cls in LaunchClass} | {f"rule:{rule}" for rule in RULE_IDS if rule != "I1"}
    assert wanted - covers == set()


def test_each_mode_and_wrapper_is_there() -> None:
    """What the contract names in its sections 4 and 5."""
    assert {mode.value for mode in Mode} - covered("mode") == set()
    assert WRAPPERS - covered("wrapper") == set()


def test_what_the_rules_of_a_case_are_is_what_it_covers() -> None:
    """A case can't claim a rule that doesn't fire in it."""
    claimed = {
        case.name: {entry.removeprefix("rule:") for entry in case.covers if entry.startswith("rule:")}
        - set(case.status)
        for case in CASES.values()
        if not case.annotate
    }
    assert {name: rules for name, rules in claimed.items() if rules} == {}


def test_what_can_not_be_known_is_warned_of() -> None:
    """A case that rankfix leaves broken for want of knowledge isn't passed over in silence."""
    unsaid = [
        case.name
        for case in CASES.values()
        if "unclear-launch" in case.status and not {"unchanged", "environment", "warning"} & set(case.status)
    ]
    assert unsaid == []


def test_the_fast_part_shows_what_the_naive_patch_breaks() -> None:
    """So that a run of it could fail: jobs that work, which a worse patch makes hang."""
    broken = [
        case.name
        for case in CASES.values()
        if case.fast
        and case.expect.get(Arm.OPERATOR) == (case.truth.right,)
        and Outcome.TOGETHER not in case.expect.get(Arm.NAIVE, (Outcome.TOGETHER,))
    ]
    assert len(broken) >= 2


def test_few_regressions_are_declared() -> None:
    """Each is a job that looks like one that needs repair; more than a handful would say that the contract is wrong."""
    assert sum(case.known is not None for case in CASES.values()) <= 6

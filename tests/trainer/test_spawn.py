"""`trainer.spawn`: how a pod ends, from how its ranks did. That it really ends so: test_faults.py."""

from __future__ import annotations

import pytest

from trainer import spawn

CASES: list[tuple[str, dict[int, int], set[int], bool, int, str]] = [
    ("all finished", {0: 0, 1: 0}, set(), False, 0, ""),
    ("roll call", {0: 2, 1: 2}, set(), False, 2, ""),
    ("data on one rank", {0: 134, 1: 3}, set(), False, 3, ""),
    ("below target", {0: 4, 1: 4}, set(), False, 4, ""),
    ("peer lost in another pod", {0: 134, 1: 134}, set(), False, 134, ""),
    ("child killed", {0: 134, 1: -9}, set(), False, 134, "rank 1 was ended by SIGKILL"),
    ("child killed, its sibling had to be", {0: -9, 1: -11}, {0}, False, 134, "rank 1 was ended by SIGSEGV"),
    ("bug", {0: 1, 1: -9}, {1}, False, 1, ""),
    ("stopped", {0: 143, 1: 143}, set(), True, 143, ""),
    ("stopped from another pod", {0: 143, 1: 143}, set(), False, 143, ""),
    ("stopped before handlers were there", {0: -15, 1: -15}, set(), True, 143, "stopped"),
    ("stopped in the middle of that", {0: 143, 1: -15}, set(), True, 143, ""),
    ("stopped by two signals", {0: -9, 1: -9}, {0, 1}, True, 143, "stopped"),
    ("finished before the signal came", {0: 0, 1: 0}, set(), True, 0, ""),
    ("signal during a failure", {0: 3, 1: -15}, set(), True, 3, ""),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_pod_ends_with_the_cause(case: tuple[str, dict[int, int], set[int], bool, int, str]) -> None:
    """The cause counts, not what the other ranks saw of it; a sentence only where no rank has said one."""
    name, codes, killed, stopping, code, said = case
    outcome = spawn.outcome(codes, killed, stopping=stopping)
    assert outcome.code == code, name
    assert bool(outcome.sentence) == bool(said), name
    assert said in (outcome.sentence or "")

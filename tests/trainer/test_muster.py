"""`trainer.muster`: entries in, verdict out."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer import muster
from trainer.muster import Entry, Verdict

TEXT = st.text(max_size=8)


def entry(rank: int, world: int = 4, **more: object) -> Entry:
    """A process that fits in."""
    common: dict[str, object] = {
        "address": f"10.0.0.{rank}",
        "torch": "2.13",
        "data": "d",
        "images": 10,
        "settings": "{}",
    }
    return replace(Entry(rank, world, f"pod-{rank}", 10 + rank), **{**common, **more})  # type: ignore[arg-type]  # any field


ROLL = [entry(rank) for rank in range(4)]


def test_complete_roll_is_accepted() -> None:
    """Nothing odd: code 0, no warnings, the numbers of the entries by rank, and rank 0's settings."""
    assert muster.conflict(ROLL) is None
    assert muster.accept(ROLL, [4, 3, 2, 1], strict=True) == Verdict(0, "", (), (4, 3, 2, 1), "{}")


CONFLICTS: dict[str, tuple[list[Entry], int, list[str]]] = {
    "fault": ([entry(0), entry(1, fault=(3, "no data"))], 3, ["rank 1 (pod-1 pid 11) can't take part: no data"]),
    "worlds": ([entry(0, 2), entry(1, 3)], 2, ["2 on rank 0 (pod-0 pid 10)", "3 on rank 1 (pod-1 pid 11)"]),
    "many worlds": (
        [entry(0, 2), entry(1, 3), entry(2, 3), entry(3, 3)],
        2,
        ["3 on ranks 1-3 (pod-1 pid 11, pod-2 pid 12, ...)"],
    ),
    "outside": ([entry(0, 2), entry(2, 2)], 2, ["rank 2 (pod-2 pid 12) is outside a world of 2", "0-1"]),
    "backends": ([entry(0), entry(1, backend="nccl")], 2, ["gloo on rank 0", "nccl on rank 1", "--device cpu"]),
    "images": ([entry(0), entry(1, images=11)], 3, ["10 training images on rank 0", "11 training images on rank 1"]),
    "GPU": (
        [entry(rank, backend="nccl", gpu="GPU-1", device="cuda:0 H200") for rank in (0, 1)],
        2,
        ["rank 0 (pod-0 pid 10) and rank 1 (pod-1 pid 11) share one GPU (cuda:0 H200)"],
    ),
}


@pytest.mark.parametrize("name", CONFLICTS)
def test_conflict_names_ranks_and_hosts(name: str) -> None:
    """What can't work ends the job before training, with who is concerned."""
    entries, code, words = CONFLICTS[name]
    verdict = muster.conflict(entries)
    assert verdict is not None
    assert verdict.code == code
    for word in words:
        assert word in verdict.sentence


def test_duplicate_names_both() -> None:
    """Hosts and pids of both, and what RANK should be."""
    verdict = muster.conflict(ROLL, [(entry(1), entry(1, host="pod-9", pid=99))])
    assert verdict is not None
    assert verdict.code == 2
    assert "duplicate rank 1: pod-1 pid 11 and pod-9 pid 99" in verdict.sentence


def test_missing_ranks_are_listed() -> None:
    """Who is not there, who is, for how long, and why if that's known."""
    present = [entry(0, 8), entry(1, 8, host="pod-0"), entry(5, 8)]
    verdict = muster.missing(present, 8, 20, "; maybe")
    assert verdict.code == 2
    assert verdict.sentence == (
        "ranks 2-4, 6-7 of 8 did not answer the roll call within 20 s "
        "(present: ranks 0-1 on pod-0, rank 5 on pod-5); maybe"
    )


ODDITIES: dict[str, tuple[list[Entry], list[str]]] = {
    "NCCL": (
        [*ROLL[:3], entry(3, environment=(("NCCL_DEBUG", "INFO"),))],
        ["NCCL_DEBUG differs: unset on ranks 0-2", "INFO on rank 3 (pod-3 pid 13)"],
    ),
    "torch": ([*ROLL[:3], entry(3, torch="2.5")], ["torch version differs: 2.13 on ranks 0-2", "2.5 on rank 3"]),
    "data": ([*ROLL[:3], entry(3, data="e")], ["data checksum differs: d on ranks 0-2", "e on rank 3"]),
    "settings": (
        [entry(0, settings="{1}"), *ROLL[1:]],
        ["settings differs", "{1} on rank 0", "those of rank 0 go for all"],
    ),
    "host names": (
        [entry(0, host="vm"), entry(1, host="vm"), *ROLL[2:]],
        ["host name vm is the name of 2 pods (ranks 0-1)"],
    ),
}


@pytest.mark.parametrize("name", ODDITIES)
def test_oddity_is_a_warning_unless_strict(name: str) -> None:
    """A difference that may still work is a warning that names the ranks; with --strict it's refused."""
    roll, words = ODDITIES[name]
    assert muster.conflict(roll) is None
    verdict = muster.accept(roll, range(1, 5), strict=False)
    assert verdict.code == 0
    (warning,) = verdict.warnings
    for word in words:
        assert word in warning
    refused = muster.accept(roll, range(1, 5), strict=True)
    assert refused.code == 2
    assert warning in refused.sentence


def test_twins_share_their_host_name() -> None:
    """Two containers of one pod have one name and one address: nothing odd."""
    roll = [entry(rank, 2, host="pod-0", address="10.0.0.9") for rank in (0, 1)]
    assert muster.accept(roll, (1, 2), strict=True).code == 0


@pytest.mark.parametrize(
    ("numbers", "text"),
    [([3], "rank 3"), ([0, 1, 2], "ranks 0-2"), ([5, 0, 1], "ranks 0-1, 5"), ([1, 3], "ranks 1, 3"), ([11], "rank 11")],
)
def test_ranks_are_said_shortly(numbers: list[int], text: str) -> None:
    """Thousands of missing ranks are a line."""
    assert muster.ranks(numbers) == text


@given(st.sets(st.integers(0, 200), min_size=1))
def test_said_ranks_are_the_ranks(numbers: set[int]) -> None:
    """However they are shortened."""
    spans = [span.split("-") for span in muster.ranks(numbers).split(" ", 1)[1].split(", ")]
    assert {number for span in spans for number in range(int(span[0]), int(span[-1]) + 1)} == numbers


def test_equal_notes_are_said_once() -> None:
    """With the ranks that made them."""
    roll = [entry(0, notes=("a",)), entry(1, notes=("a", "b")), entry(2)]
    assert muster.notes(roll) == {"a": "ranks 0-1", "b": "rank 1"}


@given(
    st.builds(
        Entry,
        rank=st.integers(0, 99),
        world_size=st.integers(1, 99),
        host=TEXT,
        pid=st.integers(1, 9),
        environment=st.lists(st.tuples(TEXT, TEXT)).map(tuple),
        notes=st.lists(TEXT).map(tuple),
        fault=st.none() | st.tuples(st.integers(1, 200), TEXT),
    )
)
def test_entries_survive_the_store(one: Entry) -> None:
    """What a process says of itself is read as it was said."""
    assert muster.entry_from_json(one.to_json()) == one


@given(
    st.builds(Verdict, st.integers(0, 200), TEXT, st.lists(TEXT).map(tuple), st.lists(st.integers()).map(tuple), TEXT)
)
def test_verdicts_survive_the_store(verdict: Verdict) -> None:
    """What rank 0 judged is what all read."""
    assert muster.verdict_from_json(verdict.to_json()) == verdict

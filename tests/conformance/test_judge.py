"""What a run is called: from what its processes wrote, and how its containers ended."""

from __future__ import annotations

import json
from typing import Any

import pytest

from conformance import judge
from conformance.cases import Truth
from conformance.judge import Evidence
from conformance.words import Outcome
from demo.pods import Ended

PODS = ("m", "w")
World = list[tuple[str, int, int]]  # pod, pid, rank


def process(pod: str, pid: int, group: World | None, rank: int = 0, *, done: bool = True, **more: Any) -> list[str]:
    """The lines that one process writes; without a group it never joined one."""
    records: list[dict[str, Any]] = [{"event": "start", "env": {"RANK": str(rank), "WORLD_SIZE": "4"}}]
    if group is not None:
        records.append({"event": "joined", "rank": rank, "world": len(group), "members": group, **more})
        records += [{"event": "done"}] if done else []
    return [json.dumps({"pod": pod, "pid": pid, **record}) for record in records]


def group(*members: tuple[str, int, int]) -> list[str]:
    """The lines of all processes of a group."""
    return [line for pod, pid, rank in members for line in process(pod, pid, list(members), rank)]


def alone(pod: str, pid: int, **more: Any) -> list[str]:
    return process(pod, pid, [(pod, pid, 0)], **more)


def ended(*codes: int | None, log: str = "") -> tuple[Ended, ...]:
    return tuple(Ended(pod, "pytorch", code, 1.0, log if code else "") for pod, code in zip(PODS, codes, strict=False))


def verdict(
    lines: list[str], *, world: int | None = None, ends: tuple[Ended, ...] = (), cut: str = ""
) -> judge.Verdict:
    truth = Truth(world=world) if world else Truth(word="unknowable")
    return judge.verdict(Evidence(PODS, judge.processes(judge.read(lines)), ends or ended(0, 0), cut), truth)


TOGETHER = group(("m", 1, 0), ("m", 2, 1), ("w", 3, 2), ("w", 4, 3))
TWO_OF_FOUR = group(("m", 1, 0), ("w", 3, 1))
CASES: dict[str, tuple[list[str], int | None, Outcome]] = {
    "all in one group": (TOGETHER, 4, Outcome.TOGETHER),
    "of a size that nobody knows": (TOGETHER, None, Outcome.TOGETHER),
    "one group, and another size was wanted": (TOGETHER, 8, Outcome.PARTIAL),
    "two of four twins make a world of their own": (
        TWO_OF_FOUR + group(("m", 2, 0), ("w", 4, 1)), 4, Outcome.DUPLICATE
    ),
    "one pod's processes are the group": (group(("m", 1, 0), ("m", 2, 1)), 2, Outcome.PARTIAL),
    "a rank twice in one group": (group(("m", 1, 0), ("w", 2, 0)), 2, Outcome.DUPLICATE),
    "each pod by itself": (alone("m", 1) + alone("w", 2), 2, Outcome.ALONE),
    "each pod by itself, with two processes": (
        group(("m", 1, 0), ("m", 2, 1)) + group(("w", 3, 0), ("w", 4, 1)), 4, Outcome.ALONE
    ),
    "shares of the data": (
        alone("m", 1, shard=0, shards=2) + alone("w", 2, shard=1, shards=2), 2, Outcome.TOGETHER
    ),
    "a share twice": (alone("m", 1, shard=0, shards=2) + alone("w", 2, shard=0, shards=2), 2, Outcome.DUPLICATE),
    "a share that nobody has": (
        alone("m", 1, shard=0, shards=4) + alone("w", 2, shard=2, shards=4), 2, Outcome.PARTIAL
    ),
    "no process trained": ([], 2, Outcome.PARTIAL),
    "one ended without a group": (alone("m", 1) + process("w", 2, None), 2, Outcome.PARTIAL),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_all_ended_well(name: str) -> None:
    """What they were is in the groups that they formed."""
    lines, world, outcome = CASES[name]
    found = verdict(lines, world=world)
    assert found.outcome is outcome
    assert bool(found.why) is (outcome is not Outcome.TOGETHER)


def test_fewer_pods_than_all_may_be_meant() -> None:
    """A truth may say that a pod takes no part."""
    seen = judge.processes(judge.read(group(("m", 1, 0), ("m", 2, 1))))
    assert judge.together(seen, PODS, Truth(world=2, pods=1))


def test_an_error_comes_before_everything() -> None:
    """The others may wait, or have ended well."""
    found = verdict(TWO_OF_FOUR, ends=ended(1, None, log="x\nValueError: rank 4 of 4\n"), cut="others wait")
    assert found == judge.Verdict(Outcome.CRASH, "m: ValueError: rank 4 of 4")


@pytest.mark.parametrize(
    "text",
    [
        "torch.distributed.DistStoreError: Timed out after 1801 seconds waiting for clients. 2/4 clients joined.",
        "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError",
    ],
)
def test_who_gave_up_waiting_did_hang(text: str) -> None:
    """An error after half an hour is a job that hung for half an hour."""
    found = verdict([], ends=ended(1, 0, log=text))
    assert found == judge.Verdict(Outcome.HANG, f"m: {text}")


def test_who_stands_where_is_told() -> None:
    """A hang often has no error text: the numbers that the processes were told are the reason then."""
    lines = process("m", 1, None) + process("m", 2, None) + process("w", 3, None, 1)
    found = verdict(lines, ends=ended(None, None), cut="nothing moves any more")
    assert found.outcome is Outcome.HANG
    assert found.why.split("; ") == [
        "nothing moves any more: 0 of 3 processes had joined a group",
        "RANK 0 of 4 told to 2 processes",
        "WORLD_SIZE 4, and 3 processes",
    ]
    assert "a launcher waits" in verdict([], ends=ended(None, 0), cut="nothing moves any more").why


def test_what_is_no_record_is_passed_over() -> None:
    """The last line of a process that was ended may be cut off; others print JSON, too."""
    lines = ['{"event": "joined", "pod": "m", "p', "[]", '{"event": "x"}', *TOGETHER]
    assert verdict(lines, world=4).outcome is Outcome.TOGETHER


def test_the_last_group_counts() -> None:
    """A process that joins again, as an elastic launcher makes it, is where it came to."""
    lines = process("m", 1, [("m", 1, 0)]) + group(("m", 1, 0), ("w", 2, 1))
    assert verdict(lines, world=2).outcome is Outcome.TOGETHER

"""What became of a job: from the records of its training processes, and from how its containers ended. Pure functions.

A process writes JSON lines: `start` before it looks for others, `joined` with the members of its group (`[pod, pid,
rank]` each), `done` after its last step. One that trains without a group joins itself, and may name its shard of the
data. The outcomes, and the order in which they are decided, are those of `words.Outcome`.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from conformance import tell
from conformance.words import Outcome

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from conformance.cases import Truth
    from demo.pods import Ended

Process = tuple[str, int]  # pod, pid
# A process that gave up waiting says so with a code other than 0; its users waited half an hour for that.
_GAVE_UP = re.compile(
    r"clients joined|RendezvousTimeout|RendezvousConnectionError|timed out after \d+|wait timeout|Timeout waiting"
    r"|Timed out initializing process group|failed to connect to \S+ within|Wait timeout",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Seen:
    """A training process: the last group that it joined (empty: it joined none), and whether it got to its end."""

    process: Process
    rank: int | None = None
    world: int | None = None
    members: frozenset[tuple[str, int, int]] = frozenset()
    shard: tuple[int, int] | None = None
    done: bool = False
    told: str = ""  # what its environment said, `RANK of WORLD_SIZE`


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome, and why it is none better, in one line."""

    outcome: Outcome
    why: str = ""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is left of a run: its processes, the ends of the containers that count, and why it was cut short (or "")."""

    pods: tuple[str, ...]
    processes: tuple[Seen, ...]
    ended: tuple[Ended, ...] = ()
    cut: str = ""


def read(lines: Iterable[str]) -> Iterable[dict[str, Any]]:
    """The records in some lines; one that is cut off, since its process was ended, is none."""
    for line in lines:
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict) and {"event", "pod", "pid"} <= record.keys():
            yield record


def processes(records: Iterable[Mapping[str, Any]]) -> tuple[Seen, ...]:
    """What the records say of each process, by pod and pid."""
    found: dict[Process, Seen] = {}
    for record in records:
        process = (str(record["pod"]), int(record["pid"]))
        found[process] = _with(found.get(process, Seen(process)), record)
    return tuple(found[process] for process in sorted(found))


def _with(seen: Seen, record: Mapping[str, Any]) -> Seen:
    match record["event"]:
        case "joined":
            shard = (record["shard"], record["shards"]) if "shard" in record else None
            members = frozenset((str(pod), int(pid), int(rank)) for pod, pid, rank in record["members"])
            return Seen(seen.process, record["rank"], record["world"], members, shard, seen.done, seen.told)
        case "done":
            return Seen(seen.process, seen.rank, seen.world, seen.members, seen.shard, done=True, told=seen.told)
        case _:
            env = record.get("env") or {}
            told = f"{env['RANK']} of {env['WORLD_SIZE']}" if {"RANK", "WORLD_SIZE"} <= env.keys() else ""
            return Seen(seen.process, told=told)


def verdict(evidence: Evidence, truth: Truth) -> Verdict:
    """The outcome of a run that is over."""
    failed = [one for one in evidence.ended if one.code]
    crashed = [one for one in failed if not _GAVE_UP.search(one.log)]
    if crashed:
        return Verdict(Outcome.CRASH, tell.telling(crashed))
    if failed or evidence.cut:
        return Verdict(Outcome.HANG, tell.telling(failed) or f"{evidence.cut}: {_standing(evidence)}")
    return grouped(evidence.processes, evidence.pods, truth)


def grouped(seen: Sequence[Seen], pods: Collection[str], truth: Truth) -> Verdict:
    """The outcome of processes that all came to their end."""
    if not seen:
        return Verdict(Outcome.PARTIAL, "no training process started")
    if any(not one.members for one in seen):
        return Verdict(Outcome.PARTIAL, f"{_count(seen, joined=False)} ended without having joined a group")
    if together(seen, pods, truth):
        return Verdict(Outcome.TOGETHER)
    shards = Counter(one.shard for one in seen if one.shard is not None)
    if twice := [shard for shard, count in shards.items() if count > 1]:
        return Verdict(Outcome.DUPLICATE, f"shard {twice[0][0]} of {twice[0][1]} was read {shards[twice[0]]} times")
    if not shards and len(pods) > 1 and _each_alone(seen, pods):
        worlds = sorted({one.world or 0 for one in seen})
        return Verdict(Outcome.ALONE, f"each pod trained by itself, in a world of {' or '.join(map(str, worlds))}")
    return _uneven(seen, truth)


def _each_alone(seen: Sequence[Seen], pods: Collection[str]) -> bool:
    everywhere = {one.process[0] for one in seen} == set(pods)
    return everywhere and all({pod for pod, _, _ in one.members} == {one.process[0]} for one in seen)


def _uneven(seen: Sequence[Seen], truth: Truth) -> Verdict:
    shards = sorted({one.shard for one in seen if one.shard is not None})
    if shards:
        read = ", ".join(str(number) for number, _ in shards)
        return Verdict(Outcome.PARTIAL, f"of {shards[0][1]} shards only these were read: {read}")
    ranks = Counter((one.rank, one.world) for one in seen)
    if twice := [place for place, count in ranks.items() if count > 1]:
        return Verdict(Outcome.DUPLICATE, f"rank {twice[0][0]} of {twice[0][1]} was held {ranks[twice[0]]} times")
    sizes = sorted({len(one.members) for one in seen})
    wanted = f", not of {truth.world}" if truth.world else ""
    return Verdict(Outcome.PARTIAL, f"{len(seen)} processes made groups of {', '.join(map(str, sizes))}{wanted}")


def together(seen: Sequence[Seen], pods: Collection[str], truth: Truth) -> bool:
    """Whether each process is in the one group, which all pods take part in, with ranks from 0, each once."""
    world = truth.world or len(seen)
    everybody = {one.process for one in seen}
    if len({pod for pod, _ in everybody}) != (truth.pods or len(pods)) or len(everybody) != world:
        return False
    if all(one.shard is not None for one in seen):
        return sorted(one.shard or (0, 0) for one in seen) == [(number, world) for number in range(world)]
    return all(
        {(pod, pid) for pod, pid, _ in one.members} == everybody
        and sorted(rank for _, _, rank in one.members) == list(range(world))
        for one in seen
    )


def _standing(evidence: Evidence) -> str:
    """Who stands where, when nothing moves any more."""
    seen = evidence.processes
    if not seen:
        return "no training process had started; a launcher waits for others"
    told = Counter(one.told for one in seen if one.told)
    doubled = [f"RANK {place} told to {count} processes" for place, count in told.items() if count > 1]
    worlds = {place.partition(" of ")[2] for place in told}
    lacking = [f"WORLD_SIZE {world}, and {len(seen)} processes" for world in worlds if world != str(len(seen))]
    return "; ".join([f"{_count(seen, joined=True)} of {len(seen)} processes had joined a group", *doubled, *lacking])


def _count(seen: Sequence[Seen], *, joined: bool) -> int:
    return sum(bool(one.members) is joined for one in seen)

"""Judges a roll call: entries in, verdict out. Pure, and without torch; the talking is in rollcall.py."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from trainer.errors import RollCallError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

CLEAN = 0
NAMED = 2  # of a group of ranks, so many are named with host and pid


@dataclass(frozen=True, slots=True)
class Entry:
    """What one process says of itself."""

    rank: int
    world_size: int
    host: str
    pid: int
    address: str = ""
    local_rank: int = 0
    device: str = "cpu"
    gpu: str = ""  # unique name of the GPU, wherever it is seen from
    backend: str = "gloo"
    torch: str = ""
    environment: tuple[tuple[str, str], ...] = ()
    data: str = ""
    images: int = 0
    settings: str = ""
    notes: tuple[str, ...] = ()
    fault: tuple[int, str] | None = None  # exit code and sentence: why this process can't take part

    def to_json(self) -> str:
        """For the store."""
        return json.dumps(asdict(self))

    def __str__(self) -> str:
        return f"{self.host} pid {self.pid}"


def entry_from_json(text: str | bytes) -> Entry:
    """The inverse of `Entry.to_json`."""
    raw = json.loads(text)
    fault = raw.pop("fault")
    environment = tuple((name, value) for name, value in raw.pop("environment"))
    notes = tuple(raw.pop("notes"))
    return Entry(**raw, environment=environment, notes=notes, fault=(fault[0], fault[1]) if fault else None)


@dataclass(frozen=True, slots=True)
class Verdict:
    """How the roll call ended: `code` 0 and the roll, or an exit code and the sentence that explains it."""

    code: int
    sentence: str
    warnings: tuple[str, ...] = ()
    holders: tuple[int, ...] = ()  # by rank: the number of the entry that has it
    settings: str = ""  # those of rank 0, which go for all

    def to_json(self) -> str:
        """For the store."""
        return json.dumps(asdict(self))


def verdict_from_json(text: str | bytes) -> Verdict:
    """The inverse of `Verdict.to_json`."""
    raw = json.loads(text)
    return Verdict(raw["code"], raw["sentence"], tuple(raw["warnings"]), tuple(raw["holders"]), raw["settings"])


def conflict(entries: Sequence[Entry], duplicates: Iterable[tuple[Entry, Entry]] = ()) -> Verdict | None:
    """What is wrong whoever else may still come; None as long as nothing is."""
    for entry in entries:
        if entry.fault is not None:
            code, sentence = entry.fault
            return Verdict(code, f"rank {entry.rank} ({entry}) can't take part: {sentence}")
    for first, second in duplicates:
        return _refused(duplicate(first, second))
    if len({entry.world_size for entry in entries}) > 1:
        said = _grouped(entries, lambda entry: str(entry.world_size))
        return _refused(f"world sizes disagree: {said}; every process needs the WORLD_SIZE of the whole job")
    for entry in entries:
        if entry.rank >= entry.world_size:
            what = f"rank {entry.rank} ({entry}) is outside a world of {entry.world_size}, whose ranks are"
            return _refused(f"{what} 0-{entry.world_size - 1}; RANK counts processes from 0")
    return _unworkable(entries)


def duplicate(first: Entry, second: Entry) -> str:
    """The sentence about two processes of one rank."""
    return (
        f"duplicate rank {first.rank}: {first} and {second} both claim it; RANK must differ in every process, "
        f"and in every pod it is the pod's first rank"
    )


def missing(entries: Sequence[Entry], world_size: int, waited: float, hint: str = "") -> Verdict:
    """The verdict when time is up."""
    present = {entry.rank: entry for entry in entries}
    absent = sorted(set(range(world_size)) - set(present))
    here = ", ".join(f"{ranks(group)} on {host}" for host, group in _by_host(present.values()).items())
    return _refused(
        f"{ranks(absent)} of {world_size} did not answer the roll call within {waited:.0f} s (present: {here}){hint}"
    )


def accept(roll: Sequence[Entry], holders: Sequence[int], *, strict: bool) -> Verdict:
    """The verdict on a complete roll, in order of rank: accepted, unless `strict` and something is odd."""
    warnings = tuple(_oddities(roll))
    if warnings and strict:
        return _refused(f"--strict: {'; '.join(warnings)}")
    return Verdict(CLEAN, "", warnings, tuple(holders), roll[0].settings)


def ranks(numbers: Iterable[int]) -> str:
    """`rank 3`, `ranks 0-2, 5`: as short as it can be said."""
    spans: list[list[int]] = []
    for number in sorted(numbers):
        if spans and spans[-1][1] == number - 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    text = ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in spans)
    return f"rank {text}" if text.isdigit() else f"ranks {text}"


def notes(roll: Iterable[Entry]) -> dict[str, str]:
    """Each note once, with the ranks that made it."""
    who: dict[str, list[int]] = defaultdict(list)
    for entry in roll:
        for note in entry.notes:
            who[note].append(entry.rank)
    return {note: ranks(numbers) for note, numbers in who.items()}


def _unworkable(entries: Sequence[Entry]) -> Verdict | None:
    """Differences that would hang or crash the job later, when nobody can tell why."""
    if len({entry.backend for entry in entries}) > 1:
        said = _grouped(entries, lambda entry: entry.backend)
        return _refused(f"backends disagree: {said}; give all pods GPUs, or pass --device cpu")
    if len({entry.images for entry in entries}) > 1:
        said = _grouped(entries, lambda entry: f"{entry.images} training images")
        return Verdict(3, f"the data sets differ in size: {said}; give all pods the same files")
    seen: dict[str, Entry] = {}
    for entry in entries:
        if entry.gpu and entry.backend == "nccl" and entry.gpu in seen:
            other = seen[entry.gpu]
            both = f"rank {other.rank} ({other}) and rank {entry.rank} ({entry})"
            return _refused(f"{both} share one GPU ({entry.device}), which NCCL can't; start one process a GPU")
        seen[entry.gpu] = entry
    return None


def _oddities(roll: Sequence[Entry]) -> Iterable[str]:
    for name in sorted({name for entry in roll for name, _ in entry.environment}):
        yield from _difference(roll, name, _setting(name))
    yield from _difference(roll, "torch version", lambda entry: entry.torch)
    yield from _difference(roll, "data checksum", lambda entry: entry.data)
    yield from _difference(roll, "settings", lambda entry: entry.settings, "those of rank 0 go for all")
    addresses = defaultdict(set)
    for entry in roll:
        addresses[entry.host].add(entry.address)
    for host, found in addresses.items():
        if len(found) > 1:
            same = ranks(entry.rank for entry in roll if entry.host == host)
            yield f"host name {host} is the name of {len(found)} pods ({same}); NCCL takes them for one machine"


def _setting(name: str) -> Callable[[Entry], str]:
    return lambda entry: dict(entry.environment).get(name, "unset")


def _difference(roll: Sequence[Entry], what: str, value: Callable[[Entry], str], advice: str = "") -> Iterable[str]:
    if len({value(entry) for entry in roll}) > 1:
        yield f"{what} differs: {_grouped(roll, value)}{'; ' if advice else ''}{advice}"


def _grouped(entries: Sequence[Entry], value: Callable[[Entry], str]) -> str:
    groups: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        groups[value(entry)].append(entry)
    return ", ".join(
        f"{text} on {ranks(entry.rank for entry in group)} ({', '.join(dict.fromkeys(map(str, group[:NAMED])))}"
        f"{', ...' if len(group) > NAMED else ''})"
        for text, group in groups.items()
    )


def _by_host(entries: Iterable[Entry]) -> dict[str, list[int]]:
    hosts: dict[str, list[int]] = defaultdict(list)
    for entry in entries:
        hosts[entry.host].append(entry.rank)
    return hosts


def _refused(sentence: str) -> Verdict:
    return Verdict(RollCallError.code, sentence)

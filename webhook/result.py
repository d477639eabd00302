"""A decision: what is known of each container, what changes, and what is said about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from webhook import notes
from webhook.edits import Edit, SetEnv, SetNote
from webhook.notes import RANKS, RESULTS, RULES, STATUS
from webhook.policy import Reason, Status
from webhook.rules import ALL_RULES

if TYPE_CHECKING:
    from webhook.case import Case
    from webhook.facts import Found, Trouble
    from webhook.launch import LaunchClass

CONTRACTS = frozenset({"C1", "C2", "T1"})
_ORDER = {rule.id: place for place, rule in enumerate(ALL_RULES)}


@dataclass(frozen=True, slots=True)
class Judged:
    """One managed container: its case, the rules in force, what they change, and the trouble that kept others out."""

    case: Case
    rules: tuple[str, ...]
    edits: tuple[Edit, ...]
    reason: Reason
    trouble: Trouble | None = None

    @property
    def name(self) -> str:
        """The container's name."""
        return self.case.container.name

    @property
    def cls(self) -> LaunchClass:
        """How it starts its processes."""
        return self.case.launch.cls

    @property
    def facts(self) -> tuple[Found | None, Found | None, Found | None]:
        """k, P and N, each with its source; None where it isn't known or, for N, not declared."""
        return self.case.facts.node, self.case.facts.pods, self.case.procs

    @property
    def env(self) -> tuple[tuple[str, str], ...]:
        """The names and values that change."""
        return tuple((edit.name, edit.value) for edit in self.edits if isinstance(edit, SetEnv))


@dataclass(frozen=True, slots=True)
class Decision:
    """What happens to a pod. `denial` is the message of a denied one; `status` None means that nothing is written.

    In mode `audit` `rules` and `env` say what would change, and `edits` has the annotations only.
    """

    reason: Reason
    status: Status | None = None
    rules: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    edits: tuple[Edit, ...] = ()
    containers: tuple[Judged, ...] = ()
    denial: str | None = None

    @property
    def classes(self) -> tuple[LaunchClass, ...]:
        """The classes of the managed containers, in pod order."""
        return tuple(judged.cls for judged in self.containers)


def in_order(rules: set[str]) -> tuple[str, ...]:
    """Rules as every text lists them; those that aren't ours (a user's own annotation) are left out."""
    return tuple(sorted((rule for rule in rules if rule in _ORDER), key=_ORDER.__getitem__))


def status(rules: tuple[str, ...]) -> Status:
    """What kind of change some rules make, strongest first."""
    found = set(rules)
    if found & {"C1", "T1"}:
        return Status.PROCESS
    if "C2" in found:
        return Status.NODE
    if found & {"F1", "F2", "W1"}:
        return Status.ARGUMENTS
    return Status.ENVIRONMENT if found else Status.UNCHANGED


def written(pod_status: Status, rules: tuple[str, ...], reason: Reason, ranks: str | None) -> tuple[SetNote, ...]:
    """The result annotations; one of an earlier call that isn't among the new ones goes."""
    values = {STATUS: pod_status.value}
    if pod_status is not Status.UNCHANGED:
        values |= {RULES: ",".join(rules)} | ({RANKS: ranks} if ranks else {})
    if reason is not Reason.PATCHED:
        values[notes.REASON] = reason.value
    return tuple(SetNote(key, values.get(key)) for key in RESULTS)


def ranks(main: Judged) -> str | None:
    """`rankfix/ranks` of the main container: what its pair says once the edits are made; None where it says nothing."""
    k, pods, procs = main.facts
    env = {name: main.case.container.env.text(name) for name in ("RANK", "WORLD_SIZE")} | dict(main.env)
    rank, world = env["RANK"] or "", env["WORLD_SIZE"] or ""
    if k is None or pods is None or not notes.is_rank(rank) or not notes.is_rank(world):
        return None
    if not {"C1", "T1"} & set(main.rules):
        declared = procs.value if procs else None
        return notes.ranks((k.value, pods.value), declared, (int(rank), int(rank)), int(world))
    first, own, everyone = main.case.facts.span(main.case.sizes or notes.Procs(1, 1))
    return notes.ranks((k.value, pods.value), own, (first, first + own - 1), everyone)

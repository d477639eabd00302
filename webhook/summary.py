"""From what was judged of each container to the pod's decision: status, reason, warnings and result annotations.

They speak of the main container (`pytorch`, else the first managed one). What an earlier call wrote stays where nothing
changes any more, and is added to where something does: rules such as A1 are out of sight once they have fired.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from webhook import advice, notes, say
from webhook.edits import Edit, SetEnv, SetNote
from webhook.policy import Reason, Status
from webhook.result import Decision, Judged
from webhook.rules import ALL_RULES, INIT_RULE

if TYPE_CHECKING:
    from webhook.notes import Earlier

_ORDER = {rule.id: place for place, rule in enumerate(ALL_RULES)}


def sum_up(judged: tuple[Judged, ...], main: Judged, kept: Earlier | None, *, audit: bool) -> Decision:
    """The decision on a pod of ours. `kept`: the results of an earlier call that changed it, where they still show."""
    init = INIT_RULE.apply(main.case) if main.trouble is None else None
    edits = [edit for one in judged for edit in one.edits]
    rules = [rule for one in judged for rule in one.rules]
    if init is not None:
        edits.extend(init)
        rules.append(INIT_RULE.id)
    if not edits:
        return _nothing_to_do(judged, main, None if audit else kept)
    if audit:
        return _would_change(judged, main, in_order(rules), names(edits))
    return _changed(judged, main, kept, rules, edits)


def nothing_managed(reason: Reason, *warnings: str) -> Decision:
    """The decision on a pod of ours in which there is no container to change."""
    edits = written(Status.UNCHANGED, (), reason, None)
    return Decision(reason, Status.UNCHANGED, warnings=say.warnings(warnings), edits=edits)


def names(edits: list[Edit]) -> tuple[str, ...]:
    """The names of the variables that change, each once, in the order of the changes."""
    return tuple(dict.fromkeys([edit.name for edit in edits if isinstance(edit, SetEnv)]))


def in_order(rules: list[str]) -> tuple[str, ...]:
    """Rules as every text lists them; those that aren't ours (an annotation can say anything) are left out."""
    return tuple(sorted({rule for rule in rules if rule in _ORDER}, key=_ORDER.__getitem__))


def status(rules: tuple[str, ...]) -> Status:
    """What kind of change some rules make, strongest first."""
    if "C1" in rules or "T1" in rules:
        return Status.PROCESS
    if "C2" in rules:
        return Status.NODE
    if "F1" in rules or "F2" in rules or "W1" in rules:
        return Status.ARGUMENTS
    return Status.ENVIRONMENT


def written(pod_status: Status, rules: tuple[str, ...], reason: Reason, ranks: str | None) -> tuple[SetNote, ...]:
    """The result annotations; one of an earlier call that isn't among the new ones goes."""
    return (
        SetNote(notes.STATUS, pod_status.value),
        SetNote(notes.RULES, ",".join(rules) or None),
        SetNote(notes.RANKS, ranks),
        SetNote(notes.REASON, None if reason is Reason.PATCHED else reason.value),
    )


def ranks(main: Judged) -> str | None:
    """`rankfix/ranks` of the main container: what its pair says once the edits are made; None where it says nothing."""
    case, facts = main.case, main.case.facts
    if facts.node is None or facts.pods is None:
        return None
    if "C1" in main.rules or "T1" in main.rules:
        first, own, world = facts.span(case.sizes or notes.Procs(1, 1))
        return notes.ranks((facts.at, facts.of), own, (first, first + own - 1), world)
    new, declared = dict(main.env), case.procs.value if case.procs is not None else None
    rank, world_size = (new.get(name) or case.container.env.text(name) or "" for name in ("RANK", "WORLD_SIZE"))
    if not notes.is_rank(rank) or not notes.is_rank(world_size):
        return None
    return notes.ranks((facts.at, facts.of), declared, (int(rank), int(rank)), int(world_size))


def _warnings(main: Judged) -> list[str]:
    case = main.case
    if main.trouble is not None:
        return list(advice.of_trouble(case, main.trouble))
    unclear = [say.unclear_launch(case.container.name)] if main.reason is Reason.UNCLEAR_LAUNCH else []
    return [*unclear, *advice.of_launch(case)]


def _nothing_to_do(judged: tuple[Judged, ...], main: Judged, kept: Earlier | None) -> Decision:
    warnings = say.warnings(_warnings(main))
    if kept is not None:
        return Decision(main.reason, kept.status, in_order(list(kept.rules)), warnings=warnings, containers=judged)
    edits = written(Status.UNCHANGED, (), main.reason, None)
    return Decision(main.reason, Status.UNCHANGED, warnings=warnings, edits=edits, containers=judged)


def _would_change(judged: tuple[Judged, ...], main: Judged, rules: tuple[str, ...], env: tuple[str, ...]) -> Decision:
    warnings = say.warnings([say.would_change(rules, env), *_warnings(main)])
    edits = written(Status.WOULD_CHANGE, rules, Reason.AUDIT, ranks(main))
    return Decision(Reason.AUDIT, Status.WOULD_CHANGE, rules, env, warnings, edits, judged)


def _changed(
    judged: tuple[Judged, ...], main: Judged, kept: Earlier | None, fired: list[str], edits: list[Edit]
) -> Decision:
    rules = in_order([*fired, *(kept.rules if kept is not None else ())])
    reason = Reason.PATCHED if main.reason is Reason.ALREADY_RIGHT else main.reason
    before = kept.status if kept is not None and not main.rules else None
    pod_status = before or status(main.rules or rules)
    results = written(pod_status, rules, reason, ranks(main))
    warnings = say.warnings(_warnings(main))
    return Decision(reason, pod_status, rules, names(edits), warnings, (*edits, *results), judged)

"""What each arm makes of the operator's pods. Pure functions, but for what the policy arm is handed."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from conformance import jobs
from conformance.jobs import LATE, Pod
from conformance.words import REASONS, RULE_IDS, STATUSES, WARNING, Arm
from webhook.mutate import patched, respond, review_of
from webhook.policy import Policy

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from conformance.cases import Case
    from webhook.mutate import Answer

_AUTO = Policy()


@dataclass(frozen=True, slots=True)
class Said:
    """What rankfix says of a job's pods, all of them together."""

    rules: frozenset[str] = frozenset()
    statuses: tuple[str, ...] = ()  # one a pod, "" where there is no annotation
    reasons: frozenset[str] = frozenset()
    warnings: tuple[str, ...] = ()
    denial: str | None = None


@dataclass(frozen=True, slots=True)
class Made:
    """An arm's pods, or why there are none; `said` where rankfix looked at them."""

    pods: list[Pod] = field(default_factory=list)
    said: Said | None = None
    denied: str | None = None
    skipped: str | None = None


class Skipped(Exception):
    """An arm can't be shown here; the text says why."""


Treat = Callable[[Pod], Pod]  # what somebody else makes of a pod, as the other webhooks left it


def made(case: Case, arm: Arm, policy: Treat, *, workers: int | None = None) -> Made:
    """The pods of an arm; `policy` is the one that the API server evaluates itself, `workers` as in `jobs.pods`."""
    pods = jobs.pods(case, annotate=arm is Arm.ANNOTATED, workers=workers)
    if arm in (Arm.RANKFIX, Arm.ANNOTATED):
        return _rankfix(case, pods)
    treat = {Arm.NAIVE: naive, Arm.POLICY: policy}.get(arm, left)
    try:
        return Made([treat(jobs.changed(pod, case.change)) for pod in pods])
    except Skipped as why:
        return Made(skipped=str(why))


def left(pod: Pod) -> Pod:
    """The pod as it is: what the operator alone comes to."""
    return pod


def _rankfix(case: Case, pods: Iterable[Pod]) -> Made:
    """Each pod sent to rankfix as the API server would, before or after the other webhook; then once more."""
    repaired, answers = [], []
    for pod in pods:
        after, heard = _admitted(pod, case.change)
        repaired.append(after)
        answers += heard
    said = _said(answers, repaired)
    return Made([], said, denied=said.denial) if said.denial else Made(repaired, said)


def _admitted(pod: Pod, change: str | None) -> tuple[Pod, list[Answer]]:
    """The API server asks again where another webhook came later (reinvocationPolicy IfNeeded)."""
    if change is None or not change.endswith(LATE):
        repaired, answer = answered(jobs.changed(pod, change))
        return repaired, [answer]
    once, first = answered(pod)
    twice, second = answered(jobs.changed(once, change))
    return twice, [first, second]


def answered(pod: Pod) -> tuple[Pod, Answer]:
    """A pod as rankfix leaves it, and its answer."""
    answer = respond(json.dumps(review_of(pod)).encode(), _AUTO)
    return patched(pod, answer.patch) if answer.patch else pod, answer


def _said(answers: Iterable[Answer], pods: Iterable[Pod]) -> Said:
    answers = list(answers)
    notes = [pod["metadata"].get("annotations") or {} for pod in pods]
    return Said(
        rules=frozenset(rule for note in notes for rule in note.get("rankfix/rules", "").split(",") if rule),
        statuses=tuple(note.get("rankfix/status", "") for note in notes),
        reasons=frozenset(answer.reason.value for answer in answers),
        warnings=tuple(dict.fromkeys(warning for answer in answers for warning in answer.warnings)),
        denial=next((answer.message for answer in answers if not answer.allowed), None),
    )


def naive(pod: Pod) -> Pod:
    """RANK=k*N and WORLD_SIZE=P*N wherever the operator's pair is, whatever the command; N from GPUs if undeclared."""
    multiplied = copy.deepcopy(pod)
    for container in multiplied["spec"]["containers"]:
        _multiply(container)
    return multiplied


def _multiply(container: dict[str, Any]) -> None:
    values = {entry["name"]: entry.get("value", "") for entry in container.get("env") or ()}
    if not (values.get("RANK", "").isdigit() and values.get("WORLD_SIZE", "").isdigit()):
        return
    declared = values.get("PET_NPROC_PER_NODE", "")
    nodes = int(values["WORLD_SIZE"]) // (int(declared) if declared.isdigit() else 1)
    each = int(declared) if declared.isdigit() else _gpus(container)
    replaced(container, {"RANK": str(int(values["RANK"]) * each), "WORLD_SIZE": str(nodes * each)})


def _gpus(container: dict[str, Any]) -> int:
    limits = (container.get("resources") or {}).get("limits") or {}
    return next((int(count) for name, count in limits.items() if name.endswith("/gpu") and str(count).isdigit()), 1)


def replaced(container: dict[str, Any], values: dict[str, str]) -> None:
    """Set variables: the last entry of a name in its place, a new name at the end."""
    entries = container.setdefault("env", [])
    for name, value in values.items():
        at = [index for index, entry in enumerate(entries) if entry["name"] == name]
        if at:
            entries[at[-1]] = {"name": name, "value": value}
        else:
            entries.append({"name": name, "value": value})


def faults(case: Case, said: Said) -> Iterator[str]:
    """Where what rankfix says isn't the case's `status`; nothing, if it is."""
    told = " + ".join(case.status)
    rules = {word for word in case.status if word in RULE_IDS}
    if said.rules != rules:
        yield f"status {told!r}: the rules are {', '.join(sorted(said.rules)) or 'none'}"
    for word in (word for word in case.status if word in STATUSES):
        holds = all if word == "unchanged" else any
        if not holds(status == word for status in said.statuses):
            yield f"status {told!r}: rankfix/status of the pods is {_listed(said.statuses)}"
    reasons = {word for word in case.status if word in REASONS}
    if not reasons <= said.reasons:
        yield f"status {told!r}: the reasons are {_listed(said.reasons)}"
    if (WARNING in case.status) != bool(said.warnings):
        yield f"status {told!r}: warned of: {_listed(said.warnings)}"


def _listed(words: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(word or "none" for word in words)) or "nothing"

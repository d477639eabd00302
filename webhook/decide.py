"""Pod and policy in, decision out: a pure function of the two (rank contract, sections 2 and 5 to 8)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from webhook import advice, contracts, facts, launch, notes, say
from webhook.case import Case, twins
from webhook.errors import Refused
from webhook.launch import Launch, LaunchClass
from webhook.pod import DEFAULT_CONTAINER, Container, Pod, is_ours
from webhook.policy import Mode, Policy, Reason, Status
from webhook.result import Decision, Judged
from webhook.rules import RULES
from webhook.rules.arguments import wrapped
from webhook.summary import nothing_managed, sum_up

if TYPE_CHECKING:
    from webhook.edits import Edit
    from webhook.facts import Trouble
    from webhook.notes import Asked, Earlier
    from webhook.rules import Rule

__all__ = ["Decision", "Judged", "Mode", "Policy", "Reason", "Status", "decide"]

Classify = Callable[[Mapping[str, Any]], Launch]

_RULES_OF = {mode: tuple(rule for rule in RULES if mode in rule.modes) for mode in Mode}
_CONTRACTS = frozenset({"C1", "C2", "T1"})
_CONTRACT_MODES = (Mode.PROCESS, Mode.NODE, Mode.TORCHRUN)


@dataclass(frozen=True, slots=True)
class _Order:
    """What is asked of this pod: its annotations, the mode that follows, and whether the pod itself names that mode."""

    pod: Pod
    policy: Policy
    asked: Asked
    mode: Mode
    explicit: bool


def decide(pod: Pod, policy: Policy, *, classify: Classify = launch.classify) -> Decision:
    """What rankfix does to a pod that is being created.

    Never raises on a pod of any shape: one whose annotations can't be obeyed is denied (`Decision.denial`).
    """
    if not is_ours(pod.raw):
        return Decision(Reason.NOT_OURS)
    lenient = policy.default_mode is Mode.AUDIT
    try:
        mode = notes.asked_mode(pod)
        lenient = lenient and mode is None
        if (mode or policy.default_mode) is Mode.OFF:
            return Decision(Reason.OFF)
        order = _Order(pod, policy, notes.asked(pod), mode or policy.default_mode, mode is not None)
        return _decide(order, classify)
    except Refused as problem:
        return _not_denied(str(problem)) if lenient else _denied(str(problem), pod)


def _denied(problem: str, pod: Pod) -> Decision:
    return Decision(Reason.DENIED, denial=say.denial(problem, pod.job))


def _not_denied(problem: str) -> Decision:
    """A server that only audits refuses nothing; the pod learns what `auto` would say."""
    return nothing_managed(Reason.AUDIT, say.not_denied(problem))


def _decide(order: _Order, classify: Classify) -> Decision:
    named = order.asked.containers
    managed = [c for c in order.pod.containers if c.managed and (named is None or c.name in named)]
    if not managed:
        return _nothing_managed(order, classify)
    main = next((c for c in managed if c.name == DEFAULT_CONTAINER), managed[0])
    earlier = notes.earlier(order.pod)
    before = facts.believed(earlier, main.env)
    cases = _cases(order, managed, main, before, classify)
    place = managed.index(main)
    if order.explicit and order.mode in _CONTRACT_MODES:
        _must_be_obeyable(cases[place], cases)
    judged = tuple(_judge(case, before) for case in cases)
    kept = earlier if earlier.changed and (before is not None or notes.RANKS not in order.pod.annotations) else None
    return sum_up(judged, judged[place], kept, audit=order.mode is Mode.AUDIT)


def _nothing_managed(order: _Order, classify: Classify) -> Decision:
    """No container has the operator's env: an operator before 1.7 made it for a job without a Master."""
    if order.explicit and order.mode in _CONTRACT_MODES:
        raise Refused(_not_here(order.mode, "the operator tells its containers neither a rank nor the number of pods"))
    first = order.pod.first() if order.asked.containers is None else None
    if first is not None and classify(first.raw).cls in (LaunchClass.PYTHON, LaunchClass.ENTRYPOINT):
        return nothing_managed(Reason.NO_RANK_ENV, say.no_rank_env(obeyable=False))
    return nothing_managed(Reason.NO_RANK_ENV)


def _not_here(mode: Mode, problem: str) -> str:
    was = f"annotation {notes.MODE} is {say.quoted(mode)}, which can't be obeyed"
    return f"{was}: {problem}; allowed here: auto, audit, off"


def _cases(
    order: _Order, managed: list[Container], main: Container, before: Earlier | None, classify: Classify
) -> list[Case]:
    gpus = facts.gpu_limit(main)
    if order.asked.gpu and gpus is None:
        problem = "the container has no limit that is a whole number of one kind of GPU"
        raise Refused(f'annotation {notes.NPROC} is "gpu", but {problem}; allowed here: a number from 1 to 9999')
    equal = twins(managed, before)
    cases = [
        Case(
            pod=order.pod,
            container=container,
            facts=facts.read(order.pod, container, order.asked, before, gpus),
            launch=classify(container.raw),
            policy=order.policy,
            asked=order.asked,
            mode=Mode.AUTO if order.mode is Mode.AUDIT else order.mode,
            explicit=order.explicit,
            equals=equal.get(container.index),
            gpus=facts.gpu_limit(container),
            chosen=container is main
            or order.asked.containers is not None
            or (main.index in equal and container.index in equal),
        )
        for container in managed
    ]
    if order.mode is Mode.TORCHRUN and not order.explicit and not all(_takes_torchrun(c) for c in cases if c.chosen):
        return [replace(case, mode=Mode.AUTO) for case in cases]  # what a default doesn't fit goes by auto
    return cases


def _takes_torchrun(case: Case) -> bool:
    starts = (case.launch.cls is LaunchClass.PYTHON and case.launch.wrap is not None) or wrapped(case)
    return starts and ("MASTER_ADDR" in case.container.env or bool(contracts.master(case)))


def _must_be_obeyable(main: Case, cases: list[Case]) -> None:
    """The job itself asks for a contract: then it gets one, or hears why not before it trains for a day.

    Raises:
        Refused: ranks aren't known before the pods run, or mode `torchrun` finds no python script to put itself before.
    """
    hard = main.facts.hard
    if hard is not None and (hard.reason is Reason.ELASTIC or main.facts.pods is None):
        raise Refused(_not_here(main.mode, hard.text))
    for case in cases if main.mode is Mode.TORCHRUN else ():
        if case.chosen and not _takes_torchrun(case):
            name, cls = say.line(case.container.name, 63), case.launch.cls
            raise Refused(
                _not_here(main.mode, f"container {name} doesn't start a python script or module (class {cls})")
            )


def _judge(case: Case, before: Earlier | None) -> Judged:
    trouble = case.trouble
    edits: list[Edit] = []
    applied: list[str] = []
    group = None
    for rule in _allowed(case, trouble):
        if rule.group and rule.group == group:
            continue
        changes = rule.apply(case)
        if changes is not None:
            edits.extend(changes)
            applied.append(rule.id)
            group = rule.group or group
    rules = tuple(applied)
    reason = trouble.reason if trouble is not None else _reason(case, before, rules, edits)
    return Judged(case, rules, tuple(edits), reason, trouble)


def _allowed(case: Case, trouble: Trouble | None) -> tuple[Rule, ...]:
    """The rules that mode, trouble and the command's text leave."""
    rules = _RULES_OF[case.mode]
    if trouble is not None:
        rules = tuple(rule for rule in rules if trouble.reason in rule.despite)
    if case.mode is Mode.AUTO and case.launch.unsets:
        return ()
    if case.mode is Mode.AUTO and case.launch.parse_error:
        rules = tuple(rule for rule in rules if rule.unparsed)
    return rules


def _reason(case: Case, before: Earlier | None, rules: tuple[str, ...], edits: list[Edit]) -> Reason:
    if not _CONTRACTS.intersection(rules) and advice.is_unclear(case, before):
        return Reason.UNCLEAR_LAUNCH
    return Reason.PATCHED if edits else Reason.ALREADY_RIGHT

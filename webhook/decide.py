"""Pod and policy in, decision out: a pure function of the two (rank contract, sections 2 and 5 to 8)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from webhook import advice, contracts, facts, launch, notes, say
from webhook.case import Case, twins
from webhook.edits import Edit, SetEnv
from webhook.errors import Refused
from webhook.launch import Launch, LaunchClass
from webhook.pod import DEFAULT_CONTAINER, Container, Pod, is_ours
from webhook.policy import Mode, Policy, Reason, Status
from webhook.result import CONTRACTS, Decision, Judged, in_order, ranks, status, written
from webhook.rules import INIT_RULE, RULES, Rule, wrapped

if TYPE_CHECKING:
    from webhook.facts import Trouble
    from webhook.notes import Asked, Earlier

__all__ = ["Decision", "Judged", "Mode", "Policy", "Reason", "Status", "decide"]

Classify = Callable[[Mapping[str, Any]], Launch]

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
    edits = written(Status.UNCHANGED, (), Reason.AUDIT, None)
    return Decision(Reason.AUDIT, Status.UNCHANGED, warnings=say.warnings([say.not_denied(problem)]), edits=edits)


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
    judged = [_judge(case, before) for case in cases]
    return _sum_up(order, judged, judged[place], earlier, before)


def _nothing_managed(order: _Order, classify: Classify) -> Decision:
    """No container has the operator's env: an operator before 1.7 made it for a job without a Master."""
    if order.explicit and order.mode in _CONTRACT_MODES:
        raise Refused(_not_here(order.mode, "the operator tells its containers neither a rank nor the number of pods"))
    first = order.pod.first()
    warnings = []
    if order.asked.containers is None and first is not None:
        cls = classify(first.raw).cls
        warnings = [say.no_rank_env(obeyable=False)] if cls in (LaunchClass.PYTHON, LaunchClass.ENTRYPOINT) else []
    edits = written(Status.UNCHANGED, (), Reason.NO_RANK_ENV, None)
    return Decision(Reason.NO_RANK_ENV, Status.UNCHANGED, warnings=say.warnings(warnings), edits=edits)


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
        return [
            replace(case, mode=Mode.AUTO) for case in cases
        ]  # a default is no order: what it doesn't fit goes by auto
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
    applied: dict[str, Rule] = {}
    groups: set[str] = set()
    for rule in RULES:
        if rule.group in groups or not _may(rule, case, trouble):
            continue
        changes = rule.apply(case)
        if changes is not None:
            edits.extend(changes)
            applied[rule.id] = rule
            groups.update({rule.group} if rule.group else ())
    reason = trouble.reason if trouble else _reason(case, before, applied, edits)
    return Judged(case, tuple(applied), tuple(edits), reason, trouble)


def _may(rule: Rule, case: Case, trouble: Trouble | None) -> bool:
    if case.mode not in rule.modes or (trouble is not None and trouble.reason not in rule.despite):
        return False
    return case.mode is not Mode.AUTO or not (case.launch.unsets or (case.launch.parse_error and not rule.unparsed))


def _reason(case: Case, before: Earlier | None, applied: Mapping[str, Rule], edits: list[Edit]) -> Reason:
    if not CONTRACTS & applied.keys() and advice.is_unclear(case, before):
        return Reason.UNCLEAR_LAUNCH
    return Reason.PATCHED if edits else Reason.ALREADY_RIGHT


def _sum_up(order: _Order, judged: list[Judged], main: Judged, earlier: Earlier, before: Earlier | None) -> Decision:
    """The pod's decision. An earlier call's results stay where nothing changes now, and are added to where it does."""
    init = INIT_RULE.apply(main.case) if main.trouble is None else None
    edits = [edit for one in judged for edit in one.edits] + list(init or ())
    rules = {rule for one in judged for rule in one.rules} | ({INIT_RULE.id} if init is not None else set())
    kept = earlier if earlier.changed and (before is not None or notes.RANKS not in order.pod.annotations) else None
    env = tuple(dict.fromkeys(edit.name for edit in edits if isinstance(edit, SetEnv)))
    base = Decision(main.reason, env=env, containers=tuple(judged), warnings=tuple(_warnings(main)))
    if order.mode is Mode.AUDIT:
        return _audited(base, in_order(rules), main) if edits else _unchanged(base)
    if not edits:
        return _as_before(base, kept) if kept is not None else _unchanged(base)
    return _changed(base, in_order(rules | set(kept.rules if kept else ())), main, kept, edits)


def _warnings(main: Judged) -> list[str]:
    case = main.case
    if main.trouble is not None:
        return list(advice.of_trouble(case, main.trouble))
    unclear = [say.unclear_launch(case.container.name)] if main.reason is Reason.UNCLEAR_LAUNCH else []
    return [*unclear, *advice.of_launch(case)]


def _audited(base: Decision, rules: tuple[str, ...], main: Judged) -> Decision:
    warnings = say.warnings([say.would_change(rules, base.env), *base.warnings])
    edits = written(Status.WOULD_CHANGE, rules, Reason.AUDIT, ranks(main))
    return replace(base, reason=Reason.AUDIT, status=Status.WOULD_CHANGE, rules=rules, warnings=warnings, edits=edits)


def _unchanged(base: Decision) -> Decision:
    edits = written(Status.UNCHANGED, (), base.reason, None)
    return replace(base, status=Status.UNCHANGED, warnings=say.warnings(base.warnings), edits=edits)


def _as_before(base: Decision, kept: Earlier) -> Decision:
    return replace(base, status=kept.status, rules=in_order(set(kept.rules)), warnings=say.warnings(base.warnings))


def _changed(base: Decision, rules: tuple[str, ...], main: Judged, kept: Earlier | None, edits: list[Edit]) -> Decision:
    reason = Reason.PATCHED if base.reason is Reason.ALREADY_RIGHT else base.reason
    if main.rules:
        pod_status = status(main.rules)
    else:
        pod_status = kept.status if kept is not None and kept.status is not None else status(rules)
    results = written(pod_status, rules, reason, ranks(main))
    warnings = say.warnings(base.warnings)
    return replace(base, reason=reason, status=pod_status, rules=rules, warnings=warnings, edits=(*edits, *results))

"""Pod and policy in, decision out: a pure function of the two (rank contract, sections 2 and 5 to 8)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from webhook import advice, contracts, facts, launch, notes, say
from webhook.case import Case, Order, twins
from webhook.errors import Refused
from webhook.launch import Launch, LaunchClass
from webhook.pod import DEFAULT_CONTAINER, Container, Pod, is_ours
from webhook.policy import Mode, Policy, Reason, Status
from webhook.result import Decision, Judged
from webhook.rules import RULES
from webhook.rules.arguments import wrapped
from webhook.summary import nothing_managed, ranks, sum_up

if TYPE_CHECKING:
    from webhook.edits import Edit
    from webhook.facts import Trouble
    from webhook.notes import Asked, Earlier
    from webhook.rules import Rule

__all__ = ["Decision", "Judged", "Mode", "Policy", "Reason", "Status", "decide"]

Classify = Callable[[Mapping[str, Any]], Launch]

_RULES_OF = {mode: tuple(rule for rule in RULES if mode in rule.modes) for mode in Mode}
_ONLY_AUTO = frozenset(rule.id for rule in RULES if rule.modes == {Mode.AUTO})
_CONTRACTS = frozenset({"C1", "C2", "T1"})
_CONTRACT_MODES = (Mode.PROCESS, Mode.NODE, Mode.TORCHRUN)


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
        return _decide(pod, policy, mode, classify)
    except Refused as problem:
        return _not_denied(str(problem)) if lenient else _denied(str(problem), pod)


def _denied(problem: str, pod: Pod) -> Decision:
    return Decision(Reason.DENIED, denial=say.denial(problem, pod.job))


def _not_denied(problem: str) -> Decision:
    """A server that only audits refuses nothing; the pod learns what `auto` would say."""
    return nothing_managed(Reason.AUDIT, say.not_denied(problem))


def _decide(pod: Pod, policy: Policy, mode: Mode | None, classify: Classify) -> Decision:
    asked = notes.asked(pod)
    named = asked.containers
    managed = [c for c in pod.containers if c.managed and (named is None or c.name in named)]
    if not managed:
        return _nothing_managed(pod, asked, classify)
    place = next((place for place, c in enumerate(managed) if c.name == DEFAULT_CONTAINER), 0)
    results = notes.earlier(pod)
    before = facts.believed(results, managed[place].env)
    earlier = results if before is not None or _left_alone(results, pod, managed[place]) else None
    wanted = mode or policy.default_mode
    in_force = Mode.AUTO if wanted is Mode.AUDIT else wanted
    order = Order(pod, policy, asked, in_force, explicit=mode is not None, before=before, earlier=earlier)
    judged = tuple(_judge(case) for case in _cases(order, managed, place, classify))
    kept = results if results.changed and (before is not None or _says_no_ranks(pod, judged[place])) else None
    return sum_up(judged, judged[place], kept, audit=wanted is Mode.AUDIT)


def _left_alone(results: Earlier, pod: Pod, main: Container) -> bool:
    """Whether an earlier call wrote results that say nothing of ranks: it changed no env, or there were no numbers."""
    if results.changed:
        numbers = [notes.is_rank(main.env.text(name) or "") for name in ("RANK", "WORLD_SIZE")]
        return notes.RANKS not in pod.annotations and not all(numbers)
    return results.status is not None


def _says_no_ranks(pod: Pod, main: Judged) -> bool:
    return notes.RANKS not in pod.annotations and ranks(main) is None


def _nothing_managed(pod: Pod, asked: Asked, classify: Classify) -> Decision:
    """No container has the operator's env: an operator before 1.7 made it for a job without a Master."""
    if asked.mode in _CONTRACT_MODES:
        raise Refused(_not_here(asked.mode, "the operator tells its containers neither a rank nor the number of pods"))
    first = pod.first() if asked.containers is None else None
    if first is not None and classify(first.raw).cls in (LaunchClass.PYTHON, LaunchClass.ENTRYPOINT):
        return nothing_managed(Reason.NO_RANK_ENV, say.no_rank_env(obeyable=False))
    return nothing_managed(Reason.NO_RANK_ENV)


def _not_here(mode: Mode, problem: str) -> str:
    was = f"annotation {notes.MODE} is {say.quoted(mode)}, which can't be obeyed"
    return f"{was}: {problem}; allowed here: auto, audit, off"


def _cases(order: Order, managed: list[Container], place: int, classify: Classify) -> list[Case]:
    """The cases of the managed containers; the main one's is number `place`.

    Raises:
        Refused: an annotation asks for what this pod hasn't got.
    """
    main = managed[place]
    gpus = facts.gpu_limit(main)
    if order.asked.gpu and gpus is None:
        problem = "the container has no limit that is a whole number of one kind of GPU"
        raise Refused(f'annotation {notes.NPROC} is "gpu", but {problem}; allowed here: a number from 1 to 9999')
    equal = twins(managed, order.before)
    cases = [
        Case(
            order=order,
            container=container,
            facts=facts.read(order.pod, container, order.asked, order.before, gpus),
            launch=classify(container.raw),
            equals=equal.get(container.index),
            gpus=gpus if container is main else facts.gpu_limit(container),
            chosen=container is main or order.asked.containers is not None or container.index in equal,
        )
        for container in managed
    ]
    if order.explicit:
        _must_be_obeyable(cases[place], cases)
    elif order.mode is Mode.TORCHRUN and (
        _went_by_auto(order.earlier) or not all(_takes_torchrun(case) for case in cases if case.chosen)
    ):
        auto = replace(order, mode=Mode.AUTO)  # what a server's default doesn't fit goes by `auto`
        return [replace(case, order=auto) for case in cases]
    return cases


def _went_by_auto(earlier: Earlier | None) -> bool:
    """Whether an earlier call did what only mode `auto` does, such as mend a command that may now look like ours."""
    return earlier is not None and not _ONLY_AUTO.isdisjoint(earlier.rules)


def _takes_torchrun(case: Case) -> bool:
    starts = (case.launch.cls is LaunchClass.PYTHON and case.launch.wrap is not None) or wrapped(case)
    return starts and ("MASTER_ADDR" in case.container.env or bool(contracts.master(case)))


def _must_be_obeyable(main: Case, cases: list[Case]) -> None:
    """The job itself asks for a contract: then it gets one, or hears why not before it trains for a day.

    Raises:
        Refused: ranks aren't known before the pods run, or mode `torchrun` finds no python script to put itself before.
    """
    mode, hard = main.order.mode, main.facts.hard
    if mode in _CONTRACT_MODES and hard is not None and (hard.reason is Reason.ELASTIC or main.facts.pods is None):
        raise Refused(_not_here(mode, hard.text))
    for case in cases if mode is Mode.TORCHRUN else ():
        if case.chosen and not _takes_torchrun(case):
            name, cls = say.line(case.container.name, 63), case.launch.cls
            raise Refused(_not_here(mode, f"container {name} doesn't start a python script or module (class {cls})"))


def _judge(case: Case) -> Judged:
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
    reason = trouble.reason if trouble is not None else _reason(case, rules, edits)
    return Judged(case, rules, tuple(edits), reason, trouble)


def _allowed(case: Case, trouble: Trouble | None) -> tuple[Rule, ...]:
    """The rules that mode, trouble and the command's text leave."""
    rules = _RULES_OF[case.order.mode]
    if trouble is not None:
        rules = tuple(rule for rule in rules if trouble.reason in rule.despite)
    if case.order.mode is Mode.AUTO and case.launch.unsets:
        return ()
    if case.order.mode is Mode.AUTO and case.launch.parse_error:
        rules = tuple(rule for rule in rules if rule.unparsed)
    return rules


def _reason(case: Case, rules: tuple[str, ...], edits: list[Edit]) -> Reason:
    if not _CONTRACTS.intersection(rules) and advice.is_unclear(case):
        return Reason.UNCLEAR_LAUNCH
    return Reason.PATCHED if edits else Reason.ALREADY_RIGHT

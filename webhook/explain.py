"""A PyTorchJob, and the operator's version -> what becomes of each of its pods: a pure function, for people.

The pods are made as that operator makes them, and decided on as the server would; what is said of their processes is a
prediction from the pod alone (`outlook`).
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any

from webhook import counsel, launch, mutate, operator_, outlook, reasons, verdict
from webhook import pod as pods
from webhook.decide import Decision, decide
from webhook.edits import Edit, SetNote, to_patch
from webhook.facts import Facts, Found, gpu_limit, read, replica
from webhook.notes import Asked
from webhook.policy import Policy, Reason, Status
from webhook.rules import ALL_RULES
from webhook.shell.run import SHELLS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from webhook.explained import (
        Container,
        EnvChange,
        Evidence,
        InitContainer,
        Job,
        Launched,
        Number,
        Processes,
        RuleTold,
        WordChange,
    )
    from webhook.explained import Pod as PodTold
    from webhook.operator_ import Generation
    from webhook.result import Judged

SHOWN = ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NODE_RANK")
SPAWNS = "--multiprocessing-distributed"
_RULES = {rule.id: rule for rule in ALL_RULES}
_CONTRACTS = {"C1": "process", "T1": "process", "C2": "node"}


@dataclass(frozen=True, slots=True)
class Seen:
    """A pod as the operator makes it, the decision on it, and the pod that it leads to, or (audit) would lead to."""

    before: pods.Pod
    after: pods.Pod
    decision: Decision

    def judged(self, container: pods.Container) -> Judged | None:
        """What was judged of a container; None where it isn't managed, or the pod wasn't looked into."""
        return next((j for j in self.decision.containers if j.case.container.index == container.index), None)


def explain(job: Mapping[str, Any], operator: Generation, policy: Policy, *, where: str = "", line: int = 0) -> Job:
    """All that is to say of a job.

    Raises:
        BadJob: the API server or the operator refuses it.
    """
    seen = [_seen(raw, policy) for raw in operator_.pods(job, operator)]
    told = [_pod(one) for one in seen]
    training = [c for pod, one in zip(told, seen, strict=True) for c in _training(pod, one)]
    return {
        "name": seen[0].before.job,
        "namespace": seen[0].before.raw["metadata"]["namespace"],
        "operator": operator.version,
        "where": where,
        "line": line,
        "verdict": verdict.of(
            [container["processes"]["before"] for container in training],
            [container["processes"]["after"] for container in training],
            _terms([one.decision for one in seen]),
        ),
        "notes": operator_.notes(job, operator),
        "advice": counsel.of([one.decision for one in seen], operator),
        "pods": told,
    }


def _terms(decisions: Sequence[Decision]) -> verdict.Terms:
    return verdict.Terms(
        changed=any(decision.rules for decision in decisions),
        refused=any(decision.denial is not None for decision in decisions),
        off=any(decision.reason is Reason.OFF for decision in decisions),
        audit=any(decision.reason is Reason.AUDIT for decision in decisions),
        unclear=any(decision.reason is Reason.UNCLEAR_LAUNCH for decision in decisions),
    )


def _seen(raw: dict[str, Any], policy: Policy) -> Seen:
    before = pods.read(raw)
    decision = decide(before, policy)
    edits: Sequence[Edit] = decision.edits
    if decision.status is Status.WOULD_CHANGE:
        edits = [edit for one in decision.containers for edit in one.edits if not isinstance(edit, SetNote)]
    return Seen(before, pods.read(mutate.patched(raw, to_patch(before, edits))), decision)


def _training(pod: PodTold, seen: Seen) -> Iterator[Container]:
    """The containers that a verdict is about: `pytorch` and its twins."""
    for told, container in zip(pod["containers"], seen.before.containers, strict=True):
        judged = seen.judged(container)
        if container.name == pods.DEFAULT_CONTAINER or (judged is not None and judged.case.twin is not None):
            yield told


def _pod(seen: Seen) -> PodTold:
    decision, view = seen.decision, seen.before
    labels = replica(view.labels)
    kind, index = ("", 0) if labels is None or isinstance(labels, tuple) else (_kind(labels.master), labels.index)
    return {
        "name": view.raw["metadata"]["name"],
        "type": kind,
        "index": index,
        "allowed": decision.denial is None,
        "status": decision.status.value if decision.status is not None else "unchanged",
        "reason": decision.reason.value,
        "rules": list(decision.rules),
        "message": decision.denial,
        "warnings": list(decision.warnings),
        "containers": [_container(seen, container) for container in view.containers],
        "initContainers": list(_init(seen)),
    }


def _kind(master: bool) -> str:
    return "Master" if master else "Worker"


def _init(seen: Seen) -> Iterator[InitContainer]:
    for before, after in zip(seen.before.init_containers, seen.after.init_containers, strict=True):
        changes = [change for change in _env(before.env, after.env) if change["before"] != change["after"]]
        if changes:
            yield {"name": before.name, "env": changes}


def _container(seen: Seen, container: pods.Container) -> Container:
    judged, after = seen.judged(container), seen.after.containers[container.index]
    facts = judged.case.facts if judged is not None else _facts(seen.before, container)
    launched = judged.case.launch if judged is not None else launch.classify(container.raw)
    rules = judged.rules if judged is not None else ()
    procs = judged.case.procs if judged is not None else facts.nproc
    before = _view(container, launched, facts, judged)
    then = _view(after, launch.classify(after.raw), facts, judged, contract=_contract(rules))
    return {
        "name": container.name,
        "managed": judged is not None,
        "launch": _launched(container, launched),
        "facts": {"k": _number(facts.node), "P": _number(facts.pods), "N": _number(procs)},
        "env": list(_env(container.env, after.env)),
        "words": [*_words(container, after, "command"), *_words(container, after, "args")],
        "rules": [_rule(rule) for rule in rules],
        "reason": (judged.reason if judged is not None else seen.decision.reason).value,
        "why": reasons.why(seen.decision, judged, launched.cls),
        "processes": _processes(seen, before, then, left_out=judged is None and bool(seen.decision.containers)),
    }


def _processes(seen: Seen, before: outlook.View, after: outlook.View, *, left_out: bool) -> Processes:
    if left_out:
        return {"before": outlook.told("unknown", "left out"), "after": outlook.told("unknown", "left out")}
    if seen.decision.denial is not None:
        return {"before": outlook.of(before), "after": outlook.told("fails", "its pod is refused")}
    return {"before": outlook.of(before), "after": outlook.of(after)}


def _facts(pod: pods.Pod, container: pods.Container) -> Facts:
    return read(pod, container, Asked(), None, gpu_limit(container))


def _view(
    container: pods.Container, launched: launch.Launch, facts: Facts, judged: Judged | None, contract: str = ""
) -> outlook.View:
    procs = judged.case.procs if judged is not None else facts.nproc
    twin = judged.case.twin if judged is not None else None
    return outlook.View(
        env=container.env,
        launch=launched,
        node=facts.node.value if facts.node is not None else None,
        pods=facts.pods.value if facts.pods is not None else None,
        procs=None if procs is None else max(1, procs.value // (twin.count if twin is not None else 1)),
        gpus=gpu_limit(container),
        contract=contract,
    )


def _contract(rules: Sequence[str]) -> str:
    return next((_CONTRACTS[rule] for rule in rules if rule in _CONTRACTS), "")


def _number(found: Found | None) -> Number | None:
    return None if found is None else {"value": found.value, "source": found.source}


def _rule(rule: str) -> RuleTold:
    found = _RULES[rule]
    first = (found.apply.__doc__ or "").strip().partition("\n")[0]
    return {"id": rule, "title": found.title, "why": first}


def _env(before: pods.Env, after: pods.Env) -> Iterator[EnvChange]:
    """The names that tell ranks, and whatever else changes; of no other entry is the value told."""
    names = dict.fromkeys((*SHOWN, *after.last))
    for name in names:
        old, new = (env.text(name) if name in env else None for env in (before, after))
        if (name in SHOWN and (name in before or name in after)) or old != new:
            yield {"name": name, "before": old, "after": new}


def _words(before: pods.Container, after: pods.Container, field: str) -> Iterator[WordChange]:
    old, new = _list(before.raw.get(field)), _list(after.raw.get(field))
    for tag, a, b, c, d in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        for offset in range(max(b - a, d - c)):
            was = old[a + offset] if a + offset < b else None
            yield {"field": field, "index": c + offset, "before": was, "after": new[c + offset]}


def _list(words: object) -> list[str]:
    return words if isinstance(words, list) else []


def _launched(container: pods.Container, launched: launch.Launch) -> Launched:
    raw = container.raw
    return {
        "class": launched.cls.value,
        "means": reasons.means(launched),
        "command": _list(raw.get("command")),
        "args": _list(raw.get("args")),
        "evidence": list(_evidence(container, launched)),
    }


def _evidence(container: pods.Container, launched: launch.Launch) -> Iterator[Evidence]:
    if launched.multiprocessing_distributed:
        yield from _spelled(container, SPAWNS)
    for field, index, start, end in launched.evidence:
        words = _list(container.raw.get(field))
        text = words[index][start:end]
        yield {"field": field, "index": index, "start": start, "end": end, "text": text}
        if text == words[index] and text.rpartition("/")[2] in SHELLS and index + 1 < len(words):
            # A shell's own name tells nothing: it is the file after it that can't be looked into
            yield {
                "field": field,
                "index": index + 1,
                "start": 0,
                "end": len(words[index + 1]),
                "text": words[index + 1],
            }


def _spelled(container: pods.Container, word: str) -> Iterator[Evidence]:
    """The places where a word is an item of its own."""
    for field in ("command", "args"):
        for index, text in enumerate(_list(container.raw.get(field))):
            if text == word:
                yield {"field": field, "index": index, "start": 0, "end": len(text), "text": text}

"""The pods of one job: where one was decided on, the others need only what their rank changes.

Workers of a job differ in RANK, PET_NODE_RANK and the label replica-index, and in nothing else that a decision is
shown. These are cut out of the pod's JSON; what is left is what kin share. The rules that fired on the first one are
then applied to the others, with their own rank and the same code; how the container starts, which rules don't fire,
what is asked for and what is wrong needn't be found out again. This holds under conditions, which `of` checks; a pod
that doesn't meet them has no kin, and is decided on by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from webhook import notes
from webhook.case import Case
from webhook.edits import Edit, SetEnv, SetNote
from webhook.envelope import pod_of
from webhook.facts import Facts, Found, Replica, replica
from webhook.launch import LaunchClass
from webhook.pod import Container, Env, read
from webhook.policy import Mode, Status
from webhook.result import Decision, Judged
from webhook.rules import RULES
from webhook.summary import names, ranks

if TYPE_CHECKING:
    from webhook.envelope import Essence
    from webhook.pod import Pod
    from webhook.rules import Rule

_RANK, _BEFORE_RANK = b'RANK","value":"', (b'"name":"', b'"name":"PET_NODE_')
_INDEX, _BEFORE_INDEX = b'replica-index":"', b""
_DIGITS = 9
_NAMES = ("RANK", "PET_NODE_RANK")
_SIMPLE = frozenset({"C1", "C2", "A1"})  # they write NODE_RANK, so that there is a change whatever the rank
_STATUS = frozenset({Status.PROCESS, Status.NODE, Status.ENVIRONMENT})
_BY_ID = {rule.id: rule for rule in RULES}


class Family(NamedTuple):
    """What the pods of a job share, as a key: their JSON in pieces, and by how much the index is less than the rank.

    Between two pieces stood a rank, or an index; `ahead` is None where there is no index.
    """

    containers: tuple[bytes, ...]
    labels: tuple[bytes, ...]
    rest: tuple[bytes, bytes, bytes]
    ahead: int | None
    first: bool  # rank 0: a Master's number of processes may be another

    def member(self, rank: int) -> Essence:
        """The pod of this rank."""
        labels = _with(self.labels, rank - (self.ahead or 0))
        annotations, owners, init_containers = self.rest
        return labels, annotations, owners, _with(self.containers, rank), init_containers


@dataclass(frozen=True, slots=True)
class Kin:
    """A pod that was decided on, for those that differ from it in their rank only.

    `rules` are those that fired, `places` the env entries that hold the rank, `results` the result annotations.
    """

    pod: Pod
    case: Case
    decision: Decision
    rules: tuple[Rule, ...]
    places: tuple[int, ...]
    results: tuple[SetNote, ...]


def cut(parts: Essence) -> tuple[Family | None, int]:
    """What a pod shares with its kin, and its rank; (None, -1) where it isn't written as an operator writes it.

    Only whole values are cut: a quote within a string of JSON has a backslash before it, and the patterns have none.
    """
    labels, annotations, owners, containers, init_containers = parts
    shared, ranks = _without(containers, _RANK, _BEFORE_RANK)
    shared_labels, indices = _without(labels, _INDEX, _BEFORE_INDEX)
    if len(ranks) != 1 or len(indices) > 1:
        return None, -1
    rank = int(ranks.pop())
    ahead = rank - int(indices.pop()) if indices else None
    return Family(shared, shared_labels, (annotations, owners, init_containers), ahead, rank == 0), rank


def _without(text: bytes, mark: bytes, before: bytes | tuple[bytes, ...]) -> tuple[tuple[bytes, ...], set[bytes]]:
    """A text around the numbers behind each mark that has one of these before it; and the numbers.

    (By `find`, since this is on the way of each new pod: a regular expression takes four times as long.)
    """
    pieces: list[bytes] = []
    values: set[bytes] = set()
    done, at = 0, text.find(mark)
    while at >= 0:
        start = at + len(mark)
        end = text.find(b'"', start)
        value = text[start:end]
        if text.endswith(before, done, at) and _is_plain(value):
            pieces.append(text[done:start])
            values.add(value)
            done = end
        at = text.find(mark, start)
    pieces.append(text[done:])
    return tuple(pieces), values


def _is_plain(value: bytes) -> bool:
    """Whether it's a number as an operator writes it."""
    return value.isdigit() and len(value) <= _DIGITS and (value == b"0" or value[:1] != b"0")


def _with(pieces: tuple[bytes, ...], number: int) -> bytes:
    """The text around these pieces' gaps, with another number in each."""
    return (b"%d" % number).join(pieces)


def of(pod: Pod, decision: Decision, family: Family, rank: int) -> Kin | None:
    """The kin of a pod of this rank, if nothing but numbers in its decision can depend on the rank.

    Its one managed container is under one of the simplest rules, in mode `auto`, for the first time; F1 compares a rank
    that the command has written out, and a NODE_RANK that the template sets may happen to be right.
    """
    if len(decision.containers) != 1 or decision.status not in _STATUS or not _SIMPLE.issuperset(decision.rules):
        return None
    (judged,) = decision.containers
    case = judged.case
    env, texts = case.container.env, {case.container.env.text(name) for name in _NAMES if name in case.container.env}
    simple = (
        case.order.mode is Mode.AUTO
        and judged.trouble is None
        and texts == {str(rank)}
        and "NODE_RANK" not in env
        and case.launch.cls is not LaunchClass.LAUNCHER_FIXED
        and not case.order.asked.init_containers
        and pod.annotations.keys().isdisjoint(notes.RESULTS)
        and all(isinstance(edit, SetEnv | SetNote) for edit in decision.edits)
    )
    if not simple or not decision.rules or not _are_told_apart(family, rank + 1, case.container):
        return None
    places = tuple(env.last[name] for name in _NAMES if name in env)
    rules = tuple(_BY_ID[rule] for rule in decision.rules)
    results = tuple(edit for edit in decision.edits if isinstance(edit, SetNote))
    return Kin(pod, case, decision, rules, places, results)


def _are_told_apart(family: Family, rank: int, like: Container) -> bool:
    """Whether the pod of this rank has it wherever the rank is read: JSON has other ways to write a name."""
    other = read(pod_of(family.member(rank)))
    (container,) = (container for container in other.containers if container.index == like.index)
    seen = replica(other.labels)
    index = seen.index if isinstance(seen, Replica) else None
    wanted = None if family.ahead is None else rank - family.ahead
    return index == wanted and all(container.env.text(name) == str(rank) for name in _NAMES if name in like.env)


def decided(kin: Kin, rank: int) -> Decision | None:
    """The decision on the pod of this rank; None if there can be none."""
    case = kin.case
    node, pods = case.facts.node, case.facts.pods
    if node is None or pods is None or rank >= pods.value:
        return None
    case = _case(kin, Found(rank, node.source))
    edits: list[Edit] = [edit for rule in kin.rules for edit in rule.apply(case) or ()]
    first = kin.decision
    judged = Judged(case, first.rules, tuple(edits), first.reason)
    own = SetNote(notes.RANKS, ranks(judged))
    edits += [own if result.key == notes.RANKS else result for result in kin.results]
    return Decision(first.reason, first.status, first.rules, names(edits), first.warnings, tuple(edits), (judged,))


def _case(kin: Kin, node: Found) -> Case:
    """The case of another rank. (`dataclasses.replace` takes six times as long.)"""
    case, facts = kin.case, kin.case.facts
    return Case(
        order=case.order,
        container=_container(kin, str(node.value)),
        facts=Facts(node, facts.pods, facts.nproc, facts.sizes, facts.master, facts.soft, facts.hard),
        launch=case.launch,
        equals=case.equals,
        gpus=case.gpus,
        chosen=case.chosen,
    )


def _container(kin: Kin, rank: str) -> Container:
    """The container with another rank in its env."""
    old = kin.case.container
    entries = list(old.env.entries)
    for place in kin.places:
        entries[place] = {"name": entries[place]["name"], "value": rank}
    return Container(old.field, old.index, old.raw, old.name, Env(entries, old.env.last))

"""What the pods of an explained job have in common, so that it is said once: launches, rules, settings, rows."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from webhook.explained import Container, Job, Launched, Number, Pod, RuleTold, WordChange

COLUMNS = ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NODE_RANK")
MOST_ROWS = 12
_HEAD = 8  # rows before the gap in a long table


@dataclass(frozen=True, slots=True)
class Group:
    """Containers that start the same way. A rule or reason comes with the pods it is for, "" for all of them."""

    label: str
    launch: Launched
    facts: str
    rules: tuple[tuple[RuleTold, str], ...]
    why: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Row:
    """One container in the table; `env` has a value before and after for each name."""

    name: str
    node: str
    env: dict[str, tuple[str | None, str | None]]
    before: str
    after: str


def grouped(job: Job) -> list[Group]:
    """The groups, in the order of their first container."""
    found: dict[str, list[tuple[Pod, Container]]] = {}
    for pod in job["pods"]:
        for container in pod["containers"]:
            found.setdefault(repr((container["launch"], _facts(container))), []).append((pod, container))
    return [_group(job, members) for members in found.values()]


def _group(job: Job, members: Sequence[tuple[Pod, Container]]) -> Group:
    first = members[0][1]
    pods = _pods(job, members)
    names = list(dict.fromkeys(container["name"] for _, container in members))
    where = "" if len(pods) == len(job["pods"]) else f" of {_listed(pods)}"
    rules = {rule["id"]: rule for _, container in members for rule in container["rules"]}
    whys = dict.fromkeys(container["why"] for _, container in members if container["why"])
    return Group(
        f"{_listed(names)}{where}",
        first["launch"],
        _facts(first),
        tuple((rule, _of(job, members, [m for m in members if rule in m[1]["rules"]])) for rule in rules.values()),
        tuple((why, _of(job, members, [m for m in members if m[1]["why"] == why])) for why in whys),
    )


def _of(job: Job, members: Sequence[tuple[Pod, Container]], meant: Sequence[tuple[Pod, Container]]) -> str:
    return "" if len(meant) == len(members) else _listed(_pods(job, meant))


def _pods(job: Job, members: Sequence[tuple[Pod, Container]]) -> list[str]:
    return list(dict.fromkeys(_short(job, pod) for pod, _ in members))


def _listed(names: Sequence[str]) -> str:
    if len(names) > 3:  # noqa: PLR2004 - more than that isn't read
        return f"{names[0]} to {names[-1]}"
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _facts(container: Container) -> str:
    facts = container["facts"]
    node, pods, procs = facts["k"], facts["P"], facts["N"]
    told = [f"k by {node['source']}"] if node is not None else []
    if pods is not None:
        told.append(f"P = {pods['value']} pod{'s' if pods['value'] > 1 else ''} by {_source(pods)}")
    if procs is not None:
        told.append(f"N = {procs['value']} process{'es' if procs['value'] > 1 else ''} a pod by {_source(procs)}")
    elif container["managed"]:
        told.append("N isn't declared")
    return "; ".join(told)


def _source(number: Number) -> str:
    return {"PET_NPROC_PER_NODE": "nprocPerNode", "twins": "equal containers"}.get(number["source"], number["source"])


def column_names(job: Job) -> list[str]:
    """The variables that any container has, before or after."""
    there = {change["name"] for _, container in _containers(job) for change in container["env"]}
    return [name for name in COLUMNS if name in there]


def _containers(job: Job) -> Iterator[tuple[Pod, Container]]:
    for pod in job["pods"]:
        for container in pod["containers"]:
            yield pod, container


def rows(job: Job) -> list[Row]:
    """A row for each container; of many the first and the last."""
    made = [_row(job, pod, container) for pod, container in _containers(job)]
    if len(made) <= MOST_ROWS:
        return made
    gap = Row(f"... {len(made) - _HEAD - 1} more", "", {}, "", "")
    return [*made[:_HEAD], gap, made[-1]]


def _row(job: Job, pod: Pod, container: Container) -> Row:
    node = container["facts"]["k"]
    name = _short(job, pod)
    processes = container["processes"]
    return Row(
        name=name if len(pod["containers"]) == 1 else f"{name}/{container['name']}",
        node="" if node is None else str(node["value"]),
        env={change["name"]: (change["before"], change["after"]) for change in container["env"]},
        before=processes["before"]["text"],
        after=processes["after"]["text"],
    )


def _short(job: Job, pod: Pod) -> str:
    return pod["name"].removeprefix(f"{job['name']}-")


def settings(job: Job) -> list[str]:
    """Other variables that change, each with its value, or its values and the pods of each."""
    found: dict[str, dict[str, list[str]]] = {}
    every = list(_containers(job))
    for pod, container in every:
        for change in container["env"]:
            if change["name"] not in COLUMNS and change["before"] != change["after"]:
                values = found.setdefault(change["name"], {})
                values.setdefault(change["after"] or "", []).append(_short(job, pod))
    return [f"{name}={', '.join(_valued(values, len(every)))}" for name, values in found.items()]


def _valued(values: Mapping[str, Sequence[str]], containers: int) -> Iterator[str]:
    for value, pods in values.items():
        yield value if len(pods) == containers else f"{value} ({_listed(list(dict.fromkeys(pods)))})"


def words(job: Job) -> list[tuple[str, str]]:
    """Changed words of command and args, and the containers if it isn't all of them."""
    found: dict[str, list[str]] = {}
    every = list(_containers(job))
    for pod, container in every:
        for text in _changes(container["words"]):
            found.setdefault(text, []).append(_short(job, pod))
    return [
        (text, "" if len(pods) == len(every) else _listed(list(dict.fromkeys(pods)))) for text, pods in found.items()
    ]


def _changes(changes: Sequence[WordChange]) -> Iterator[str]:
    """A changed word with what it was; words that are put in, in one go."""
    new = [change for change in changes if change["before"] is None]
    if new:
        yield f"{new[0]['field']}[{new[0]['index']}]: + {' '.join(change['after'] for change in new)}"
    for change in changes:
        if change["before"] is not None:
            yield f"{change['field']}[{change['index']}]: {_differing(change['before'], change['after'])}"


def _differing(before: str, after: str) -> str:
    """The words that differ; of a shell's text only those."""
    old, new = before.split(), after.split()
    parts = [
        " ".join(new[c:d]) if tag == "insert" else f"{' '.join(old[a:b])} → {' '.join(new[c:d])}"
        for tag, a, b, c, d in SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
        if tag != "equal"
    ]
    return ", ".join(f"+ {part}" if " → " not in part else part for part in parts)

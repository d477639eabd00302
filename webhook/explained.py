"""What `rankfix explain -o json` says: the form of its output, documented in docs/explain.md.

The other outputs are made of the same values.
"""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

VERSION = "rankfix/explain/v1"

Kind = Literal["ranks", "nodes", "given", "alone", "waits", "fails", "unknown"]
Word = Literal["works", "broken", "unknown"]


class Number(TypedDict):
    """A number, and where it was found."""

    value: int
    source: str


class Facts(TypedDict):
    """Node rank k, number of pods P, processes per pod N; null where it isn't known or, for N, not declared."""

    k: Number | None
    P: Number | None
    N: Number | None


class Evidence(TypedDict):
    """Characters start..end of the string `container[field][index]`, a word that decided the class."""

    field: str
    index: int
    start: int
    end: int
    text: str


class EnvChange(TypedDict):
    """An env entry as the operator wrote it and as rankfix leaves it; null where there is none, or no plain text."""

    name: str
    before: str | None
    after: str | None


class WordChange(TypedDict):
    """A word of command or args that changes; `before` is null for one that is put in."""

    field: str
    index: int
    before: str | None
    after: str


class RuleTold(TypedDict):
    """A rule that fires, with the first sentence of its page in the contract."""

    id: str
    title: str
    why: str


class Outlook(TypedDict):
    """What the processes of a container will be.

    ranks: its processes are first..last of world · nodes: its launcher is node first of world, of how many processes
    isn't told · given: ranks are given out at run time · alone: it trains by itself · waits: it waits for somebody who
    never comes · fails · unknown: nothing in the pod tells.
    """

    kind: Kind
    text: str
    first: int | None
    last: int | None
    world: int | None


class Processes(TypedDict):
    """Without rankfix and with it."""

    before: Outlook
    after: Outlook


Launched = TypedDict(
    "Launched", {"class": str, "means": str, "command": list[str], "args": list[str], "evidence": list[Evidence]}
)


class Container(TypedDict):
    """One container. `managed`: it has the operator's env, and isn't left out. `reason`: see the contract."""

    name: str
    managed: bool
    launch: Launched
    facts: Facts
    env: list[EnvChange]
    words: list[WordChange]
    rules: list[RuleTold]
    reason: str
    why: str
    processes: Processes


class InitContainer(TypedDict):
    """An init container whose env changes."""

    name: str
    env: list[EnvChange]


class Pod(TypedDict):
    """One pod as the operator makes it, and rankfix's answer. `message` says why a denied one is denied."""

    name: str
    type: str
    index: int
    allowed: bool
    status: str
    reason: str
    rules: list[str]
    message: str | None
    warnings: list[str]
    containers: list[Container]
    initContainers: list[InitContainer]


class Advice(TypedDict):
    """What its owner can do; `annotations` go onto the replica templates, `spec` into the job's spec."""

    text: str
    annotations: NotRequired[dict[str, str]]
    spec: NotRequired[dict[str, str]]


class Verdict(TypedDict):
    """How the job fares without rankfix and with it, in a word and in a sentence each."""

    before: Word
    after: Word
    without: str
    repaired: str
    headline: str


class Job(TypedDict):
    """One PyTorchJob. `where` is its place in the file, empty where it is a document of its own."""

    name: str
    namespace: str
    operator: str
    where: str
    line: int
    verdict: Verdict
    notes: list[str]
    advice: list[Advice]
    pods: list[Pod]


class Report(TypedDict):
    """All jobs of a file, in order."""

    version: str
    jobs: list[Job]

"""What a rule looks at: one managed container with its facts, its launch, and what was asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from webhook.facts import Facts, Found, Trouble
from webhook.launch import Launch, LaunchClass
from webhook.notes import Asked, Earlier, Procs
from webhook.pod import DEFAULT_CONTAINER, Container, Pod
from webhook.policy import Mode, Policy, Reason

if TYPE_CHECKING:
    from collections.abc import Sequence

_SIZE = "LOCAL_WORLD_SIZE"
_WORLD = ("WORLD_SIZE", "PET_NNODES", "PET_NODE_RANK", "PET_NPROC_PER_NODE")
_SHELL_WORDS = 3  # sh -c TEXT


@dataclass(frozen=True, slots=True)
class Twin:
    """This container is number `position` (pod order, from 0) of `count` equal ones."""

    position: int
    count: int


@dataclass(frozen=True, slots=True)
class Order:
    """What holds for the whole pod: who asks for what, and what an earlier call of rankfix left.

    `mode` is the mode in force (`audit` decides as `auto`), `explicit` whether the pod itself asks for it, `before` the
    believed results of an earlier call, `earlier` those of any earlier call, also one that left the pair as it was.
    """

    pod: Pod
    policy: Policy
    asked: Asked
    mode: Mode
    explicit: bool
    before: Earlier | None
    earlier: Earlier | None


@dataclass(frozen=True, slots=True)
class Case:
    """One managed container, and all that its rules may depend on.

    `equals` is its place among equal containers, `gpus` its GPU limit, `chosen` whether mode `torchrun` means it.
    """

    order: Order
    container: Container
    facts: Facts
    launch: Launch
    equals: Twin | None
    gpus: int | None
    chosen: bool

    @property
    def twin(self) -> Twin | None:
        """The container's place among its twins, if the mode and its class make them count as such."""
        if self.equals is None or self.order.mode is Mode.NODE:
            return None
        if self.order.mode is Mode.AUTO and (not self.is_open or self.launch.cls is LaunchClass.OWN_LAUNCHER):
            return None
        return self.equals

    @property
    def is_open(self) -> bool:
        """Whether mode `auto` takes the class for a reader of a process pair, by the server's settings."""
        match self.launch.cls:
            case LaunchClass.PYTHON | LaunchClass.OWN_LAUNCHER:
                return True
            case LaunchClass.ENTRYPOINT:
                return self.order.policy.entrypoint == "process"
            case LaunchClass.HIDDEN:
                return self.order.policy.hidden == "process"
        return False

    @property
    def sizes(self) -> Procs | None:
        """Processes per node where they are declared: by the annotation, nprocPerNode, or else by twins."""
        twin = self.twin
        if twin is None:
            return self.facts.sizes
        declared = self.facts.sizes
        if declared is None:
            return Procs(twin.count, twin.count)
        each = twin.count if self.order.asked.gpu else 1  # `gpu` is the limit of one container
        return Procs(declared.master * each, declared.worker * each)

    @property
    def procs(self) -> Found | None:
        """The declared N of this node, and its source."""
        twin, nproc = self.twin, self.facts.nproc
        if twin is None:
            return nproc
        if nproc is None:
            return Found(twin.count, "twins")
        return Found(nproc.value * twin.count, nproc.source) if self.order.asked.gpu else nproc

    @property
    def trouble(self) -> Trouble | None:
        """What keeps the rules from being applied, in the mode in force."""
        found = self.facts.trouble if self.order.mode is Mode.AUTO else self.facts.hard
        if found is None and self.twin is not None and self.procs is not None and self.procs.value % self.twin.count:
            return Trouble(
                Reason.INCONSISTENT, f"{self.procs.value} processes per node in {self.twin.count} equal containers"
            )
        return found


def twins(containers: Sequence[Container], before: Earlier | None) -> dict[int, Twin]:
    """The containers that equal the one named `pytorch`, by index; empty if there's none besides it.

    Another webhook may have wrapped the command of one of them (Katib's does, in the master only). Its form is known;
    where an earlier call found twins, the env that T1 gave them tells them whatever was done since. Where one found
    none, there are none: that they say the same now may be its own work.
    """
    if len(containers) == 1 or (before is not None and "T1" not in before.rules):
        return {}
    model = next((c for c in containers if c.name == DEFAULT_CONTAINER), None)
    if model is None:
        return {}
    marked = before is not None and _SIZE in model.env
    equal = [c for c in containers if _like(c, model, marked=marked)]
    return {c.index: Twin(i, len(equal)) for i, c in enumerate(equal)} if len(equal) > 1 else {}


def _like(one: Container, other: Container, *, marked: bool) -> bool:
    if any(one.raw.get(name) != other.raw.get(name) for name in ("image", "resources")):
        return False
    if _world(one) != _world(other):  # somebody gave one of them a world of its own
        return False
    if marked and one.env.text(_SIZE) == other.env.text(_SIZE):
        return True
    if all(one.raw.get(name) == other.raw.get(name) for name in ("command", "args")):
        return True
    (text, wrapped), (other_text, other_wrapped) = _text(one), _text(other)
    return (wrapped or other_wrapped) and text == other_text


def _world(container: Container) -> tuple[object, ...]:
    """What a container is told of the job, and T1 leaves equal: an operator tells all containers of a pod the same."""
    env = container.env
    return (*map(env.text, _WORLD), *map(env.sourced, _WORLD), env.sourced("RANK"), "MASTER_ADDR" in env)


def _text(container: Container) -> tuple[str, bool]:
    """A container's words as Katib joins them, without what it puts behind them, and whether that was there."""
    lists = [container.raw.get("command"), container.raw.get("args")]
    words = [word for words in lists if isinstance(words, list) for word in words if isinstance(word, str)]
    if len(words) != _SHELL_WORDS or words[0] not in ("sh", "bash") or words[1] != "-c":
        return " ".join(words), False
    text, tail, _ = words[2].partition(" 1>")
    return text, bool(tail)

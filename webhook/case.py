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

TWIN_FIELDS = ("image", "command", "args", "resources")
_MARKED_FIELDS = ("image", "resources")
_SIZE = "LOCAL_WORLD_SIZE"


@dataclass(frozen=True, slots=True)
class Twin:
    """This container is number `position` (pod order, from 0) of `count` equal ones."""

    position: int
    count: int


@dataclass(frozen=True, slots=True)
class Case:
    """One managed container, and all that its rules may depend on.

    `mode` is the mode in force (`audit` decides as `auto`), `explicit` whether the pod itself asks for it, `gpus` the
    container's GPU limit, `chosen` whether mode `torchrun` means this container.
    """

    pod: Pod
    container: Container
    facts: Facts
    launch: Launch
    policy: Policy
    asked: Asked
    mode: Mode
    explicit: bool
    equals: Twin | None
    gpus: int | None
    chosen: bool

    @property
    def twin(self) -> Twin | None:
        """The container's place among its twins, if the mode and its class make them count as such."""
        if self.equals is None or self.mode is Mode.NODE:
            return None
        if self.mode is Mode.AUTO and (not self.is_open or self.launch.cls is LaunchClass.OWN_LAUNCHER):
            return None
        return self.equals

    @property
    def is_open(self) -> bool:
        """Whether mode `auto` takes the class for a reader of a process pair, by the server's settings."""
        match self.launch.cls:
            case LaunchClass.PYTHON | LaunchClass.OWN_LAUNCHER:
                return True
            case LaunchClass.ENTRYPOINT:
                return self.policy.entrypoint == "process"
            case LaunchClass.HIDDEN:
                return self.policy.hidden == "process"
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
        each = twin.count if self.asked.gpu else 1  # `gpu` is the limit of one container
        return Procs(declared.master * each, declared.worker * each)

    @property
    def procs(self) -> Found | None:
        """The declared N of this node, and its source."""
        twin, nproc = self.twin, self.facts.nproc
        if twin is None:
            return nproc
        if nproc is None:
            return Found(twin.count, "twins")
        return Found(nproc.value * twin.count, nproc.source) if self.asked.gpu else nproc

    @property
    def trouble(self) -> Trouble | None:
        """What keeps the rules from being applied, in the mode in force."""
        found = self.facts.trouble if self.mode is Mode.AUTO else self.facts.hard
        if found is None and self.twin is not None and self.procs is not None and self.procs.value % self.twin.count:
            return Trouble(
                Reason.INCONSISTENT, f"{self.procs.value} processes per node in {self.twin.count} equal containers"
            )
        return found


def twins(containers: Sequence[Container], before: Earlier | None) -> dict[int, Twin]:
    """The containers that equal the one named `pytorch`, by index; empty if there's none besides it.

    Where an earlier call found twins, another webhook may since have wrapped the command of one (Katib does): then the
    env that T1 gave them tells them apart from others of the same image.
    """
    model = next((c for c in containers if c.name == DEFAULT_CONTAINER), None)
    if model is None:
        return {}
    marked = before is not None and "T1" in before.rules and _SIZE in model.env
    equal = [c for c in containers if _like(c, model, marked)]
    return {c.index: Twin(i, len(equal)) for i, c in enumerate(equal)} if len(equal) > 1 else {}


def _like(one: Container, other: Container, marked: bool) -> bool:
    if marked and one.env.text(_SIZE) != other.env.text(_SIZE):
        return False
    fields = _MARKED_FIELDS if marked else TWIN_FIELDS
    return all(one.raw.get(name) == other.raw.get(name) for name in fields)

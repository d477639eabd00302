"""A decision as data: what is known of each container, what changes, and what is said about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from webhook.edits import SetEnv

if TYPE_CHECKING:
    from webhook.case import Case
    from webhook.edits import Edit
    from webhook.facts import Found, Trouble
    from webhook.launch import LaunchClass
    from webhook.policy import Reason, Status


@dataclass(frozen=True, slots=True)
class Judged:
    """One managed container: its case, the rules in force, what they change, and the trouble that kept others out."""

    case: Case
    rules: tuple[str, ...]
    edits: tuple[Edit, ...]
    reason: Reason
    trouble: Trouble | None = None

    @property
    def name(self) -> str:
        """The container's name."""
        return self.case.container.name

    @property
    def cls(self) -> LaunchClass:
        """How it starts its processes."""
        return self.case.launch.cls

    @property
    def facts(self) -> tuple[Found | None, Found | None, Found | None]:
        """k, P and N, each with its source; None where it isn't known or, for N, not declared."""
        return self.case.facts.node, self.case.facts.pods, self.case.procs

    @property
    def env(self) -> tuple[tuple[str, str], ...]:
        """The names and values that change."""
        return tuple((edit.name, edit.value) for edit in self.edits if isinstance(edit, SetEnv))


@dataclass(frozen=True, slots=True)
class Decision:
    """What happens to a pod. `denial` is the message of a denied one; `status` None means that nothing is written.

    In mode `audit` `rules` and `env` say what would change, and `edits` has the annotations only.
    """

    reason: Reason
    status: Status | None = None
    rules: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    edits: tuple[Edit, ...] = ()
    containers: tuple[Judged, ...] = ()
    denial: str | None = None

    @property
    def classes(self) -> tuple[LaunchClass, ...]:
        """The classes of the managed containers, in pod order."""
        return tuple(judged.cls for judged in self.containers)

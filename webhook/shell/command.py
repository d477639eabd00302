"""What the evaluator finds: commands that run, and what it tells of them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, Protocol

from webhook.shell.values import NOTHING, Text

if TYPE_CHECKING:
    from webhook.shell.state import Variable


class GivenUp(Exception):
    """A text that does more than is followed."""


class Where(Enum):
    """Where a command stands: only what runs for itself may start training."""

    RUN = "run"
    CONDITION = "condition"
    SUBSTITUTION = "substitution"


@dataclass(frozen=True, slots=True)
class Command:
    """One external command, wrappers and functions looked through.

    `argv` has the program first. `assigns` are set for it alone, `exports` by the text before it. `because`: the
    entries of
    the pair that decide whether it runs. `stdin`: the text it is fed; `stdin_deps`: the entries that what it is fed
    depends on;
    `piped`: it is fed anything at all.
    `hidden_pair`: the names of the pair that it gets with another value. `alternatives`: how many forms it has.
    """

    argv: tuple[Text, ...]
    assigns: tuple[tuple[str, tuple[Text, ...]], ...] = ()
    exports: tuple[tuple[str, Variable], ...] = ()
    because: frozenset[str] = NOTHING
    where: Where = Where.RUN
    stdin: Text | None = None
    stdin_deps: frozenset[str] = NOTHING
    piped: bool = False
    hidden_pair: frozenset[str] = NOTHING
    alternatives: int = 1

    @property
    def deps(self) -> frozenset[str]:
        """The entries of the pair that its words and its input depend on."""
        return self.stdin_deps.union(*(text.deps for text in self.argv))


class Status(NamedTuple):
    """An exit status: its truth where known; `deps` it depends on; `likely`: success is what the text counts on."""

    truth: bool | None = None
    deps: frozenset[str] = NOTHING
    likely: bool = True


class Effect(NamedTuple):
    """What an observer makes of a command.

    `starts`: a known start, after which unknown programs before it were set-up. `unread`: nobody knows what it does.
    `ends`: it never returns. `prints`: the entries that what it prints depends on; `deps`: those its status depends on.
    """

    starts: bool = False
    unread: bool = False
    ends: bool = False
    prints: frozenset[str] = NOTHING
    deps: frozenset[str] = NOTHING


class Observer(Protocol):
    """Who is told what a text does, in the order in which it does it."""

    def command(self, command: Command) -> Effect:
        """A command runs."""

    def assigned(self, name: str, values: tuple[Text, ...]) -> None:
        """A name is given these possible values, in the shell or for one command."""

    def unset(self, name: str) -> None:
        """A name is taken out of the environment."""

    def chose(self, deps: frozenset[str]) -> None:
        """These entries chose the folder or the files that later starts find."""

    def wrote(self) -> None:
        """Text that depends on the pair goes into a file."""

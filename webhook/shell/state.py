"""What a shell knows at one point of a text: its variables, functions, and which entries of the pair led here."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from webhook.shell.values import NOTHING, PAIR, Text, merged, opaque, tainted

if TYPE_CHECKING:
    from webhook.shell.expand import Known
    from webhook.shell.source import Source
    from webhook.shell.tree import Node

_MOST = 8  # lists that a name or the positional parameters may be


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable's possible values: strings, or arrays of strings. No value at all: it is unset."""

    values: tuple[Text, ...] = ()
    arrays: tuple[tuple[Text, ...], ...] = ()
    exported: bool = False

    @property
    def deps(self) -> frozenset[str]:
        """The entries of the pair that any of the values depends on."""
        every = [*self.values, *(item for array in self.arrays for item in array)]
        return NOTHING.union(*(text.deps for text in every))


@dataclass(slots=True)
class State:
    """Changed in place as statements run; `fork` before a branch, `join` after it."""

    env: Known  # what the container starts with; shared, never changed
    changed: dict[str, Variable] = field(default_factory=dict)
    functions: dict[str, tuple[Node, Source]] = field(default_factory=dict)
    zero: Text = field(default_factory=opaque)
    positional: tuple[tuple[Text, ...], ...] = ((),)  # what the positional parameters may be
    control: frozenset[str] = NOTHING  # the entries that decided that this point is reached
    local_control: frozenset[str] = NOTHING  # the same, until the function returns
    jump: str = ""  # "exit", "return", "break" once this path goes no further
    unread: tuple[object, ...] = ()  # unknown programs since the last known start on this path
    allexport: bool = False

    @property
    def because(self) -> frozenset[str]:
        """What decided that this point is reached."""
        return self.control | self.local_control

    def variable(self, name: str) -> Variable | None:
        """The variable of that name; None where the text says nothing of it and the container doesn't set it."""
        found = self.changed.get(name)
        if found is None and (given := self.env.get(name)) is not None:
            return Variable((given,), exported=True)
        return found

    def is_set(self, name: str) -> bool | None:
        """Whether a variable is set; None where nothing known says so."""
        variable = self.variable(name)
        return None if variable is None else bool(variable.values or variable.arrays)

    def assign(self, name: str, variable: Variable) -> None:
        """Give a name new values: an assignment that a branch may skip only adds to them, by the branch's `join`."""
        old = self.variable(name)
        exported = variable.exported or self.allexport or (old is not None and old.exported)
        values = tainted(variable.values, self.because)
        arrays = tuple(tainted(array, self.because) for array in variable.arrays)
        self.changed[name] = Variable(values, arrays, exported)

    def unset(self, name: str) -> None:
        """Forget a variable and a function of that name."""
        self.changed[name] = Variable()
        self.functions.pop(name, None)

    def exports(self) -> list[tuple[str, Variable]]:
        """The variables that the text has changed and that its programs get."""
        return [(name, v) for name, v in self.changed.items() if v.exported and (v.values or v.arrays)]

    def hidden_pair(self) -> frozenset[str]:
        """The names of the pair that the text has given another value."""
        return frozenset(
            n for n in PAIR & self.changed.keys() if self.changed[n].values and not _is_own(n, self.changed[n])
        )

    def fork(self, because: frozenset[str] = NOTHING) -> State:
        """A copy for a branch that is taken because of these entries."""
        return replace(
            self, changed=dict(self.changed), functions=dict(self.functions), local_control=self.local_control | because
        )

    def child(self, *, inherit: bool) -> State:
        """The state that a new shell starts with: only what is exported, unless it is a subshell."""
        if inherit:
            return self.fork()
        kept = {n: v for n, v in self.changed.items() if v.exported or not (v.values or v.arrays)}
        return replace(self, changed=kept, functions=dict(self.functions), positional=((),), allexport=False)

    def join(self, branches: list[State], because: frozenset[str]) -> list[object]:
        """Become what is possible after any of these branches. Returns the unknown programs that ended paths leave."""
        base, local = self.unread, self.local_control
        live = [b for b in branches if not b.jump]
        ended = [b for b in branches if b.jump == "exit"]
        left = [u for b in ended for u in b.unread if u not in base]
        if not live and len(ended) == len(branches):
            self.jump = "exit"
            self.unread = tuple(dict.fromkeys(u for b in branches for u in b.unread))
            return []
        flowing = [b for b in branches if b.jump != "exit"]
        self.jump = "" if live else flowing[0].jump
        self.control = self.control.union(*(b.control for b in flowing), because if ended else NOTHING)
        inner = (b.local_control - because for b in live)
        self.local_control = local.union(*inner, because if len(live) < len(flowing) else NOTHING)
        self._join_names(flowing)
        kept = [u for u in base if all(u in b.unread for b in branches)]
        added = [u for b in flowing for u in b.unread if u not in base]
        self.unread = tuple(dict.fromkeys([*kept, *added]))
        return left

    def _join_names(self, branches: list[State]) -> None:
        first = branches[0]
        if len(branches) == 1:
            self.changed, self.functions, self.positional = first.changed, first.functions, first.positional
            self.allexport = first.allexport
            return
        names = dict.fromkeys(name for b in branches for name in b.changed)
        self.changed = {name: self._joined([b.variable(name) for b in branches]) for name in names}
        self.functions = {k: v for b in branches for k, v in b.functions.items()}
        self.positional = tuple(dict.fromkeys(words for b in branches for words in b.positional))[:_MOST]

    def _joined(self, found: list[Variable | None]) -> Variable:
        if all(v is found[0] for v in found) and found[0] is not None:
            return found[0]
        unknown = Variable((opaque(vanishes=True),))
        every = [v if v is not None else unknown for v in found]
        return Variable(
            merged(*(v.values for v in every)),
            tuple(dict.fromkeys(a for v in every for a in v.arrays))[:_MOST],
            any(v.exported for v in every),
        )


def _is_own(name: str, variable: Variable) -> bool:
    """Whether a variable of the pair still holds the operator's value."""
    return all(t.ref is not None and t.ref.name == name for t in variable.values)

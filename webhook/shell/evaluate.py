"""Abstract evaluation: walk the statements of a shell text as a shell would, with values in place of strings.

Branches that nothing decides are all walked and their outcomes joined; a branch decided by RANK or WORLD_SIZE marks
what happens in it. Words of commands go to `run.Runner`, which finds out what they start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from webhook.shell import conditions, simple
from webhook.shell.command import Status, Where
from webhook.shell.expansion import Expander
from webhook.shell.state import State, Variable
from webhook.shell.tree import (
    AndOr,
    Background,
    Case,
    Compute,
    Declare,
    For,
    Function,
    If,
    Loop,
    Node,
    Not,
    Pipe,
    Redirected,
    Script,
    Simple,
    Subshell,
    Test,
)
from webhook.shell.tree import Sequence as Statements
from webhook.shell.values import NOTHING, Text, opaque

if TYPE_CHECKING:
    from collections.abc import Callable

    from webhook.shell.run import Runner
    from webhook.shell.source import Source

_UNROLLED = 12  # a list of so many literal words is walked word by word


class Walk:
    """The walk over one source, in one kind of place."""

    def __init__(self, runner: Runner, source: Source, where: Where, stdin: frozenset[str] | None = None) -> None:
        self.runner = runner
        self.source = source
        self.where = where
        self.stdin = stdin  # what is piped in depends on these entries; None where nothing is

    def inside(self, where: Where | None = None, stdin: frozenset[str] | None = None) -> Walk:
        """The walk over a part of the same source, in another kind of place or with another input."""
        return Walk(self.runner, self.source, where or self.where, stdin)

    def script(self, script: Script, state: State) -> Status:
        """Walk a whole text."""
        return self.statements(script.body, state)

    def expander(self, state: State) -> Expander:
        """What expands the words of this source in a state."""
        return Expander(self.source, state, lambda body: self._substituted(body, state), self.assigned)

    def assigned(self, name: str, values: tuple[Text, ...]) -> None:
        """Tell the observer what a name is given, unless a substitution keeps it to itself."""
        if self.where is not Where.SUBSTITUTION:
            self.runner.observer.assigned(name, values)

    def statements(self, node: Statements, state: State) -> Status:
        status = Status(True)
        for item in node.items:
            if state.jump:
                break
            status = self.node(item, state)
        return status

    def node(self, node: Node, state: State) -> Status:
        """Walk one statement: `state` becomes what holds after it."""
        self.runner.step()
        if isinstance(node, Simple):
            return simple.simple(self, node, state)
        if isinstance(node, Statements):
            return self.statements(node, state)
        walk: Callable[..., Status] = _WALKS[type(node)]
        return walk(self, node, state)

    # -- substitutions

    def _substituted(self, body: Node, state: State) -> tuple[Text, ...]:
        """What `$(...)` prints: the program that `which` finds, else a text that depends on what its commands depend
        on.
        """
        inner = self.inside(Where.SUBSTITUTION)
        found = self.runner.looked_up(inner, body, state)
        if found is not None:
            return found
        before, self.runner.printed = self.runner.printed, NOTHING
        fork = state.fork()
        status = inner.node(body, fork)
        deps, self.runner.printed = self.runner.printed | status.deps, before
        return (opaque(deps),)

    # -- control flow

    def and_or(self, node: AndOr, state: State) -> Status:
        left = self.node(node.left, state)
        if state.jump:
            return left
        wanted = node.op == "&&"
        if left.truth is not None:
            return self.node(node.right, state) if left.truth is wanted else left
        if wanted and left.likely and not left.deps:
            return self.node(node.right, state)
        branch = state.fork(left.deps)
        right = self.node(node.right, branch)
        self.runner.ended += state.join([state.fork(), branch], left.deps)
        return Status(None, left.deps | right.deps, likely=left.likely and right.likely)

    def negated(self, node: Not, state: State) -> Status:
        status = self.node(node.item, state)
        return Status(None if status.truth is None else not status.truth, status.deps, likely=False)

    def if_then(self, node: If, state: State) -> Status:
        branches: list[State] = []
        because = NOTHING
        rest = state.fork()
        for condition, body in node.arms:
            status = self.inside(Where.CONDITION, self.stdin).node(condition, rest)
            if status.truth is False:
                continue
            because |= status.deps
            branch = rest.fork(because)
            self.node(body, branch)
            branches.append(branch)
            if status.truth is True:
                break
        else:
            last = rest.fork(because)
            if node.otherwise is not None:
                self.node(node.otherwise, last)
            branches.append(last)
        self.runner.ended += state.join(branches, because)
        return Status(None, because)

    def loop(self, node: Loop, state: State) -> Status:
        """`while` as often as its condition is known to hold and a round takes off an argument, else any number of
        times.
        """
        for _ in range(_UNROLLED):
            status = self.inside(Where.CONDITION, self.stdin).node(node.condition, state)
            if status.truth is None:
                self._maybe(node.body, state, status.deps)
                return Status(None, status.deps)
            arguments = _arguments(state)
            if status.truth is node.until or not self._body(node.body, state) or _arguments(state) >= arguments:
                break
        return Status(None)

    def _body(self, body: Node, state: State) -> bool:
        """Walk a loop's body once; whether the loop goes on."""
        self.node(body, state)
        if state.jump not in ("break", "continue"):
            return not state.jump
        goes_on = state.jump == "continue"
        state.jump = ""
        return goes_on

    def _maybe(self, body: Node, state: State, because: frozenset[str]) -> None:
        """Walk a loop's body that runs any number of times because of these entries."""
        branch = state.fork(because)
        self._body(body, branch)
        self.runner.ended += state.join([state.fork(), branch], because)

    def for_in(self, node: For, state: State) -> Status:
        expander = self.expander(state)
        if node.counts is not None:
            self._maybe(node.body, state, expander.arithmetic(node.counts))
            return Status(None)
        words = (
            max(state.positional, key=len)
            if node.words is None
            else [f for w in node.words for f in expander.fields(w)[0]]
        )
        if (
            words
            and len(words) <= _UNROLLED
            and all(t.ref is not None or t.literal is not None or len(t.parts) > 1 for t in words)
        ):
            for text in words:
                state.assign(node.name, Variable((text,)))
                if not self._body(node.body, state):
                    break
            return Status(None)
        deps = NOTHING.union(*(text.deps for text in words))
        state.assign(node.name, Variable((opaque(deps),)))
        self._maybe(node.body, state, deps)
        return Status(None)

    def case(self, node: Case, state: State) -> Status:
        expander = self.expander(state)
        values = expander.texts(node.value)
        because = NOTHING.union(*(text.deps for text in values))
        literal = values[0].literal if len(values) == 1 else None
        branches: list[State] = []
        for marks, body in node.arms:
            patterns = [expander.texts(mark)[0].literal for mark in marks]
            match = _matches(literal, patterns)
            if match is False:
                continue
            branch = state.fork(because)
            self.node(body, branch)
            branches.append(branch)
            if match:
                break
        else:
            branches.append(state.fork(because))
        self.runner.ended += state.join(branches, because)
        return Status(None, because)

    def subshell(self, node: Subshell, state: State) -> Status:
        return self.apart(node.body, state)

    def background(self, node: Background, state: State) -> Status:
        self.apart(node.item, state)
        return Status(True)

    def apart(self, node: Node, state: State) -> Status:
        """Walk in a shell of its own: its assignments are lost, what it starts isn't."""
        child = state.child(inherit=True)
        status = self.node(node, child)
        state.unread = child.unread
        return status

    def pipe(self, node: Pipe, state: State) -> Status:
        status = Status(None)
        before, stdin = self.runner.printed, self.stdin
        for item in node.items:
            self.runner.printed = NOTHING
            status = self.inside(stdin=stdin).apart(item, state)
            stdin = self.runner.printed
        self.runner.printed |= before
        return status

    def test(self, node: Test, state: State) -> Status:
        expander = self.expander(state)
        return conditions.judge(node.tokens, expander.texts, state.is_set)

    def compute(self, node: Compute, state: State) -> Status:
        deps = self.expander(state).arithmetic(node.value)
        for name in node.assigns:
            state.assign(name, Variable((opaque(deps),)))
        return Status(None, deps, likely=False)

    def function(self, node: Function, state: State) -> Status:
        state.functions[node.name] = (node.body, self.source)
        return Status(True)


def _arguments(state: State) -> int:
    return sum(map(len, state.positional))


def _matches(literal: str | None, patterns: list[str | None]) -> bool | None:
    """Whether a case arm is taken: None where that isn't known."""
    if "*" in patterns:
        return True
    if literal is None or any(p is None or any(c in p for c in "*?[") for p in patterns):
        return None
    return literal in patterns


_WALKS: dict[type, Callable[..., Status]] = {
    AndOr: Walk.and_or,
    Background: Walk.background,
    Case: Walk.case,
    Compute: Walk.compute,
    Declare: simple.declare,
    For: Walk.for_in,
    Function: Walk.function,
    If: Walk.if_then,
    Loop: Walk.loop,
    Not: Walk.negated,
    Pipe: Walk.pipe,
    Redirected: simple.redirected,
    Subshell: Walk.subshell,
    Test: Walk.test,
}

"""Abstract evaluation: walk the statements of a shell text as a shell would, with values in place of strings.

Branches that nothing decides are all walked and their outcomes joined; a branch decided by RANK or WORLD_SIZE marks
what happens in it. Words of commands go to `run.Runner`, which finds out what they start.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from webhook.shell import conditions
from webhook.shell.command import Status, Where
from webhook.shell.expansion import Expander
from webhook.shell.source import Source
from webhook.shell.state import State, Variable
from webhook.shell.tree import (
    AndOr,
    Assign,
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
    Parameter,
    Pipe,
    Redirect,
    Redirected,
    Script,
    Simple,
    Subshell,
    Test,
    Word,
)
from webhook.shell.tree import Sequence as Statements
from webhook.shell.values import NOTHING, Text, opaque, text_of

if TYPE_CHECKING:
    from webhook.shell.run import Runner

_UNROLLED = 12  # a list of so many literal words is walked word by word
_NOWHERE = frozenset("/dev/null /dev/stdout /dev/stderr /dev/tty /proc/1/fd/1 /proc/self/fd/1 /proc/1/fd/2".split())


class Walk:
    """The walk over one source, in one kind of place."""

    def __init__(self, runner: Runner, source: Source, where: Where, stdin: frozenset[str] | None = None) -> None:
        self.runner = runner
        self.source = source
        self.where = where
        self.stdin = stdin  # what is piped in depends on these entries; None where nothing is

    def script(self, script: Script, state: State) -> Status:
        """Walk a whole text."""
        return self.statements(script.body, state)

    def expander(self, state: State) -> Expander:
        """What expands the words of this source in a state."""
        return Expander(self.source, state, lambda body: self._substituted(body, state))

    def statements(self, node: Statements, state: State) -> Status:
        status = Status(True)
        for item in node.items:
            if state.jump:
                break
            status = self.node(item, state)
        return status

    def node(self, node: Node, state: State) -> Status:
        """Walk one statement: `state` becomes what holds after it."""
        if isinstance(node, Simple):
            return self._simple(node, state)
        if isinstance(node, Statements):
            return self.statements(node, state)
        walk: Callable[..., Status] = _WALKS[type(node)]
        return walk(self, node, state)

    # -- simple commands

    def _simple(self, node: Simple, state: State) -> Status:
        expander = self.expander(state)
        if not node.words:
            for assign in node.assigns:
                self.assign(assign, state)
            self._redirects(node.redirects, expander, NOTHING)
            return Status(True)
        assigns = tuple((a.name, self._assigned_texts(a, expander)) for a in node.assigns)
        choices = [expander.fields(word) for word in node.words]
        stdin = self._stdin(node.redirects, expander)
        count = max(len(c) for c in choices)
        forms = [[f for c in choices for f in c[min(i, len(c) - 1)]] for i in range(count)]
        before = self.runner.printed
        self.runner.printed = NOTHING
        status = self.runner.forms(self, forms, assigns, stdin, state)
        self._redirects(node.redirects, expander, self.runner.printed)
        self.runner.printed |= before
        return status

    def assign(self, node: Assign, state: State, *, exported: bool = False) -> None:
        """An assignment of the shell itself."""
        expander = self.expander(state)
        old = state.variable(node.name)
        if isinstance(node.value, tuple):
            choices = [expander.fields(word) for word in node.value]
            count = max((len(c) for c in choices), default=1)
            arrays = [tuple(f for c in choices for f in c[min(i, len(c) - 1)]) for i in range(count)]
            if node.append and old is not None:
                held = old.arrays or tuple((text,) for text in old.values) or ((),)
                arrays = [held[min(i, len(held) - 1)] + arrays[min(i, len(arrays) - 1)] for i in range(max(len(held), len(arrays)))]
            state.assign(node.name, Variable(arrays=tuple(arrays), exported=exported))
            return
        values = self._assigned_texts(node, expander)
        if node.indexed:
            held = old.arrays if old is not None and old.arrays else ((),)
            state.assign(node.name, Variable(arrays=tuple((*h, values[0]) for h in held), exported=exported))
            return
        if self.where is not Where.SUBSTITUTION:
            self.runner.observer.assigned(node.name, values)
        state.assign(node.name, Variable(values, exported=exported))

    def _assigned_texts(self, node: Assign, expander: Expander) -> tuple[Text, ...]:
        if isinstance(node.value, tuple):
            return (opaque(expander.deps(node.value)),)
        values = expander.texts(node.value)
        old = expander.texts(_whole(node.name)) if node.append else ()
        if not old:
            return values
        count = max(len(old), len(values))
        pairs = ((old[min(i, len(old) - 1)], values[min(i, len(values) - 1)]) for i in range(count))
        return tuple(text_of((*a.parts, *b.parts), a.because | b.because) for a, b in pairs)

    def _declare(self, node: Declare, state: State) -> Status:
        exported = node.keyword == "export" or "x" in node.flags
        expander = self.expander(state)
        if "n" in node.flags and node.keyword == "export":
            for name in self._names(node.items, expander):
                self.runner.unset(name, state, self.where)
            return Status(True)
        for item in node.items:
            if isinstance(item, Assign):
                if node.keyword == "local":
                    self.runner.make_local(item.name, state)
                self.assign(item, state, exported=exported)
                if "i" in node.flags:
                    state.assign(item.name, Variable((opaque(self._numeric(item, state)),), exported=exported))
            else:
                for words in expander.fields(item):
                    self.runner.declare(words, state, self.where, exported=exported, local=node.keyword == "local")
        printed = frozenset(("RANK", "WORLD_SIZE")) if "p" in node.flags or not node.items else NOTHING
        self._redirects(node.redirects, expander, printed)
        return Status(None)

    def _numeric(self, node: Assign, state: State) -> frozenset[str]:
        """What an arithmetic value (`declare -i NAME=RANK*2`) depends on."""
        texts = self._assigned_texts(node, self.expander(state))
        names = (n for t in texts for n in "".join(c if c.isalnum() or c == "_" else " " for c in t.literal or "").split())
        found = (state.variable(name) for name in names)
        return NOTHING.union(*(t.deps for t in texts), *(v.deps for v in found if v is not None))

    def _names(self, items: Sequence[Assign | Word], expander: Expander) -> list[str]:
        words = [item.name if isinstance(item, Assign) else expander.texts(item)[0].literal for item in items]
        return [word for word in words if word]

    # -- redirections and substitutions

    def _stdin(self, redirects: Sequence[Redirect], expander: Expander) -> tuple[Text | None, frozenset[str] | None]:
        """The text and the dependencies of what a command reads."""
        for redirect in reversed(redirects):
            if redirect.op in ("<<", "<<<") and redirect.body is not None:
                texts = expander.texts(redirect.body)
                return texts[0], NOTHING.union(*(text.deps for text in texts))
            if redirect.op == "<" and redirect.target is not None:
                return None, NOTHING
        return None, self.stdin

    def _redirects(self, redirects: Sequence[Redirect], expander: Expander, printed: frozenset[str]) -> None:
        """Tell the observer where what was printed goes into a file."""
        if not printed or self.where is Where.SUBSTITUTION:
            return
        for redirect in redirects:
            if ">" not in redirect.op or redirect.target is None or redirect.descriptor not in ("", "1"):
                continue
            target = expander.texts(redirect.target)[0].literal or ""
            if target not in _NOWHERE and not (redirect.op in (">&", "<&") and (target.isdigit() or target == "-")):
                self.runner.observer.wrote(printed)

    def _redirected(self, node: Redirected, state: State) -> Status:
        expander = self.expander(state)
        before, self.runner.printed = self.runner.printed, NOTHING
        _, deps = self._stdin(node.redirects, expander)
        inner = Walk(self.runner, self.source, self.where, deps)
        status = inner.node(node.body, state)
        self._redirects(node.redirects, expander, self.runner.printed)
        self.runner.printed |= before
        return status

    def _substituted(self, body: Node, state: State) -> tuple[Text, ...]:
        """What `$(...)` prints: the program that `which` finds, else a text that depends on what its commands depend on."""
        inner = Walk(self.runner, self.source, Where.SUBSTITUTION)
        found = self.runner.looked_up(inner, body, state)
        if found is not None:
            return found
        before, self.runner.printed = self.runner.printed, NOTHING
        fork = state.fork()
        status = inner.node(body, fork)
        deps, self.runner.printed = self.runner.printed | status.deps, before
        return (opaque(deps),)

    # -- control flow

    def _and_or(self, node: AndOr, state: State) -> Status:
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

    def _not(self, node: Not, state: State) -> Status:
        status = self.node(node.item, state)
        return Status(None if status.truth is None else not status.truth, status.deps, likely=False)

    def _if(self, node: If, state: State) -> Status:
        branches: list[State] = []
        because = NOTHING
        rest: State | None = state.fork()
        for condition, body in node.arms:
            assert rest is not None
            status = Walk(self.runner, self.source, Where.CONDITION, self.stdin).node(condition, rest)
            if status.truth is False:
                continue
            because |= status.deps
            branch = rest.fork(because)
            self.node(body, branch)
            branches.append(branch)
            if status.truth is True:
                rest = None
                break
        if rest is not None:
            last = rest.fork(because)
            if node.otherwise is not None:
                self.node(node.otherwise, last)
            branches.append(last)
        self.runner.ended += state.join(branches, because)
        return Status(None, because)

    def _loop(self, node: Loop, state: State) -> Status:
        """`while` as often as its condition is known to hold and a round takes off an argument, else any number of times."""
        for _ in range(_UNROLLED):
            status = Walk(self.runner, self.source, Where.CONDITION, self.stdin).node(node.condition, state)
            if status.truth is None:
                self._maybe(node.body, state, status.deps)
                return Status(None, status.deps)
            arguments = len(state.positional)
            if status.truth is node.until or not self._body(node.body, state) or len(state.positional) >= arguments:
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

    def _for(self, node: For, state: State) -> Status:
        expander = self.expander(state)
        if node.counts is not None:
            self._maybe(node.body, state, expander.arithmetic(node.counts))
            return Status(None)
        words = state.positional if node.words is None else [f for w in node.words for f in expander.fields(w)[0]]
        if words and len(words) <= _UNROLLED and all(t.ref is not None or t.literal is not None or len(t.parts) > 1 for t in words):
            for text in words:
                state.assign(node.name, Variable((text,)))
                if not self._body(node.body, state):
                    break
            return Status(None)
        deps = NOTHING.union(*(text.deps for text in words))
        state.assign(node.name, Variable((opaque(deps),)))
        self._maybe(node.body, state, deps)
        return Status(None)

    def _case(self, node: Case, state: State) -> Status:
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

    def _subshell(self, node: Subshell, state: State) -> Status:
        return self._apart(node.body, state)

    def _background(self, node: Background, state: State) -> Status:
        self._apart(node.item, state)
        return Status(True)

    def _apart(self, node: Node, state: State) -> Status:
        """Walk in a shell of its own: its assignments are lost, what it starts isn't."""
        child = state.child(inherit=True)
        status = self.node(node, child)
        state.unread = child.unread
        return status

    def _pipe(self, node: Pipe, state: State) -> Status:
        status = Status(None)
        before, stdin = self.runner.printed, self.stdin
        for item in node.items:
            self.runner.printed = NOTHING
            status = Walk(self.runner, self.source, self.where, stdin)._apart(item, state)
            stdin = self.runner.printed
        self.runner.printed |= before
        return status

    def _test(self, node: Test, state: State) -> Status:
        expander = self.expander(state)
        return conditions.judge(node.tokens, expander.texts, lambda name: _is_set(state, name))

    def _compute(self, node: Compute, state: State) -> Status:
        deps = self.expander(state).arithmetic(node.value)
        for name in node.assigns:
            state.assign(name, Variable((opaque(deps),)))
        return Status(None, deps, likely=False)

    def _function(self, node: Function, state: State) -> Status:
        state.functions[node.name] = (node.body, self.source)
        return Status(True)


def _is_set(state: State, name: str) -> bool | None:
    variable = state.variable(name)
    return None if variable is None else bool(variable.values or variable.arrays)


def _matches(literal: str | None, patterns: list[str | None]) -> bool | None:
    """Whether a case arm is taken: None where that isn't known."""
    if "*" in patterns:
        return True
    if literal is None or any(p is None or any(c in p for c in "*?[") for p in patterns):
        return None
    return literal in patterns


def _whole(name: str) -> Word:
    return Word((Parameter(name, 0, 0, quoted=True),), 0, 0)


_WALKS: dict[type, Callable[..., Status]] = {
    AndOr: Walk._and_or,
    Background: Walk._background,
    Case: Walk._case,
    Compute: Walk._compute,
    Declare: Walk._declare,
    For: Walk._for,
    Function: Walk._function,
    If: Walk._if,
    Loop: Walk._loop,
    Not: Walk._not,
    Pipe: Walk._pipe,
    Redirected: Walk._redirected,
    Subshell: Walk._subshell,
    Test: Walk._test,
}

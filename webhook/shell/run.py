"""From the words of a simple command to what runs: wrappers, functions, built-ins, shells within shells, programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webhook.shell import builtins
from webhook.shell.call import Assigns, Call, Stdin
from webhook.shell.command import Command, GivenUp, Observer, Status, Where
from webhook.shell.evaluate import Walk
from webhook.shell.expansion import joined_words
from webhook.shell.source import source_of
from webhook.shell.state import State, Variable
from webhook.shell.tree import Node, Simple
from webhook.shell.tree import Sequence as Statements
from webhook.shell.values import NOTHING, PAIR, Opaque, Text, known, names_in
from webhook.shell.wrappers import Peeled, assignment, peel, program

if TYPE_CHECKING:
    from collections.abc import Sequence

    from webhook.shell.syntax import Parse

SHELLS = frozenset({"sh", "bash", "dash", "ash", "zsh", "ksh", "rbash"})
_LONG_VALUED = frozenset({"--rcfile", "--init-file"})
_STEPS = 5000  # a walk may take so many steps, and one more for each character of the container's command
_PARSED = 50  # characters that are parsed in the time of a step
_DEEPEST = 24  # texts and functions inside each other


class Runner:
    """Runs what the walk meets, and tells the observer. One for each container."""

    def __init__(self, parse: Parse, observer: Observer) -> None:
        self.observer = observer
        self.printed: frozenset[str] = NOTHING  # what the output of the commands so far depends on
        self.ended: list[object] = []  # unknown programs on paths that ended
        self.broken = False  # a text didn't parse
        self._parse = parse
        self._left = _STEPS
        self._depth = 0
        self._locals: list[dict[str, Variable | None]] = []

    def start(self, argv: Sequence[Text], state: State) -> None:
        """Run a container's command."""
        self._left = _STEPS + sum(len(text.literal or "") for text in argv)
        self.command(Walk(self, source_of(()), Where.RUN), Call(list(argv)), state)

    def step(self, cost: int = 1) -> None:
        """Account for a step of the walk.

        Raises:
            GivenUp: the text does more than is followed: loops in loops, or functions that call themselves.
        """
        self._left -= cost
        if self._left < 0 or self._depth > _DEEPEST:
            raise GivenUp

    def forms(self, walk: Walk, calls: list[Call], state: State) -> Status:
        """Run a command that may have several forms."""
        if len(calls) == 1:
            return self.command(walk, calls[0], state)
        branches = [state.fork() for _ in calls]
        found = [self.command(walk, call, branch) for call, branch in zip(calls, branches, strict=True)]
        self.ended += state.join(branches, NOTHING)
        return Status(None, NOTHING.union(*(s.deps for s in found)), likely=all(s.likely for s in found))

    def command(self, walk: Walk, call: Call, state: State) -> Status:
        """Run one form of a command."""
        argv = call.argv
        while len(argv) > 1 and argv[0].vanishes:
            argv = argv[1:]
        if not argv or (len(argv) == 1 and argv[0].literal == ""):
            return Status(None)
        peeled = peel(argv, state.functions)
        if not peeled.argv or (len(argv) == 1 and argv[0].literal == "exec"):
            return Status(None)
        for name, values in _own(call, peeled):
            walk.assigned(name, values)
        status = self._inner(walk, peeled, call, state)
        if peeled.exec_ and walk.where is Where.RUN:
            state.jump = "exit"
        return status

    def _inner(self, walk: Walk, peeled: Peeled, call: Call, state: State) -> Status:
        argv = peeled.argv
        name = argv[0].literal or ""
        if peeled.plain and not peeled.direct and name in state.functions:
            return self._call(walk, argv, call.assigns, state)
        if peeled.plain and name == "eval":
            return self._eval(walk, argv[1:], state)
        if peeled.plain and name in builtins.BUILTINS:
            return self._builtin(walk, argv, call.stdin, state)
        if program(argv[0]) in SHELLS:
            status = self._shell(walk, peeled, call, state)
            if status is not None:
                return status
        return self._program(walk, peeled, call, state)

    # -- programs

    def _program(self, walk: Walk, peeled: Peeled, call: Call, state: State) -> Status:
        own = _own(call, peeled)
        given = {name: values for name, values in own if name in PAIR}
        hidden = {n for n in PAIR if n in given and not all(t.ref is not None and t.ref.name == n for t in given[n])}
        hidden |= {n for n in state.hidden_pair() if n not in given}
        command = Command(
            tuple(peeled.argv),
            own,
            tuple(state.exports()),
            state.because | peeled.deps,
            walk.where,
            call.stdin[0],
            call.stdin[1] or NOTHING,
            call.stdin[1] is not None,
            frozenset(hidden),
            call.alternatives,
        )
        if walk.where is Where.SUBSTITUTION:
            deps = (
                command.deps
                | NOTHING.union(*(t.deps for _, values in own for t in values))
                | _environment_read(command)
            )
            self.printed |= deps
            return Status(None, deps)
        for name in sorted(PAIR & peeled.unset | (PAIR if peeled.cleared else NOTHING)):
            self.observer.unset(name)
        effect = self.observer.command(command)
        if effect.starts:
            state.unread = ()
        if effect.unread:
            state.unread = (*state.unread, command)
        if effect.ends and walk.where is Where.RUN:
            state.jump = "exit"
        self.printed |= effect.prints
        return Status(None, effect.deps)

    def looked_up(self, walk: Walk, body: Node, state: State) -> tuple[Text, ...] | None:
        """The program that `$(which X)` or `$(command -v X)` names."""
        while isinstance(body, Statements) and len(body.items) == 1:
            body = body.items[0]
        if not isinstance(body, Simple) or body.assigns or not body.words:
            return None
        words = [f for w in body.words for f in walk.expander(state).fields(w)[0]]
        names = [text.literal for text in words]
        if names[:1] == ["which"] or names[:2] in (["command", "-v"], ["type", "-p"], ["type", "-P"]):
            return (known(names[-1]),) if len(names) > 1 and names[-1] else None
        return None

    # -- the shell's own

    def _builtin(self, walk: Walk, argv: list[Text], stdin: Stdin, state: State) -> Status:
        done = builtins.run(argv, state, stdin)
        if walk.where is Where.SUBSTITUTION:
            done = done._replace(prints=done.prints | (stdin[1] or NOTHING).union(*(t.deps for t in argv[1:])))
        else:
            for name, values in done.assigned:
                self.observer.assigned(name, values)
            for name in done.unset:
                self.observer.unset(name)
            self.observer.chose(done.chose)
        self.printed |= done.prints
        return done.status

    def unset(self, name: str, state: State, where: Where) -> None:
        """A name is unset by a statement of its own form."""
        state.unset(name)
        if where is not Where.SUBSTITUTION:
            self.observer.unset(name)

    def declare(self, walk: Walk, words: list[Text], state: State, *, exported: bool, local: bool) -> None:
        """`export NAME` or `export "NAME=value"`."""
        for word in words:
            pair = assignment(word)
            name = pair[0] if pair else word.literal or ""
            if local:
                self.make_local(name, state)
            if pair is not None:
                walk.assigned(name, (pair[1],))
                state.assign(name, Variable((pair[1],), exported=exported))
            elif (
                exported and name.isidentifier() and (old := state.variable(name)) is not None and name in state.changed
            ):
                state.changed[name] = Variable(old.values, old.arrays, exported=True)

    def make_local(self, name: str, state: State) -> None:
        """A name belongs to the function that runs: its old value comes back afterwards."""
        if self._locals:
            self._locals[-1].setdefault(name, state.changed.get(name))

    def _call(self, walk: Walk, argv: list[Text], assigns: Assigns, state: State) -> Status:
        """Call a function of the text."""
        body, source = state.functions[argv[0].literal or ""]
        saved, local = state.positional, state.local_control
        for key, values in assigns:
            state.assign(key, Variable(values, exported=True))
        state.positional = (tuple(argv[1:]),)
        self._locals.append({})
        self._depth += 1
        status = Walk(self, source, walk.where, walk.stdin).node(body, state)
        self._depth -= 1
        for key, old in self._locals.pop().items():
            if old is None:
                state.changed.pop(key, None)
            else:
                state.changed[key] = old
        state.positional, state.local_control = saved, local
        if state.jump == "return":
            state.jump = ""
        return status

    def _eval(self, walk: Walk, words: list[Text], state: State) -> Status:
        text = joined_words(words)
        if all(
            isinstance(part, Opaque) for part in text.parts
        ):  # `eval "$(conda shell.bash hook)"`: set-up, as `source` is
            self.observer.chose(text.deps)
            return Status(None)
        return self._nested(text, walk.where, walk.stdin, state)

    def _nested(self, text: Text, where: Where, stdin: frozenset[str] | None, state: State) -> Status:
        """Read a text that the shell was given as a string."""
        source = source_of(text.parts)
        self.step(1 + len(source.text) // _PARSED)
        script = self._parse(source.text)
        self.broken |= script.broken
        before = state.local_control
        state.local_control |= text.because  # what chose the text decides on all that it runs
        self._depth += 1
        status = Walk(self, source, where, stdin).script(script, state)
        self._depth -= 1
        state.local_control = before
        return status

    def _shell(self, walk: Walk, peeled: Peeled, call: Call, state: State) -> Status | None:
        """`sh -c text`, or a shell that reads a here-document; None for a script file."""
        text, rest = _shell_text(peeled.argv)
        if text is None and not rest:
            text = call.stdin[0]
        if text is None:
            return None
        child = state.child(inherit=False)
        for name, values in _own(call, peeled):
            child.assign(name, Variable(values, exported=True))
        for name in sorted(peeled.unset | (PAIR if peeled.cleared else NOTHING)):
            self.unset(name, child, walk.where)
        child.zero = rest[0] if rest else known("sh")
        child.positional = (tuple(rest[1:]),)
        status = self._nested(text, walk.where, call.stdin[1], child)
        state.unread = child.unread
        state.control |= child.control
        return Status(None, status.deps)


def _own(call: Call, peeled: Peeled) -> Assigns:
    """What is set for one command alone: `NAME=value` before it, or as env's words."""
    return (*call.assigns, *((name, (text,)) for name, text in peeled.assigns))


def _shell_text(argv: Sequence[Text]) -> tuple[Text | None, list[Text]]:
    """The text after a shell's `-c` and the words after it; (None, words) for a call without `-c`."""
    has_text = False
    at = 1
    while at < len(argv):
        option = argv[at].literal or ""
        if option[:1] not in ("-", "+") or option == "-":
            break
        at += 1
        if option == "--":
            break
        if option.startswith("--"):
            at += option in _LONG_VALUED
            continue
        has_text |= option[0] == "-" and "c" in option[1:]
        at += sum(letter in "oO" for letter in option[1:])
    rest = list(argv[at:])
    if has_text and rest:
        return rest[0], rest[1:]
    return None, rest


def _environment_read(command: Command) -> frozenset[str]:
    """The names of the pair that a command looks up by itself: `printenv RANK`, `env | grep RANK`."""
    if program(command.argv[0]) == "printenv" or command.piped:
        return named_pair(command.argv[1:])
    return NOTHING


def named_pair(words: Sequence[Text]) -> frozenset[str]:
    """The names of the pair that stand among literal words as names."""
    literals = " ".join(text.literal or "" for text in words)
    return PAIR.intersection(names_in(literals))

"""The shell's own commands: what they change, print and decide. None of them starts training."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from webhook.shell import conditions
from webhook.shell.command import Status
from webhook.shell.state import State, Variable
from webhook.shell.values import NOTHING, PAIR, Text, names_in, opaque

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from webhook.shell.call import Stdin

_NAMES = (
    ". : [ alias bg bind break caller cd compgen complete continue declare dirs disown echo enable exit export "
    "false fc fg getopts hash help history jobs kill let local logout mapfile popd printf pushd pwd read readarray "
    "readonly return set shift shopt source suspend test times trap true type typeset ulimit umask unalias unset "
    "wait"
)
BUILTINS = frozenset(_NAMES.split())
_DIGITS = 4


class Done(NamedTuple):
    """What a built-in did."""

    status: Status
    prints: frozenset[str] = NOTHING
    assigned: tuple[tuple[str, tuple[Text, ...]], ...] = ()
    unset: tuple[str, ...] = ()
    chose: frozenset[str] = NOTHING  # the entries that chose the folder which what follows runs in


def run(argv: list[Text], state: State, stdin: Stdin) -> Done:
    """Run a built-in in a state."""
    name = argv[0].literal or ""
    if name in ("read", "mapfile", "readarray"):
        return _read(argv, state, stdin)
    done = _ACTIONS.get(name)
    return Done(Status(None)) if done is None else done(argv, state)


def _truth(argv: list[Text], _: State) -> Done:
    return Done(Status(argv[0].literal != "false"))


def _leave(argv: list[Text], state: State) -> Done:
    name = argv[0].literal or ""
    state.jump = "exit" if name == "logout" else name
    return Done(Status(None))


def _shift(argv: list[Text], state: State) -> Done:
    count = argv[1].literal if len(argv) > 1 else None
    skip = number(count) if count is not None else 1
    state.positional = tuple(words[skip:] for words in state.positional)
    return Done(Status(None))


def number(text: str) -> int:
    """A small count as the shell reads it; 1 where it isn't one."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _DIGITS else 1


def _move(argv: list[Text], _: State) -> Done:
    return Done(Status(None), chose=NOTHING.union(*(text.deps for text in argv[1:])))


def _type(_: list[Text], __: State) -> Done:
    return Done(Status(None, likely=False))


def _tested(argv: list[Text], state: State) -> Done:
    words = argv[1:]
    if argv[0].literal == "[" and words and words[-1].literal == "]":
        words = words[:-1]
    return Done(conditions.judge_words([(word,) for word in words], state.is_set))


def _echo(argv: list[Text], _: State) -> Done:
    return Done(Status(None), NOTHING.union(*(text.deps for text in argv[1:])))


def _printf(argv: list[Text], state: State) -> Done:
    """`printf -v NAME format word...` stores what else it would print."""
    match [text.literal for text in argv[1:]]:
        case ["-v", str(target), "%s", _]:
            values = (argv[-1],)
        case ["-v", str(target), *_]:
            values = (opaque(NOTHING.union(*(text.deps for text in argv[1:]))),)
        case _:
            return _echo(argv, state)
    state.assign(target, Variable(values))
    return Done(Status(None), assigned=((target, values),))


def _read(argv: list[Text], state: State, stdin: Stdin) -> Done:
    """`read`: one name gets the whole text, several get parts of it."""
    valued = ("-a", "-d", "-i", "-n", "-N", "-p", "-t", "-u")
    names: list[str] = []
    at = 1
    while at < len(argv):
        word = argv[at].literal or ""
        at += 2 if word in valued and word != "-a" else 1
        if word.isidentifier():
            names.append(word)
    text, deps = stdin[0], stdin[1] or NOTHING
    whole = text is not None and not deps and len(names) == 1 and argv[0].literal == "read"
    value = text if whole and text is not None else opaque(deps)
    for name in names or ["REPLY"]:
        state.assign(name, Variable((value,)))
    return Done(Status(None, deps, likely=True), assigned=tuple((name, (value,)) for name in names))


def _unset(argv: list[Text], state: State) -> Done:
    names = [text.literal for text in argv[1:] if text.literal and not text.literal.startswith("-")]
    functions = any(text.literal == "-f" for text in argv[1:])
    for name in names:
        if functions:
            state.functions.pop(name, None)
        else:
            state.unset(name)
    return Done(Status(True), unset=() if functions else tuple(n for n in names if n in PAIR))


def _let(argv: list[Text], state: State) -> Done:
    """`let NAME=expression`: the expression's names are read, NAME is assigned."""
    deps = NOTHING
    for word in argv[1:]:
        deps |= word.deps
        text = word.literal or ""
        for name in names_in(text):
            variable = state.variable(name)
            deps |= variable.deps if variable is not None else NOTHING
        target = text.partition("=")[0].rstrip("+-*/%&|^<> ")
        if "=" in text and target.isidentifier():
            state.assign(target, Variable((opaque(deps),)))
    return Done(Status(None, deps, likely=False))


def _set(argv: list[Text], state: State) -> Done:
    words = argv[1:]
    literals = [text.literal for text in words]
    if "--" in literals:
        at = literals.index("--")
        state.positional = (tuple(words[at + 1 :]),)
        literals = literals[:at]
    elif words and not (literals[0] or "").startswith(("-", "+")):
        state.positional = (tuple(words),)
    for i, option in enumerate(literals):
        follows = literals[i + 1] if i + 1 < len(literals) else None
        if option and option[0] in "-+" and ("a" in option[1:] or (option[1:2] == "o" and follows == "allexport")):
            state.allexport = option[0] == "-"
    return Done(Status(True), PAIR if not words else NOTHING)


_ACTIONS: Mapping[str, Callable[[list[Text], State], Done]] = {
    "[": _tested,
    "test": _tested,
    "echo": _echo,
    "printf": _printf,
    "exit": _leave,
    "return": _leave,
    "break": _leave,
    "continue": _leave,
    "logout": _leave,
    "unset": _unset,
    "let": _let,
    "set": _set,
    "true": _truth,
    ":": _truth,
    "false": _truth,
    "shift": _shift,
    "cd": _move,
    "pushd": _move,
    "type": _type,
}

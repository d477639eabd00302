"""The shell's own commands: what they change, print and decide. None of them starts training."""

from __future__ import annotations

from typing import NamedTuple

from webhook.shell import conditions
from webhook.shell.command import Status
from webhook.shell.state import State, Variable
from webhook.shell.values import NOTHING, PAIR, Text, opaque

BUILTINS = frozenset(
    ". : [ alias bg bind break caller cd compgen complete continue declare dirs disown echo enable exit export false fc fg "
    "getopts hash help history jobs kill let local logout mapfile popd printf pushd pwd read readarray readonly return set shift "
    "shopt source suspend test times trap true type typeset ulimit umask unalias unset wait".split()
)
_PRINTING = frozenset({"echo", "printf"})


class Done(NamedTuple):
    """What a built-in did."""

    status: Status
    prints: frozenset[str] = NOTHING
    assigned: tuple[tuple[str, tuple[Text, ...]], ...] = ()
    unset: tuple[str, ...] = ()
    chose: frozenset[str] = NOTHING  # the entries that chose the folder which what follows runs in


def run(argv: list[Text], state: State, stdin: tuple[Text | None, frozenset[str] | None]) -> Done:
    """Run a built-in in a state."""
    name = argv[0].literal or ""
    if name in ("test", "["):
        return Done(_tested(argv, state))
    if name in _PRINTING:
        return _printed(name, argv, state)
    if name in ("read", "mapfile", "readarray"):
        return _read(argv, state, stdin)
    if name in ("exit", "return", "break", "continue", "logout"):
        state.jump = {"logout": "exit"}.get(name, name)
        return Done(Status(None))
    if name == "unset":
        return _unset(argv, state)
    if name == "let":
        return _let(argv, state)
    if name == "set":
        return _set(argv, state)
    if name in ("true", ":", "false"):
        return Done(Status(name != "false"))
    if name == "shift":
        count = argv[1].literal if len(argv) > 1 else "1"
        state.positional = state.positional[int(count) if count and count.isascii() and count.isdigit() and len(count) < 5 else 1 :]
    if name in ("cd", "pushd"):
        return Done(Status(None), chose=NOTHING.union(*(text.deps for text in argv[1:])))
    if name == "type":
        return Done(Status(None, likely=False))
    return Done(Status(None))


def _tested(argv: list[Text], state: State) -> Status:
    words = argv[1:]
    if argv[0].literal == "[" and words and words[-1].literal == "]":
        words = words[:-1]

    def is_set(name: str) -> bool | None:
        variable = state.variable(name)
        return None if variable is None else bool(variable.values or variable.arrays)

    return conditions.judge_words([(word,) for word in words], is_set)


def _printed(name: str, argv: list[Text], state: State) -> Done:
    deps = NOTHING.union(*(text.deps for text in argv[1:]))
    if name == "printf" and len(argv) > 2 and argv[1].literal == "-v" and (target := argv[2].literal):
        values = (argv[-1],) if len(argv) == 5 and argv[3].literal == "%s" else (opaque(deps),)
        state.assign(target, Variable(values))
        return Done(Status(None), assigned=((target, values),))
    return Done(Status(None), deps)


def _read(argv: list[Text], state: State, stdin: tuple[Text | None, frozenset[str] | None]) -> Done:
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
        if name and functions:
            state.functions.pop(name, None)
        elif name:
            state.unset(name)
    return Done(Status(True), unset=() if functions else tuple(n for n in names if n in PAIR))


def _let(argv: list[Text], state: State) -> Done:
    """`let NAME=expression`: the expression's names are read, NAME is assigned."""
    deps = NOTHING
    for word in argv[1:]:
        deps |= word.deps
        text = word.literal or ""
        for name in "".join(c if c.isalnum() or c == "_" else " " for c in text).split():
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
        state.positional = tuple(words[at + 1 :])
        literals = literals[:at]
    elif words and not (literals[0] or "").startswith(("-", "+")):
        state.positional = tuple(words)
    for i, option in enumerate(literals):
        follows = literals[i + 1] if i + 1 < len(literals) else None
        if option and option[0] in "-+" and ("a" in option[1:] or (option[1:2] == "o" and follows == "allexport")):
            state.allexport = option[0] == "-"
    return Done(Status(True), PAIR if not words else NOTHING)

"""What one command starts: an interpreter, a launcher, a program nobody knows, or nothing (set-up)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from webhook import programs
from webhook.flags import LauncherFlags, launcher_flags
from webhook.shell.values import Text, head
from webhook.shell.wrappers import program

if TYPE_CHECKING:
    from collections.abc import Sequence

    from webhook.programs import Launcher


class Kind(Enum):
    """What a command is."""

    LAUNCHER = "launcher"
    OWN_LAUNCHER = "own-launcher"
    PYTHON = "python"
    UNKNOWN = "unknown"  # a script file, or a program we don't know
    OPAQUE = "opaque"  # known to start things in its own way, whatever else runs
    SETUP = "setup"


@dataclass(frozen=True, slots=True)
class Start:
    """One command read as a start. `words` are those after the program; `flags` a launcher's own; `target` the index in
    the command's argv of what an interpreter runs (or of its `-m`), -1 where that isn't a script or module.
    """

    kind: Kind
    name: str
    words: tuple[Text, ...] = ()
    flags: LauncherFlags | None = None
    target: int = -1


def read(argv: Sequence[Text], *, has_input: bool) -> Start:
    """Read a command. `has_input`: it is given a here-document or the output of another command."""
    name = program(argv[0])
    words = tuple(argv[1:])
    second = (argv[1].literal or "") if len(argv) > 1 else ""
    if second in programs.SETUP_COMMANDS.get(name, ()):
        return Start(Kind.SETUP, name, words)
    launcher = programs.LAUNCHERS.get(name)
    if launcher is not None:
        return _launcher(launcher, words)
    launcher = programs.LAUNCHER_COMMANDS.get((name, second))
    if launcher is not None:
        return _launcher(launcher, words[1:])
    if name in programs.OWN_LAUNCHERS:
        return Start(Kind.OWN_LAUNCHER, name, words)
    if _is_interpreter(name):
        return _interpreter(name, argv, has_input=has_input)
    if name == "ray" and second == "start":
        return Start(Kind.OPAQUE, "ray start", words)
    if name in programs.SETUP:
        return Start(Kind.SETUP, name, words)
    return Start(Kind.UNKNOWN, name or head(argv[0]), words)


def is_endless(argv: Sequence[Text]) -> bool:
    """Whether a command never ends by itself: `sleep infinity`, `tail -f /dev/null`."""
    name = program(argv[0])
    literals = [text.literal for text in argv[1:]]
    if name == "tail":
        return "/dev/null" in literals and any((w or "").startswith(("-f", "-F", "--follow")) for w in literals)
    return any(w in programs.ENDLESS.get(name, ()) for w in literals)


def _launcher(launcher: Launcher, words: tuple[Text, ...]) -> Start:
    return Start(Kind.LAUNCHER, launcher.name, words, launcher_flags(launcher, words))


def _is_interpreter(name: str) -> bool:
    """`python`, `python3`, `pypy3.11`: a known name and a version."""
    return name.rstrip("0123456789.") in programs.INTERPRETERS


def _interpreter(name: str, argv: Sequence[Text], *, has_input: bool) -> Start:
    """What an interpreter is told to run."""
    at = 1
    while at < len(argv):
        word = argv[at].literal or head(argv[at])
        if not word.startswith("-") or word == "-":
            break
        at += 1
        if word == "--":
            break
        if word in ("-V", "-VV", "-h", "--version", "--help", "-?"):
            return Start(Kind.SETUP, name)
        letter, rest = ("", "") if word.startswith("--") else _telling(word[1:])
        if letter == "m":
            return _module(name, argv, at - 1, rest)
        if letter == "c":
            return Start(Kind.PYTHON, name, tuple(argv[1:]))
        at += bool(letter) and not rest
    if at >= len(argv):
        return Start(Kind.PYTHON if has_input else Kind.SETUP, name, tuple(argv[1:]))
    return _script(name, argv, at)


def _telling(letters: str) -> tuple[str, str]:
    """The first of an option's letters that takes a value (`-uW error`), and what follows it."""
    for at, letter in enumerate(letters):
        if letter in programs.INTERPRETER_TELLING:
            return letter, letters[at + 1 :]
    return "", ""


def _module(name: str, argv: Sequence[Text], at: int, glued: str) -> Start:
    module = glued or ((argv[at + 1].literal or "") if at + 1 < len(argv) else "")
    words = tuple(argv[at + (1 if glued else 2) :])
    if module in programs.LAUNCHER_MODULES:
        return _launcher(programs.LAUNCHER_MODULES[module], words)
    if module == "accelerate.commands.accelerate_cli" and words and words[0].literal == "launch":
        return _launcher(programs.ACCELERATE, words[1:])
    if module in programs.OWN_LAUNCHER_MODULES:
        return Start(Kind.OWN_LAUNCHER, module, words)
    if module in programs.DEEPSPEED:
        return Start(Kind.UNKNOWN, "deepspeed", words)
    if module in programs.SETUP_MODULES:
        return Start(Kind.SETUP, module, words)
    return Start(Kind.PYTHON, name, tuple(argv[1:]), target=-1 if glued else at)


def _script(name: str, argv: Sequence[Text], at: int) -> Start:
    script = program(argv[at])
    words = tuple(argv[at + 1 :])
    following = (words[0].literal or "") if words else ""
    if script in programs.SETUP_SCRIPTS:
        return Start(Kind.SETUP, script, words)
    if (
        script in programs.LAUNCHERS
        or (script, following) in programs.LAUNCHER_COMMANDS
        or script in programs.OWN_LAUNCHERS
    ):
        return read(argv[at:], has_input=False)  # `python $(which torchrun) ...`
    if script in programs.DEEPSPEED:
        return Start(Kind.UNKNOWN, "deepspeed", words)
    return Start(Kind.PYTHON, name, tuple(argv[1:]), target=-1 if argv[at].literal == "-" else at)

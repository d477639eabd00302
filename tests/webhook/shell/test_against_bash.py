"""The evaluator against bash itself: what a real shell starts must be among what the evaluator says it may start.

Texts are generated from built-ins and one stub program, so that running them changes nothing on this machine.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
from functools import partial
from random import Random
from typing import TYPE_CHECKING

import pytest

from webhook.shell.command import Command, Effect
from webhook.shell.expand import Environment
from webhook.shell.grammar import bash_parser
from webhook.shell.run import Runner
from webhook.shell.state import State
from webhook.shell.syntax import parse
from webhook.shell.values import Literal, Opaque, Ref, Text, known

if TYPE_CHECKING:
    from pathlib import Path

BASH = shutil.which("bash")
ENV = {"RANK": "71", "WORLD_SIZE": "8313", "MODE": "multi", "EMPTY": ""}
STUB = '#!/bin/sh\nfor word in "$@"; do printf "%s\\037" "$word"; done >> "$RECORD"\nprintf "\\n" >> "$RECORD"\n'

pytestmark = pytest.mark.skipif(BASH is None, reason="no bash on this machine to compare with")


class Recorder:
    """Takes down every start."""

    def __init__(self) -> None:
        self.commands: list[Command] = []

    def command(self, command: Command) -> Effect:
        self.commands.append(command)
        return Effect(starts=True)

    def assigned(self, name: str, values: tuple[Text, ...]) -> None: ...

    def unset(self, name: str) -> None: ...

    def chose(self, deps: frozenset[str]) -> None: ...

    def wrote(self) -> None: ...


def predicted(text: str, words: list[str]) -> list[str]:
    """What the evaluator says of a text: a pattern for the arguments of each start."""
    recorder = Recorder()
    entries = [{"name": name, "value": value} for name, value in ENV.items()]
    env = Environment(entries)
    argv = [known("bash"), known("-c"), Text((Literal(text, None),)), *map(known, words)]
    runner = Runner(partial(parse, parser=bash_parser()), recorder)
    runner.start(argv, State(env))
    assert not runner.broken
    return [pattern(command.argv[1:]) for command in recorder.commands if command.argv[0].literal == "start"]


def pattern(words: tuple[Text, ...]) -> str:
    """A regular expression for the strings that these words may be."""
    out = ""
    for word in words:
        if word.parts and all(isinstance(part, Opaque) for part in word.parts):
            out += "(?:.*\037)?"  # what isn't known may be no argument at all, or several
            continue
        for part in word.parts:
            if isinstance(part, Literal):
                out += re.escape(part.text)
            elif isinstance(part, Ref):
                out += re.escape(ENV[part.name])
            else:
                out += ".*"
        out += "\037"
    return out


def real(text: str, words: list[str], folder: Path) -> list[str]:
    """What bash starts with: one line of arguments for each start."""
    record = folder / "record"
    record.unlink(missing_ok=True)
    stub = folder / "start"
    if not stub.exists():
        stub.write_text(STUB)
        stub.chmod(0o755)
    assert BASH is not None
    env = {**ENV, "PATH": str(folder), "RECORD": str(record), "FUNCNEST": "20"}  # a function may come to call itself
    with contextlib.suppress(subprocess.TimeoutExpired):  # what it started until then counts all the same
        subprocess.run([BASH, "-c", text, *words], env=env, capture_output=True, timeout=2, check=False)
    return record.read_text().splitlines() if record.exists() else []


# -- texts

NAMES = ("A", "B", "C", "RANK", "WORLD_SIZE")
PLAIN = ("x", "--nnodes=", "0", "--node_rank", "a-b", "7")
QUOTED = ("'q $RANK'", '"d e"', "\\$A", "$'t\\ti'", "$MODE", "${EMPTY}", '"$RANK"', "${WORLD_SIZE}", "''")
ODD = ("$1", '"$@"', "$*", '"${A[@]}"', "${A[0]}", "$#", "$((1+1))", "$(echo hi)", "`echo ho`", "${#A}")
FORMS = ("${}", '"${}"', "${{{}:-fall}}", '"${{{}-}}"', "${{{}:+set}}", "${{{}:=new}}")
TESTS = ('[ "$MODE" = multi -a -n "$RANK" ]', "true", "false", "[ $# -gt 1 ]", "[[ -v RANK ]]", "! true")
LINES = ("shift", "env start a $RANK", "nohup start $B", "exec start $A", "eval start $A", "A=3 start $A", ":")


class Author:
    """Writes shell texts of what the evaluator follows."""

    def __init__(self, choose: Random) -> None:
        self._choose = choose

    def script(self, depth: int = 2) -> str:
        return "\n".join(self.statement(depth) for _ in range(self._choose.randint(1, 4)))

    def word(self) -> str:
        return "".join(self.piece() for _ in range(self._choose.randint(1, 3)))

    def words(self) -> str:
        return " ".join(self.word() for _ in range(self._choose.randint(0, 3)))

    def piece(self) -> str:
        kind = self._choose.randint(0, 3)
        if kind == 0:
            return self._choose.choice(FORMS).format(self._choose.choice(NAMES))
        return self._choose.choice((PLAIN, QUOTED, ODD)[kind - 1])

    def test(self) -> str:
        name, text = self._choose.choice(NAMES), self._choose.choice(PLAIN)
        forms = ('[ -z "${0}" ]', '[ -n "${0}" ]', '[[ "${0}" == "{1}" ]]', 'test "${0}" != "{1}"', "(( {0} > 100 ))")
        return self._choose.choice((*(form.format(name, text) for form in forms), *TESTS))

    def statement(self, depth: int) -> str:
        if depth and self._choose.random() < 0.4:
            return self.block(depth - 1)
        name, words = self._choose.choice("ABC"), self.words()
        value = self.word().replace("@", "0").replace("$*", "$1")
        return self._choose.choice(
            (
                f"start {words}",
                f"start {words}",
                f"{name}={value}",
                f"export {name}={value}",
                f"{name}+={value}",
                f"{name}=({words})",
                f"{name}+=({words})",
                f"set -- {words}",
                f"unset {name}",
                f"command start {words}",
                f"eval start {self._choose.choice(PLAIN)} '$B'",
                self._choose.choice(LINES),
            )
        )

    def block(self, depth: int) -> str:
        one, other, test = self.script(depth), self.script(depth), self.test()
        forms = [
            f"if {test}; then\n{one}\nelse\n{other}\nfi",
            f"{test} && {self.statement(0)}",
            f"{test} || {self.statement(0)}",
            f"(\n{one}\n)",
            f"{{\n{one}\n}}",
            f"for {self._choose.choice('ABC')} in {self.words()}; do\n{one}\ndone",
            f'case "${self._choose.choice(NAMES)}" in\nx|7) {one} ;;\n*) {other} ;;\nesac',
            f"f() {{\n{one}\n}}\nf {self.words()}",
        ]
        if "set --" not in one:
            forms.append(f"while [ $# -gt 0 ]; do\n{one}\nshift\ndone")
        if "'" not in one:
            forms.append(f"bash -c '{one}' zero {self.words()}")
        return self._choose.choice(forms)


WRITTEN = [
    'A="--nnodes $WORLD_SIZE"\nstart $A x',
    'A=(--nnodes "$WORLD_SIZE")\nA+=(y)\nstart "${A[@]}" ${A[*]}',
    'f() { "$@"; }\nf start $RANK',
    "for A in 1 2; do B=$B$A; done\nstart $B",
    "while [ $# -gt 0 ]; do case $1 in one) A=$2; shift;; esac; shift; done\nstart $A",
]


# Seeds, so that a run can be repeated; `Author` writes the same text for a seed under every Python.
@pytest.mark.parametrize(
    "text",
    [*WRITTEN, *(Author(Random(seed)).script() for seed in range(100))],  # noqa: S311 - texts, no secrets
)
def test_what_bash_starts_is_foreseen(tmp_path: Path, text: str) -> None:
    """Every start that bash makes of a text, with its arguments, is one that the evaluator says may be made."""
    words = ["zero", "one", "two 2"]
    checked = subprocess.run([str(BASH), "-n", "-c", text], capture_output=True, timeout=20, check=False)
    if checked.returncode or parse(text, bash_parser()).broken:
        return
    may = predicted(text, words)
    for line in real(text, words, tmp_path):
        assert any(re.fullmatch(one, line) for one in may), (text, line, may)

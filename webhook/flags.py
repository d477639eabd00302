"""Flags among the words of a start: topology flags anywhere, a launcher's own flags up to its script."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from webhook.programs import NODE_COUNT, NODE_RANK, Launcher
from webhook.shell.values import Literal, Span, Text, drop, head

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class Flag(NamedTuple):
    """A flag of the words: its name as written, its value, and which words (from, to) it takes."""

    name: str
    value: Text | None
    first: int
    last: int


def normal(name: str) -> str:
    """A flag's name with nothing that people write in different ways: `--Num-Nodes`, `+trainer.num_nodes` ->
    `num_nodes`.
    """
    return name.lstrip("-+").rpartition(".")[2].replace("-", "_").lower()


def topology(name: str) -> str:
    """`node_rank` or `node_count` for the name of a topology flag or key, else empty."""
    key = normal(name)
    return "node_rank" if key in NODE_RANK else "node_count" if key in NODE_COUNT else ""


def topology_flags(words: Sequence[Text]) -> Iterator[Flag]:
    """Every topology flag among words: `--flag=value`, `--flag value`, `key=value`, `a.b.key=value`."""
    for at, word in enumerate(words):
        start = head(word)
        if not start.startswith("-") and "=" not in start:
            continue
        name, sign, _ = start.partition("=")
        if not topology(name):
            continue
        if sign:
            yield Flag(name, drop(word, len(name) + 1), at, at)
        elif name.startswith("-") and word.literal == name and at + 1 < len(words):
            yield Flag(name, words[at + 1], at, at + 1)


@dataclass(frozen=True, slots=True)
class LauncherFlags:
    """A launcher's own flags by normal name (the last of a name counts), and where its script stands."""

    flags: dict[str, Flag]
    script: int  # index of the script's word; len(words) if there is none
    module: bool


def launcher_flags(launcher: Launcher, words: Sequence[Text]) -> LauncherFlags:
    """Read a launcher's words up to its script, as argparse does: what follows belongs to the script."""
    flags: dict[str, Flag] = {}
    at = 0
    while at < len(words):
        word = words[at]
        start = head(word)
        if start == "--":
            at += 1
            break
        if not start.startswith("-") or start == "-":
            if word.vanishes:
                at += 1
                continue
            break
        name, sign, _ = start.partition("=")
        key = normal(name)
        if sign:
            flags[key] = Flag(name, drop(word, len(name) + 1), at, at)
        elif key in launcher.switches or at + 1 >= len(words):
            flags[key] = Flag(name, None, at, at)
        else:
            flags[key] = Flag(name, words[at + 1], at, at + 1)
            at += 1
        at += 1
    return LauncherFlags(flags, at, "m" in flags or "module" in flags)


def written(text: Text) -> tuple[str, Span] | None:
    """A text that is written out in the pod in one piece, and where."""
    if len(text.parts) == 1 and isinstance(part := text.parts[0], Literal) and part.span is not None:
        return part.text, part.span
    return None

"""Sentences for people: warnings, denials and their bounds.

The API server drops a warning that is empty or has a newline, and cuts long ones once there are many; with the real
operator warnings end in its log, a denial in an Event on the PyTorchJob.
"""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

WARNING_LENGTH = 200
WARNINGS = 3


def warnings(sentences: Iterable[str]) -> tuple[str, ...]:
    """At most three different warnings, each one line of at most 200 characters and not empty, in the order given."""
    lines = [line(sentence) for sentence in sentences]
    return tuple(dict.fromkeys(text for text in lines if text))[:WARNINGS]


def line(text: str, limit: int = WARNING_LENGTH) -> str:
    """The text on one line, without control characters and lone surrogates, cut to `limit` characters."""
    if not text.isprintable():
        text = " ".join("".join(map(_printable, text)).split())
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def _printable(char: str) -> str:
    if char.isprintable():
        return char
    return " " if char.isspace() or unicodedata.category(char) == "Cc" else "?"


def quoted(value: object) -> str:
    """A value of an annotation of ours, short enough for a message."""
    return f'"{line(value, 60)}"' if isinstance(value, str) else f"not a string ({type(value).__name__})"


def allowed(annotation: str, value: object, what: str) -> str:
    """Why an annotation can't be obeyed: its name, its value, what is allowed."""
    return f"annotation {annotation} is {quoted(value)}; allowed: {what}"


def denial(problem: str, job: str) -> str:
    """What the denied pod's Event says: the problem, and where to put it right."""
    return line(f"{problem}. Change it on the replica template of PyTorchJob {line(job, 80) or '(unknown)'}", 600)


def not_denied(problem: str) -> str:
    """Server default `audit`: the denial that mode `auto` would have been."""
    return f"rankfix audit: would deny this pod: {problem}"


def would_change(rules: Iterable[str], names: Iterable[str]) -> str:
    """Mode `audit`: what mode `auto` would do."""
    env = ", ".join(names)
    return f"rankfix audit: would apply {','.join(rules)}{f' (env {env})' if env else ''}; nothing was changed"


def unclear_launch(container: str) -> str:
    """The pair is half node, half process, and nothing tells which half the command wants."""
    problem = "can't see how training starts; RANK/WORLD_SIZE stay half node, half process"
    return _in(container, f"{problem}: set rankfix/mode (process, node, off) on the replica template")


def no_rank_env(*, obeyable: bool) -> str:
    """The job has no Master, so the operator writes neither RANK nor WORLD_SIZE."""
    problem = "rankfix: no Master replica, so no RANK and WORLD_SIZE"
    if obeyable:
        return f"{problem}; for rankfix to write them, set rankfix/mode: process on the replica template"
    return f"{problem}, and this operator doesn't tell the number of pods either; add a Master to the job"


def nothing_done(problem: str) -> str:
    """Facts that contradict each other, or can't be read."""
    return f"rankfix changed nothing: {problem}"


def no_effect(annotation: str, problem: str) -> str:
    """An annotation that asks for what this pod can't have."""
    return f"annotation {annotation} has no effect: {problem}"


def standalone(container: str) -> str:
    """`--standalone` in a job of several pods."""
    return _in(container, "--standalone in a job of several pods: each waits for ever or trains alone; drop the flag")


def deepspeed(container: str) -> str:
    """The deepspeed launcher without a hostfile in a job of several pods."""
    problem = "deepspeed without a hostfile trains in each pod alone"
    return _in(container, f"{problem}; start with torchrun, or give a hostfile and --no_ssh")


def literal_rank(container: str) -> str:
    """A fixed `--rank` that every process of a launcher gets."""
    problem = "--rank after a launcher's script gives each of its processes the same rank"
    return _in(container, f"{problem}; drop it, and read RANK")


def gpus(container: str, limit: int, processes: int) -> str:
    """A container whose GPUs and processes don't match."""
    advice = "make the limit and nprocPerNode (or rankfix/nproc-per-node) agree"
    return _in(container, f"{limit} GPUs for {processes} processes; {advice}")


def _in(container: str, finding: str) -> str:
    return f"rankfix: container {line(container, 30)}: {finding}"

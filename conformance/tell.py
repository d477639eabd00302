"""The line of a log that tells what went wrong: the error itself, not the launcher's summary of it. Pure functions."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from demo.pods import Ended

LONGEST = 160
_ERROR = re.compile(
    r"^(?:\[\w+\]:)?\s*(?:[\w.]+\.)?\w*(?:Error|Exception|Exit|Interrupt)\b: ?.+|: error: |: not found|^bash: |^sh: "
)
_SUMMARY = re.compile(r"ChildFailedError|CalledProcessError|^\s*error_file|traceback : To enable")
_PREFIX = re.compile(r"^\[\w+\d*\]:\s*")


def telling(ended: Iterable[Ended]) -> str:
    """`POD: LINE` of the first container that says something; its code, where it says nothing."""
    ended = list(ended)
    for one in ended:
        if line := error(one.log):
            return f"{one.pod}: {line}"
    return f"{ended[0].pod}: ended with code {ended[0].code}, and said nothing" if ended else ""


def error(log: str) -> str:
    """The last line that names an error, or else the last one that says anything; "" for an empty log."""
    lines = [_PREFIX.sub("", line).strip() for line in log.splitlines()]
    named = [line for line in lines if _ERROR.search(line) and not _SUMMARY.search(line)]
    said = [line for line in lines if line]
    return short((named or said or [""])[-1])


def short(line: str, most: int = LONGEST) -> str:
    """A line that fits."""
    return line if len(line) <= most else f"{line[: most - 3]}..."


def tail(log: str, lines: int = 12) -> str:
    """The end of a log."""
    return "\n".join(log.rstrip().splitlines()[-lines:])

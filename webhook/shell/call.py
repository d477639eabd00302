"""A simple command between its expansion and its run."""

from __future__ import annotations

from typing import NamedTuple

from webhook.shell.values import Text

Assigns = tuple[tuple[str, tuple[Text, ...]], ...]
Stdin = tuple[Text | None, frozenset[str] | None]


class Call(NamedTuple):
    """A simple command, its words expanded: one of `alternatives` forms."""

    argv: list[Text]
    assigns: Assigns = ()
    stdin: Stdin = (None, None)
    alternatives: int = 1

"""A shell text whose characters remember where they stand in the pod, and which may hold values already put in.

Kubelet (`$(VAR)`), an outer shell (`bash -c "... $X ..."`) or `eval` put values into a text before a shell parses it.
Such a value is one character of a private plane here: an ordinary character of a word to the parser, a value to us.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

from webhook.shell.values import Literal, Part, Ref, Span

if TYPE_CHECKING:
    from collections.abc import Iterable

_PLANE = 0xF0000
_PLANE_END = 0xFFFFD


@dataclass(frozen=True, slots=True)
class Source:
    """`text` to parse; `starts`/`spans` say for each run of it where it stands; `values` are what its holes hold."""

    text: str
    starts: tuple[int, ...]
    spans: tuple[Span | None, ...]
    values: dict[str, Part]

    def span(self, start: int, end: int) -> Span | None:
        """Where characters `start`..`end` stand in the pod, if they stand there in one piece."""
        if start >= end:
            return None
        run = bisect_right(self.starts, start) - 1
        span = self.spans[run]
        if span is None:
            return None
        begin = self.starts[run]
        length = (self.starts[run + 1] if run + 1 < len(self.starts) else len(self.text)) - begin
        if span.end - span.start != length:  # a hole: one character for a longer reference
            return span if (start, end) == (begin, begin + length) else None
        if end <= begin + length:
            return Span(span.field, span.index, span.start + start - begin, span.start + end - begin)
        return self._joined(span._replace(start=span.start + start - begin), run, end)

    def _joined(self, span: Span, run: int, end: int) -> Span | None:
        """The span of several runs that follow each other in the pod too."""
        for i in range(run + 1, len(self.starts)):
            following = self.spans[i]
            if following is None or following[:2] != span[:2] or following.start != span.end:
                return None
            begin = self.starts[i]
            stop = self.starts[i + 1] if i + 1 < len(self.starts) else len(self.text)
            if end < stop:
                if following.end - following.start != stop - begin:
                    return None
                return span._replace(end=following.start + end - begin)
            span = span._replace(end=following.end)
            if end == stop:
                return span
        return None

    def parts(self, start: int, end: int) -> list[Part]:
        """Characters `start`..`end` as parts: literal text with its places, and the values of the holes."""
        text = self.text[start:end]
        if not self.values:
            return [Literal(text, self.span(start, end))] if text else []
        out: list[Part] = []
        at = 0
        for i, char in enumerate(text):
            if char in self.values:
                if at < i:
                    out.append(Literal(text[at:i], self.span(start + at, start + i)))
                out.append(self.values[char])
                at = i + 1
        if at < len(text):
            out.append(Literal(text[at:], self.span(start + at, end)))
        return out


def source_of(parts: Iterable[Part]) -> Source:
    """The source that these parts make: literals as they are, one hole for every other part.

    A reference with a known value that isn't a plain word is put in as text, for it may hold shell syntax.
    """
    pieces: list[str] = []
    starts: list[int] = []
    spans: list[Span | None] = []
    values: dict[str, Part] = {}
    parts = list(parts)
    taken = {c for p in parts if isinstance(p, Literal) and not p.text.isascii() for c in p.text if ord(c) >= _PLANE}
    code, length = _PLANE, 0
    for given in parts:
        part: Part = given
        if isinstance(given, Ref) and given.text is not None and not _plain(given.text):
            part = Literal(given.text, None)
        if isinstance(part, Literal):
            piece = part.text
        else:
            while chr(code) in taken:
                code += 1
            if code > _PLANE_END:
                piece, part = "_", Literal("_", None)
            else:
                piece = chr(code)
                values[piece] = part
                code += 1
        if not piece:
            continue
        pieces.append(piece)
        starts.append(length)
        spans.append(None if not isinstance(part, Literal | Ref) else part.span)
        length += len(piece)
    return Source("".join(pieces), tuple(starts) or (0,), tuple(spans) or (None,), values)


def _plain(text: str) -> bool:
    """Whether a shell takes this text as one ordinary word, or as part of one."""
    return bool(text) and all(c.isalnum() or c in "_-./:@%+=," for c in text)

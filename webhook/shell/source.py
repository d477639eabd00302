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
    from collections.abc import Iterable, Iterator

_PLANE = 0xF0000  # the first of 130,000 private characters; a pod has no room for as many holes


@dataclass(frozen=True, slots=True)
class Source:
    """`text` to parse; `starts`/`spans` say for each run of it where it stands; `values` are what its holes hold."""

    text: str
    starts: tuple[int, ...]
    spans: tuple[Span | None, ...]
    values: dict[str, Part]

    def span(self, start: int, end: int) -> Span | None:
        """Where characters `start`..`end` stand in the pod, if they stand there in one piece."""
        whole: Span | None = None
        for begin, stop in self._runs(start, end):
            span = self._within(begin, stop)
            if span is None or (whole is not None and (whole[:2] != span[:2] or whole.end != span.start)):
                return None
            whole = span if whole is None else Span(whole.field, whole.index, whole.start, span.end)
        return whole

    def _runs(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """The parts of `start`..`end` that lie in one run each."""
        run = bisect_right(self.starts, start)
        while start < end:
            stop = min(end, self.starts[run]) if run < len(self.starts) else end
            yield start, stop
            start, run = stop, run + 1

    def _within(self, start: int, end: int) -> Span | None:
        """Where a part of one run stands."""
        run = bisect_right(self.starts, start) - 1
        span, begin = self.spans[run], self.starts[run]
        length = (self.starts[run + 1] if run + 1 < len(self.starts) else len(self.text)) - begin
        if span is None or span.end - span.start != length:  # a hole: one character for a longer reference
            return span if (start, end) == (begin, begin + length) else None
        return Span(span.field, span.index, span.start + start - begin, span.start + end - begin)

    def parts(self, start: int, end: int) -> list[Part]:
        """Characters `start`..`end` as parts: literal text with its places, and the values of the holes."""
        return [
            self.values.get(self.text[begin]) or Literal(self.text[begin:stop], self._within(begin, stop))
            for begin, stop in self._runs(start, end)
        ]


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
            piece = chr(code)
            values[piece] = part
            code += 1
        pieces.append(piece)
        starts.append(length)
        spans.append(None if not isinstance(part, Literal | Ref) else part.span)
        length += len(piece)
    return Source("".join(pieces), tuple(starts) or (0,), tuple(spans) or (None,), values)


def _plain(text: str) -> bool:
    """Whether a shell takes this text as one ordinary word, or as part of one."""
    return bool(text) and all(c.isalnum() or c in "_-./:@%+=," for c in text)

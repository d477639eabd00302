"""A command line as it stands in the job, wrapped, with the words that decided its class marked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from webhook.explained import Launched

MOST_LINES, FIRST_LINES = 10, 2
_MARK = "~"


def marked(launch: Launched, width: int, *, underline: bool) -> Iterator[Text]:
    """The lines: with `underline` marked words are underlined, else a line of marks follows."""
    text, marks = _laid_out(launch)
    for start, end, gap in _shortened(list(_wrapped(text, width)), marks):
        if gap:
            yield Text("...", "dim")
            continue
        here = [at for at in range(start, end) if at in marks]
        line = Text(text[start:end])
        if underline:
            for first, last in _runs(here):
                line.stylize("underline bold", first - start, last - start + 1)
        yield line
        if here and not underline:
            yield Text(_marks(text, start, here))


def _marks(text: str, start: int, here: Sequence[int]) -> str:
    chosen = set(here)
    return "".join((_MARK if at in chosen else " ") * cell_len(text[at]) for at in range(start, here[-1] + 1))


def _runs(places: Sequence[int]) -> Iterator[tuple[int, int]]:
    first = places[0] if places else 0
    for place, following in zip(places, (*places[1:], -1), strict=True):
        if following != place + 1:
            yield first, place
            first = following


def _laid_out(launch: Launched) -> tuple[str, frozenset[int]]:
    """All words in a row, those with blanks in quotes, and the places of the marked characters."""
    spans = {(e["field"], e["index"], e["start"], e["end"]) for e in launch["evidence"]}
    text, marks = "" if launch["command"] else "(the image's own command)", set[int]()
    for field, words in (("command", launch["command"]), ("args", launch["args"])):
        for index, word in enumerate(words):
            quote = "'" if not word or any(char.isspace() for char in word) else ""
            begin = len(text) + bool(text) + len(quote)
            for _, _, start, end in (span for span in spans if span[:2] == (field, index)):
                marks.update(range(begin + start, begin + end))
            text += f"{' ' if text else ''}{quote}{_visible(word)}{quote}"
    return text, frozenset(at for at in marks if not text[at].isspace())


def _visible(word: str) -> str:
    """The same number of characters, none of which a terminal obeys."""
    return "".join(char if char == "\n" or char.isprintable() else " " if char.isspace() else "?" for char in word)


def _wrapped(text: str, width: int) -> Iterator[tuple[int, int]]:
    start = 0
    for line in text.split("\n"):
        yield from _pieces(text, start, start + len(line), width)
        start += len(line) + 1


def _pieces(text: str, start: int, end: int, width: int) -> Iterator[tuple[int, int]]:
    while cell_len(text[start:end]) > width:
        fits = start + width
        while cell_len(text[start:fits]) > width:  # characters of double width
            fits -= 1
        cut = text.rfind(" ", start + 1, fits + 1)
        cut = cut if cut > start + width // 2 else fits
        yield start, cut
        start = cut + (text[cut] == " ")
    if end > start:
        yield start, end


def _shortened(lines: list[tuple[int, int]], marks: frozenset[int]) -> Iterator[tuple[int, int, bool]]:
    """Of a long text the first lines and those with marks, and a sign for each gap."""
    gap = False
    for number, (start, end) in enumerate(lines):
        if len(lines) <= MOST_LINES or number < FIRST_LINES or any(start <= at < end for at in marks):
            yield start, end, False
            gap = False
        elif not gap:
            yield 0, 0, True
            gap = True

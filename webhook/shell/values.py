"""What a word of a command may be: literal text, the value of an env entry, or something that can't be known.

A `Text` is one possible string, as a sequence of parts. A variable that branches give different values has several
`Text`s. Every part remembers where it stands in the pod, so that a rule can edit that place and nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

PAIR = frozenset({"RANK", "WORLD_SIZE"})
NOTHING: frozenset[str] = frozenset()
MOST_ALTERNATIVES = 8


class Span(NamedTuple):
    """Characters `start`..`end` (end exclusive) of the string `container[field][index]`; field is `command` or
    `args`.
    """

    field: str
    index: int  # type: ignore[assignment]  # the name says what it is; tuple.index isn't wanted here
    start: int
    end: int


class Literal(NamedTuple):
    """Text that is known. `span` is where it is written out; None where it is known in another way (env, default)."""

    text: str
    span: Span | None


class Ref(NamedTuple):
    """The unchanged value of the container's env entry `name`. `text` is that value where it can't change, else
    None.
    """

    name: str
    text: str | None
    span: Span | None


class Opaque(NamedTuple):
    """A string nobody can know here, which depends on the entries `deps` of the pair.

    `vanishes`: it may well be no word at all, as an unquoted variable that nothing sets.
    """

    deps: frozenset[str] = NOTHING
    vanishes: bool = False


Part = Literal | Ref | Opaque


class Text(NamedTuple):
    """One possible string. `because` are the entries of the pair that decided on it; `span` is the whole word's
    place.
    """

    parts: tuple[Part, ...]
    because: frozenset[str] = NOTHING
    span: Span | None = None

    @property
    def literal(self) -> str | None:
        """The string, where all of it is known."""
        out = ""
        for part in self.parts:
            text = None if isinstance(part, Opaque) else part.text
            if text is None:
                return None
            out += text
        return out

    @property
    def deps(self) -> frozenset[str]:
        """The entries of the pair that this string depends on in any way."""
        deps = self.because
        for part in self.parts:
            if not isinstance(part, Literal):
                deps |= part_deps(part)
        return deps

    @property
    def ref(self) -> Ref | None:
        """The env entry whose value this string is, unchanged."""
        if len(self.parts) == 1 and isinstance(self.parts[0], Ref):
            return self.parts[0]
        return None

    @property
    def vanishes(self) -> bool:
        """Whether this is an unquoted variable that nothing sets, and so no word at all."""
        return len(self.parts) == 1 and isinstance(part := self.parts[0], Opaque) and part.vanishes

    @property
    def shortest(self) -> int:
        """A lower bound of the string's length: values of the pair and of MASTER_ADDR are never empty."""
        return sum(0 if isinstance(p, Opaque) else len(p.text) if p.text is not None else 1 for p in self.parts)


EMPTY = Text(())


def names_in(text: str) -> list[str]:
    """The words of letters, digits and underscores in a text: what arithmetic takes for names."""
    return "".join(c if c.isalnum() or c == "_" else " " for c in text).split()


def part_deps(part: Part) -> frozenset[str]:
    """The entries of the pair that one part depends on."""
    if isinstance(part, Opaque):
        return part.deps
    if isinstance(part, Ref) and part.name in PAIR:
        return frozenset({part.name})
    return NOTHING


def known(text: str) -> Text:
    """A string that is known but isn't written out in the pod."""
    return Text((Literal(text, None),) if text else ())


def opaque(deps: frozenset[str] = NOTHING, *, vanishes: bool = False) -> Text:
    """A string that can't be known."""
    return Text((Opaque(deps, vanishes),))


def text_of(parts: Iterable[Part], because: frozenset[str] = NOTHING, span: Span | None = None) -> Text:
    """A text of these parts: empty literals dropped, neighbours that stand beside each other made one."""
    out: list[Part] = []
    for part in parts:
        if isinstance(part, Literal):
            if not part.text:
                continue
            if out and isinstance(out[-1], Literal):
                joined = _join(out[-1], part)
                if joined is not None:
                    out[-1] = joined
                    continue
        out.append(part)
    return Text(tuple(out), because, span)


def _join(left: Literal, right: Literal) -> Literal | None:
    """Two literals as one, if they stand side by side in the same string, or stand nowhere."""
    if left.span is None and right.span is None:
        return Literal(left.text + right.text, None)
    if left.span is None or right.span is None or left.span[:2] != right.span[:2] or left.span.end != right.span.start:
        return None
    if not (_stands_as_written(left) and _stands_as_written(right)):
        return None
    return Literal(left.text + right.text, Span(left.span.field, left.span.index, left.span.start, right.span.end))


def _stands_as_written(part: Literal) -> bool:
    """Whether a literal's place holds just its characters, and not an expansion that gives them."""
    return part.span is not None and part.span.end - part.span.start == len(part.text)


def cut(part: Literal, start: int, end: int) -> Literal:
    """Characters `start`..`end` of a literal, with their own place."""
    span = part.span if _stands_as_written(part) else None
    if span is not None:
        span = Span(span.field, span.index, span.start + start, span.start + end)
    return Literal(part.text[start:end], span)


def drop(text: Text, length: int) -> Text:
    """A text without its first `length` characters, which must be literal."""
    parts = list(text.parts)
    while length and isinstance(first := parts.pop(0), Literal):
        if len(first.text) > length:
            parts.insert(0, cut(first, length, len(first.text)))
        length = max(length - len(first.text), 0)
    return Text(tuple(parts), text.because)


def head(text: Text) -> str:
    """The literal text that a text begins with."""
    out = ""
    for part in text.parts:
        if not isinstance(part, Literal):
            break
        out += part.text
    return out


def unwritten(text: Text) -> Text:
    """The same text, known but written nowhere (a default that something else may replace)."""
    parts = tuple(Literal(p.text, None) if isinstance(p, Literal) else p for p in text.parts)
    return Text(parts, text.because)


def place(text: Text, span: Span | None) -> Text:
    """The text at the place where a variable that holds it is used, if it is one thing that can be replaced there."""
    if len(text.parts) == 1 and span is not None:
        part = text.parts[0]
        if isinstance(part, Ref):
            return Text((Ref(part.name, part.text, span),), text.because, text.span)
        if isinstance(part, Literal) and part.span is not None and not any(c.isspace() for c in part.text):
            return Text((Literal(part.text, span),), text.because, text.span)
    return text


def tainted(texts: Iterable[Text], because: frozenset[str]) -> tuple[Text, ...]:
    """The same possibilities, decided on by `because` too."""
    if not because:
        return tuple(texts)
    return tuple(t if because <= t.because else Text(t.parts, t.because | because, t.span) for t in texts)


def merged(*groups: Sequence[Text]) -> tuple[Text, ...]:
    """The possibilities of all groups, in order, each once; too many are made one, but none that is fed is lost."""
    out = list(dict.fromkeys(text for group in groups for text in group))
    if len(out) <= MOST_ALTERNATIVES:
        return tuple(out)
    out.sort(key=lambda text: not text.deps)  # stable: what the pair feeds comes first
    kept, rest = out[: MOST_ALTERNATIVES - 1], out[MOST_ALTERNATIVES - 1 :]
    return (*kept, opaque(frozenset().union(*(t.deps for t in rest))))


def fields(text: Text) -> list[Text]:
    """What an unquoted expansion of this text gives: its words, split at white space."""
    words: list[list[Part]] = [[]]
    for given in text.parts:
        part: Part = given
        if isinstance(given, Ref) and given.text is not None and any(c.isspace() for c in given.text):
            part = Literal(given.text, None)
        if not isinstance(part, Literal):
            words[-1].append(part)
            continue
        at = 0
        for piece, blank in _runs(part.text):
            if blank:
                if words[-1]:
                    words.append([])
            else:
                words[-1].append(cut(part, at, at + len(piece)) if len(piece) < len(part.text) else part)
            at += len(piece)
    return [text_of(word, text.because) for word in words if word]


def _runs(text: str) -> list[tuple[str, bool]]:
    """The text as runs of white space (True) and of other characters (False)."""
    runs: list[tuple[str, bool]] = []
    start = 0
    for i in range(1, len(text) + 1):
        if i == len(text) or (text[i] in " \t\n\r") != (text[start] in " \t\n\r"):
            runs.append((text[start:i], text[start] in " \t\n\r"))
            start = i
    return runs


def splits_before(text: Text) -> bool:
    """Whether the text begins with white space, so that it doesn't join the word before it."""
    return bool(text.parts) and isinstance(text.parts[0], Literal) and text.parts[0].text[0] in " \t\n\r"


def splits_after(text: Text) -> bool:
    """Whether the text ends with white space, so that it doesn't join the word after it."""
    return bool(text.parts) and isinstance(text.parts[-1], Literal) and text.parts[-1].text[-1] in " \t\n\r"

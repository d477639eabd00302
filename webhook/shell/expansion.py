"""Words -> the strings they may become: parameters, substitutions and splitting, as bash does it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from webhook.shell.state import State, Variable
from webhook.shell.tree import Arithmetic, Chars, Node, Parameter, Piece, Substitution, Word
from webhook.shell.values import (
    EMPTY,
    NOTHING,
    Literal,
    Part,
    Text,
    fields,
    known,
    merged,
    opaque,
    place,
    splits_after,
    splits_before,
    text_of,
    unwritten,
)

if TYPE_CHECKING:
    from webhook.shell.source import Source

Substitute = Callable[[Node], tuple[Text, ...]]
Assigned = Callable[[str, tuple[Text, ...]], None]
_Fields = list[Text]


_DIGITS = 3  # of an index or offset that is followed


class Expander:
    """Expands the words of one source in one state.

    `substitute` runs the commands of `$(...)`, `assigned` is told of names that `${NAME:=word}` sets.
    """

    def __init__(self, source: Source, state: State, substitute: Substitute, assigned: Assigned) -> None:
        self._source = source
        self._state = state
        self._substitute = substitute
        self._assigned = assigned

    def texts(self, word: Word | None) -> tuple[Text, ...]:
        """The strings that a word may be where nothing is split: assignments, tests, here-documents."""
        if word is None:
            return (EMPTY,)
        out: tuple[Text, ...] = (EMPTY,)
        for piece in word.pieces:
            out = zipped(out, self._piece(piece))
        if len(out) == 1 and len(word.pieces) == 1:
            return out
        return tuple(dict.fromkeys(out))

    def fields(self, word: Word) -> list[_Fields]:
        """The lists of arguments that a word may become, one list for each possibility."""
        choices = [self._chunks(piece) for piece in word.pieces]
        count = max((len(c) for c in choices), default=1)
        out = [_assembled([c[min(i, len(c) - 1)] for c in choices]) for i in range(count)]
        span = self._source.span(word.start, word.end)
        return [[Text(words[0].parts, words[0].because, span)] if len(words) == 1 else words for words in out]

    def deps(self, words: Iterable[Word]) -> frozenset[str]:
        """The entries of the pair that any of these words depends on."""
        return NOTHING.union(*(text.deps for word in words for text in self.texts(word)))

    def arithmetic(self, value: Arithmetic) -> frozenset[str]:
        """The entries of the pair that an arithmetic expression depends on."""
        deps = NOTHING
        for name in value.names:
            variable = self._state.variable(name)
            deps |= variable.deps if variable is not None else NOTHING
        for piece in value.inside:
            deps |= NOTHING.union(*(text.deps for text in self._piece(piece)))
        return deps

    # -- pieces

    def _piece(self, piece: Piece) -> tuple[Text, ...]:
        if isinstance(piece, Chars):
            return (self._chars(piece),)
        if isinstance(piece, Parameter):
            if piece.name in ("@", "*") or piece.index in ("@", "*"):
                return tuple(_spaced(words) for words in self._list(piece))
            return self._scalar(piece)
        if isinstance(piece, Substitution):
            return self._substitute(piece.body)
        return (opaque(self.arithmetic(piece)),)

    def _chars(self, piece: Chars) -> Text:
        if piece.start is not None:
            return text_of(self._source.parts(piece.start, piece.start + len(piece.text)))
        parts: list[Part] = [self._source.values.get(c) or Literal(c, None) for c in piece.text]
        return text_of(parts)

    def _chunks(self, piece: Piece) -> list[tuple[_Fields, bool, bool]]:
        """One piece as (arguments, apart from what is before, apart from what is after), for each possibility."""
        if isinstance(piece, Parameter) and (piece.name in ("@", "*") or piece.index in ("@", "*")):
            words = self._list(piece)
            if piece.quoted:
                star = "*" in (piece.name, piece.index)
                return [([_spaced(w)] if star else w, False, False) for w in words]
            return [([f for text in w for f in fields(text)], False, False) for w in words]
        texts = self._piece(piece)
        if isinstance(piece, Chars) or piece.quoted:
            return [([text], False, False) for text in texts]
        return [(fields(text), splits_before(text), splits_after(text)) for text in texts]

    # -- parameters

    def _list(self, piece: Parameter) -> list[_Fields]:
        """All positional parameters, or all items of an array."""
        if piece.prefix or (piece.op and piece.op not in (":-", "-", ":")):
            return [[opaque(self._variable_deps(piece.name))]]
        if piece.name in ("@", "*"):
            items = list(self._state.positional)
            if piece.op == ":":
                skip = _number(piece.operand)
                if skip is None:
                    return [[opaque(self._variable_deps("@"))]]
                items = [(self._state.zero, *item)[skip:] for item in items]
        else:
            variable = self._state.variable(piece.name)
            if variable is None:
                items = [(opaque(vanishes=True),)]
            else:
                items = [*variable.arrays, *((text,) for text in variable.values)] or [()]
        if piece.op in (":-", "-"):
            items = [item or self.texts(piece.operand) for item in items]
        return [list(item) for item in items]

    def _variable_deps(self, name: str) -> frozenset[str]:
        if name in ("@", "*"):
            return NOTHING.union(*(text.deps for words in self._state.positional for text in words))
        variable = self._state.variable(name)
        return variable.deps if variable is not None else NOTHING

    def _scalar(self, piece: Parameter) -> tuple[Text, ...]:
        found = self._held(piece)
        if piece.prefix == "!":
            found = self._indirect(found)
        elif piece.prefix:
            return (opaque(self._variable_deps(piece.name)),)
        if not piece.op:
            if found is None:
                return (opaque(vanishes=not piece.quoted),)
            span = self._source.span(piece.start, piece.end)
            return tuple(place(text, span) for text in found)
        if piece.op in (":-", "-", ":=", "="):
            return self._default(piece, found)
        if piece.op in (":+", "+"):
            return self._alternative(piece, found)
        if piece.op in (":?", "?"):
            return found if found is not None else (opaque(),)
        deps = self._variable_deps(piece.name)
        return (opaque(deps | (self.deps([piece.operand]) if piece.operand else NOTHING)),)

    def _held(self, piece: Parameter) -> tuple[Text, ...] | None:
        """The values of a name; None where nothing known sets it."""
        name = piece.name
        if name.isdigit():
            at = int(name[:4]) - 1
            if at < 0:  # `$0`, and `${00}` as well
                return (self._state.zero,)
            return tuple(dict.fromkeys(w[at] if at < len(w) else EMPTY for w in self._state.positional))
        if name == "#":
            return tuple(known(str(count)) for count in sorted({len(words) for words in self._state.positional}))
        if not name.isidentifier():
            return (opaque(),)
        variable = self._state.variable(name)
        if variable is None:
            return None
        if variable.arrays:
            return merged(self._item(piece.index or "0", variable), variable.values)
        return variable.values or None

    def _item(self, index: str, variable: Variable) -> tuple[Text, ...]:
        if index.isdigit():
            at = int(index[:4])
            return tuple(dict.fromkeys(a[at] if at < len(a) else EMPTY for a in variable.arrays))
        return (opaque(variable.deps),)

    def _indirect(self, found: tuple[Text, ...] | None) -> tuple[Text, ...] | None:
        """`${!NAME}`: the value of the variable whose name NAME holds."""
        names = [text.literal for text in found or ()]
        if not names or None in names:
            return (opaque(NOTHING.union(*(text.deps for text in found or ()))),)
        values = [self._state.variable(name) for name in names if name]
        return merged(*(v.values for v in values if v is not None)) or None

    def _default(self, piece: Parameter, found: tuple[Text, ...] | None) -> tuple[Text, ...]:
        """`${NAME:-word}`: the word is a fall-back, known but not written as the value."""
        span = self._source.span(piece.start, piece.end)
        colon = piece.op.startswith(":")
        kept = [place(text, span) for text in found or () if text.parts or not colon]
        sure = found is not None and all(text.shortest or not colon for text in found)
        out = tuple(kept) if sure else merged(kept, [unwritten(t) for t in self.texts(piece.operand)])
        if "=" in piece.op and not sure:
            self._assigned(piece.name, out)
            self._state.assign(piece.name, Variable(out))
        return out

    def _alternative(self, piece: Parameter, found: tuple[Text, ...] | None) -> tuple[Text, ...]:
        """`${NAME:+word}`: the word where NAME is set."""
        if found is None:
            return (EMPTY,)
        operand = self.texts(piece.operand)
        if piece.op == "+" or all(text.shortest for text in found):
            return operand
        if all(text.literal == "" for text in found):
            return (EMPTY,)
        return merged(operand, (EMPTY,))


def _number(word: Word | None) -> int | None:
    text = "".join(p.text for p in word.pieces if isinstance(p, Chars)) if word else ""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _DIGITS else None


def zipped(left: tuple[Text, ...], right: tuple[Text, ...]) -> tuple[Text, ...]:
    """Concatenation, possibility by possibility: branches give their variables in the same order."""
    count = max(len(left), len(right))
    if count == 1 and not left[0].parts and not left[0].because:
        return right
    pairs = ((left[min(i, len(left) - 1)], right[min(i, len(right) - 1)]) for i in range(count))
    return tuple(text_of((*a.parts, *b.parts), a.because | b.because) for a, b in pairs)


def _spaced(words: Iterable[Text]) -> Text:
    """Several strings as one, with a space between."""
    out = EMPTY
    for i, word in enumerate(words):
        parts = (*out.parts, Literal(" ", None), *word.parts) if i else word.parts
        out = text_of(parts, out.because | word.because)
    return out


def _assembled(chunks: list[tuple[_Fields, bool, bool]]) -> _Fields:
    """The arguments that the pieces of one word make together."""
    out: _Fields = []
    open_field = False
    for words, before, after in chunks:
        if not words:
            open_field = open_field and not (before or after)
            continue
        if open_field and not before:
            first = out.pop()
            out.append(text_of((*first.parts, *words[0].parts), first.because | words[0].because))
            out += words[1:]
        else:
            out += words
        open_field = not after
    return out


def joined_words(words: Iterable[Text]) -> Text:
    """What `eval` reads: its arguments with a space between."""
    return _spaced(words)

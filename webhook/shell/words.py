"""Words of tree-sitter-bash as `tree.Word`: quotes and escapes taken off, expansions kept, places kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webhook.shell.tree import Arithmetic, Chars, Node, Parameter, Piece, Substitution, Word

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tree_sitter import Node as Syntax

EXPANSIONS = frozenset(
    {"simple_expansion", "expansion", "command_substitution", "process_substitution", "arithmetic_expansion"}
)
_NO_GAP = ("", "\\\n", "\\\r\n")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "'": "'", '"': '"', "e": "\x1b", "a": "\a", "b": "\b"}


class Words:
    """Reads words of one parsed text. `body` turns the commands of a substitution into a node."""

    def __init__(
        self, text: str, body: Callable[[Iterable[Syntax]], Node], arithmetic: Callable[[str], Syntax]
    ) -> None:
        self._text = text
        self._body = body
        self._parse_arithmetic = arithmetic
        self._ascii = text.isascii()
        self._offsets: list[int] = [] if self._ascii else _offsets(text)

    def at(self, byte: int) -> int:
        """The character that a byte offset of the parser stands for."""
        return byte if self._ascii else self._offsets[byte]

    def raw(self, node: Syntax) -> str:
        """The text of a node as it is written."""
        return self._text[self.at(node.start_byte) : self.at(node.end_byte)]

    def word(self, *nodes: Syntax) -> Word:
        """The word that these adjacent nodes make."""
        start, end = self.at(nodes[0].start_byte), self.at(nodes[-1].end_byte)
        if nodes[0].type == "number" and start and self._text[start - 1] == "$":  # `x$A$1`: the last `$` is lost
            name = Parameter(self._text[start], start - 1, start + 1, quoted=False)
            return Word((name, *_unescaped(self._text[start + 1 : end], start + 1, None)), start - 1, end)
        return Word(tuple(piece for node in nodes for piece in self.pieces(node, quoted=False)), start, end)

    def pieces(self, node: Syntax, *, quoted: bool) -> Iterator[Piece]:
        """What one node adds to its word."""
        kind = node.type
        if kind in EXPANSIONS:
            yield self._expansion(node, quoted=quoted)
        elif kind in ("string", "translated_string"):
            yield from self._string(node)
        elif kind == "raw_string":
            yield Chars(self.raw(node)[1:-1], self.at(node.start_byte) + 1)
        elif kind == "ansi_c_string":
            yield _ansi_c(self.raw(node), self.at(node.start_byte))
        else:
            start, end = self.at(node.start_byte), self.at(node.end_byte)
            parted = kind == "concatenation" and self._text[end - 1] == "$" and self._text[end : end + 1].isdigit()
            yield from self._between(node, start, end - parted, quoted=quoted, escapes=None)

    def _string(self, node: Syntax) -> Iterator[Piece]:
        r"""Double quotes: only `\$`, `\``, `\"`, `\\` and line ends are escapes."""
        start = self.at(node.start_byte) + self.raw(node).index('"') + 1
        end = self.at(node.end_byte)
        if not (node.children and node.children[-1].is_missing):
            end -= 1
        if start >= end:
            yield Chars("", start)  # an empty argument is an argument
        yield from self._between(node, start, end, quoted=True, escapes='$`"\\\n')

    def several(self, nodes: Iterable[Syntax]) -> list[Word]:
        """The words of a list. Nodes with nothing, or only an escaped line end, between them are one word."""
        words: list[Word] = []
        for node in nodes:
            self.add(words, self.word(node))
        return words

    def add(self, words: list[Word], found: Word) -> None:
        """Add a word to a list, or to its last word where nothing parts the two."""
        if words and self._text[words[-1].end : found.start] in _NO_GAP:
            words[-1] = Word((*words[-1].pieces, *found.pieces), words[-1].start, found.end)
        else:
            words.append(found)

    def verbatim(self, node: Syntax) -> Word:
        """A node's text as it stands: the body of a here-document whose end word is quoted."""
        start = self.at(node.start_byte)
        return Word((Chars(self.raw(node), start),), start, self.at(node.end_byte))

    def heredoc(self, node: Syntax) -> Word:
        """The body of a here-document whose end word isn't quoted."""
        start, end = self.at(node.start_byte), self.at(node.end_byte)
        return Word(tuple(self._between(node, start, end, quoted=True, escapes="$`\\\n")), start, end)

    def _between(self, node: Syntax, start: int, end: int, *, quoted: bool, escapes: str | None) -> Iterator[Piece]:
        """The expansions and quoted strings inside a node, and the literal text around them."""
        at = start
        for child in node.children:
            nested = child.type in EXPANSIONS or (
                not quoted and child.is_named and child.type not in ("word", "number")
            )
            if not nested or child.is_missing:
                continue
            begin = self.at(child.start_byte)
            stop = begin - (child.type == "string" and self._text[at:begin].endswith("$"))  # `$"..."`
            if stop > at:
                yield from _unescaped(self._text[at:stop], at, escapes)
            if not child.is_error:
                yield from self.pieces(child, quoted=quoted)
            at = max(at, self.at(child.end_byte))
        if at < end:
            yield from _unescaped(self._text[at:end], at, escapes)

    def _expansion(self, node: Syntax, *, quoted: bool) -> Piece:
        if node.type == "arithmetic_expansion":
            return self.arithmetic(node, quoted=quoted)
        if node.type == "process_substitution":
            return Substitution(self._body(node.children[1:-1]), quoted=True)
        if node.type == "command_substitution":
            text = self.raw(node)
            if text.startswith("$((") and text.endswith("))"):  # how here-documents show `$((...))`
                return self._reread(text, quoted=quoted)
            return Substitution(self._body(node.children[1:-1]), quoted=quoted)
        return self._parameter(node, quoted=quoted)

    def _reread(self, text: str, *, quoted: bool) -> Piece:
        """Arithmetic that the grammar took for a command, parsed by itself; its places are lost, and not needed."""
        reader = Words(text, self._body, self._parse_arithmetic)
        mark = self._parse_arithmetic(text).descendant_for_byte_range(0, len("$(("))
        node = mark.parent if mark is not None else None
        found = node is not None and node.type == "arithmetic_expansion"
        return reader.arithmetic(node, quoted=quoted) if node is not None and found else Arithmetic((), (), quoted)

    def arithmetic(self, node: Syntax, *, quoted: bool) -> Arithmetic:
        """The names that an arithmetic expression reads."""
        names: list[str] = []
        inside: list[Piece] = []
        queue = list(node.children)
        while queue:
            child = queue.pop()
            if child.type in EXPANSIONS:
                inside.append(self._expansion(child, quoted=True))
            elif child.type in ("variable_name", "word") and (name := self.raw(child)).isidentifier():
                names.append(name)
            else:
                queue.extend(child.children)
        return Arithmetic(tuple(names), tuple(inside), quoted)

    def _parameter(self, node: Syntax, *, quoted: bool) -> Parameter:
        name, index, prefix, op = "", None, "", ""
        operands: list[Syntax] = []
        for child in node.children:
            if child.type in ("${", "$", "}") and not (child.type == "$" and op):
                continue
            if not name and child.type in ("variable_name", "special_variable_name"):
                name = self.raw(child)
            elif not name and child.type == "subscript":
                name, index = self.subscript(child)
            elif not name:
                prefix += self.raw(child)
            elif not op and not child.is_named:
                op = self.raw(child)
            else:
                operands.append(child)
        operand = self.word(*operands) if operands else None
        if not name and prefix:  # `$#`, `${!}`: the parser may see only an operator
            name, prefix = prefix, ""
        return Parameter(name, self.at(node.start_byte), self.at(node.end_byte), quoted, index, op, operand, prefix)

    def subscript(self, node: Syntax) -> tuple[str, str]:
        """Name and index of `NAME[index]`."""
        name = node.child_by_field_name("name")
        index = node.child_by_field_name("index")
        return (self.raw(name) if name else "", self.raw(index) if index else "")


def _unescaped(text: str, start: int, escapes: str | None) -> Iterator[Chars]:
    """Literal text without its backslashes. `escapes`: what a backslash escapes here; None for everything (no
    quotes).
    """
    at = 0
    while (slash := text.find("\\", at)) >= 0 and slash + 1 < len(text):
        following = text[slash + 1]
        if escapes is not None and following not in escapes:
            cut = slash + 2
            yield Chars(text[at:cut], start + at)
            at = cut
            continue
        if slash > at:
            yield Chars(text[at:slash], start + at)
        if following == "\n":
            at = slash + 2
        else:
            yield Chars(following, start + slash + 1)
            at = slash + 2
    if at < len(text):
        yield Chars(text[at:], start + at)


def _ansi_c(raw: str, start: int) -> Chars:
    body = raw[2:-1]
    if "\\" not in body:
        return Chars(body, start + 2)
    out, at = [], 0
    while at < len(body):
        if body[at] == "\\" and at + 1 < len(body):
            out.append(_ESCAPES.get(body[at + 1], body[at : at + 2]))
            at += 2
        else:
            out.append(body[at])
            at += 1
    return Chars("".join(out), None)


def _offsets(text: str) -> list[int]:
    """For each byte of the UTF-8 form, and its end, the character it belongs to."""
    out: list[int] = []
    for i, char in enumerate(text):
        out += [i] * len(char.encode("utf-8", "surrogatepass"))
    out.append(len(text))
    return out

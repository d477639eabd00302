"""A shell text as a tree of what runs: the part of bash's grammar that decides what starts, and with which words.

Offsets are characters of the `Source` that was parsed.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Chars:
    """Literal characters of a word, quotes and escapes taken off; `start` is where they stand, None if they don't as
    such.
    """

    text: str
    start: int | None


@dataclass(frozen=True, slots=True)
class Parameter:
    """`$NAME`, `${NAME...}`: `index` of an array, `op` with its `operand`, `!` for indirection and `#` for length."""

    name: str
    start: int
    end: int
    quoted: bool
    index: str | None = None
    op: str = ""
    operand: Word | None = None
    prefix: str = ""


@dataclass(frozen=True, slots=True)
class Substitution:
    """`$(...)`, backticks, `<(...)`: what its commands print."""

    body: Node
    quoted: bool


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """`$((...))`: the names it reads and the substitutions inside."""

    names: tuple[str, ...]
    inside: tuple[Piece, ...]
    quoted: bool


Piece = Chars | Parameter | Substitution | Arithmetic


@dataclass(frozen=True, slots=True)
class Word:
    """One word before expansion."""

    pieces: tuple[Piece, ...]
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Assign:
    """`NAME=value`, `NAME+=value`, `NAME=(array)`, `NAME[i]=value`."""

    name: str
    value: Word | tuple[Word, ...] | None
    append: bool = False
    indexed: bool = False


@dataclass(frozen=True, slots=True)
class Redirect:
    """A redirection: `op` with its target, or the body of a here-document or here-string."""

    op: str
    target: Word | None = None
    body: Word | None = None
    descriptor: str = ""


@dataclass(frozen=True, slots=True)
class Simple:
    """Assignments, words and redirections: one simple command."""

    assigns: tuple[Assign, ...] = ()
    words: tuple[Word, ...] = ()
    redirects: tuple[Redirect, ...] = ()


@dataclass(frozen=True, slots=True)
class Declare:
    """`export`, `declare`, `local`, `readonly`, `typeset`."""

    keyword: str
    flags: str
    items: tuple[Assign | Word, ...]
    redirects: tuple[Redirect, ...] = ()


@dataclass(frozen=True, slots=True)
class Test:
    """`[ ... ]` and `[[ ... ]]`: its words and operators in order, as `test` would get them."""

    tokens: tuple[Word | str, ...]


@dataclass(frozen=True, slots=True)
class Compute:
    """`((...))`: names read and names assigned."""

    value: Arithmetic
    assigns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Pipe:
    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class AndOr:
    left: Node
    op: str
    right: Node


@dataclass(frozen=True, slots=True)
class Not:
    item: Node


@dataclass(frozen=True, slots=True)
class Background:
    item: Node


@dataclass(frozen=True, slots=True)
class Subshell:
    body: Node


@dataclass(frozen=True, slots=True)
class Sequence:
    items: tuple[Node, ...] = ()


@dataclass(frozen=True, slots=True)
class Redirected:
    """A compound command with redirections."""

    body: Node
    redirects: tuple[Redirect, ...]


@dataclass(frozen=True, slots=True)
class If:
    arms: tuple[tuple[Node, Node], ...]
    otherwise: Node | None


@dataclass(frozen=True, slots=True)
class Loop:
    """`while` or `until`."""

    condition: Node
    body: Node
    until: bool


@dataclass(frozen=True, slots=True)
class For:
    """`for`/`select NAME in words`; `words` is None for the positional parameters, `counts` for the C form."""

    name: str
    words: tuple[Word, ...] | None
    body: Node
    counts: Arithmetic | None = None


@dataclass(frozen=True, slots=True)
class Case:
    value: Word
    arms: tuple[tuple[tuple[Word, ...], Node], ...]


@dataclass(frozen=True, slots=True)
class Function:
    name: str
    body: Node


Node = (
    Simple
    | Declare
    | Test
    | Compute
    | Pipe
    | AndOr
    | Not
    | Background
    | Subshell
    | Sequence
    | Redirected
    | If
    | Loop
    | For
    | Case
    | Function
)


@dataclass(frozen=True, slots=True)
class Script:
    """A parsed text. `broken`: the parser found an error; what stands inside it isn't in `body`."""

    body: Sequence
    broken: bool = field(default=False)

"""tree-sitter-bash, and how it may be shown a text.

Its scanner hands characters after a brace to C's `isdigit`, which looks far beyond its table for any that isn't
Latin-1: `{` and an emoji, or one of our holes, reads foreign memory and can end the process. So the parser never sees
such a character. What it sees instead takes as many bytes, so that its offsets are those of the text.
"""

from __future__ import annotations

import re

import tree_sitter_bash
from tree_sitter import Language, Parser
from tree_sitter import Node as Syntax

_BEYOND_LATIN_1 = re.compile("[^\x00-\xff]")
_SIGNS = "¡¢£¤¥¦§¨©«¬®¯°±²³´¶·¸¹»¼½¾¿"  # no letters, no blanks, nothing that a shell knows; two bytes each


def bash_parser() -> Parser:
    """A parser of bash's grammar. Parsing keeps nothing between texts."""
    return Parser(Language(tree_sitter_bash.language()))


def syntax(text: str, parser: Parser) -> Syntax:
    """The root of the syntax of any text; offsets are those of its UTF-8 bytes (lone surrogates included)."""
    shown = text if text.isascii() else _BEYOND_LATIN_1.sub(_stand_in, text)
    return parser.parse(shown.encode("utf-8", "surrogatepass")).root_node


def _stand_in(found: re.Match[str]) -> str:
    """As many bytes, of signs that mean nothing; mostly others for another character, as here-documents end by name."""
    code = ord(found[0])
    one, other = _SIGNS[code % len(_SIGNS)], _SIGNS[code // len(_SIGNS) % len(_SIGNS)]
    return one if code < 0x800 else f"{one}_" if code < 0x10000 else one + other  # noqa: PLR2004 - UTF-8's own limits

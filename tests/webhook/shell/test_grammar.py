"""What the parser is shown: nothing that makes it read foreign memory, and each offset where it was."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.launch import LaunchClass, classify
from webhook.shell.grammar import bash_parser, syntax

if TYPE_CHECKING:
    from tree_sitter import Parser, Tree


class Shown:
    """A parser that keeps what it was shown."""

    def __init__(self) -> None:
        self._parser = bash_parser()
        self.text = b""

    def parse(self, text: bytes) -> Tree:
        self.text = text
        return self._parser.parse(text)


@given(st.text(st.sampled_from("ab1{}. $'\"<\n\xe9\xff\u0100\u07ff\u0800\uffff\ud800\U0001f600\U000f0000\U0010ffff")))
def test_the_parser_sees_latin_1_in_the_same_places(text: str) -> None:
    """No character beyond Latin-1 but lone surrogates, which are no characters to it; every byte offset as it was."""
    shown = Shown()
    root = syntax(text, cast("Parser", shown))
    data = text.encode("utf-8", "surrogatepass")
    assert len(shown.text) == len(data)
    seen = shown.text.decode("utf-8", "surrogatepass")
    assert all(ord(character) <= 0xFF or character == "\ud800" for character in seen)
    assert "".join(c for c in seen if c.isascii() and c != "_") == "".join(c for c in text if c.isascii())
    assert root.end_byte <= len(data)


@pytest.mark.parametrize("character", ["\u0100", "\u4e00", "\U0001f600", "\U0010ffff", "$(RANK)"])
@pytest.mark.parametrize("text", ["python t.py {%s}", "python t.py {1..2%s}", "{%s", "cat <<%s\nx\n%s\npython t.py"])
def test_a_brace_before_a_strange_character(text: str, character: str) -> None:
    """Such a text, which could end a process, is judged like any other."""
    container = {
        "command": ["bash", "-c", text.replace("%s", character)],
        "env": [{"name": "RANK", "value": "1"}],
    }
    assert isinstance(classify(container).cls, LaunchClass)

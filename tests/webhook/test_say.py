"""Sentences for people: one line, bounded, and nothing that the API server would drop."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook import say

ANY_TEXT = st.text(st.characters(), max_size=400)


@given(st.lists(ANY_TEXT, max_size=6))
def test_warnings_are_three_lines_at_most(texts: list[str]) -> None:
    """Whatever goes in: at most three, each one line of 1 to 200 characters that UTF-8 can write."""
    warnings = say.warnings(texts)
    assert len(warnings) <= 3
    for warning in warnings:
        assert 0 < len(warning) <= 200
        assert len(warning.splitlines()) == 1
        assert warning.isprintable()
        warning.encode("utf-8")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("plain", "plain"),
        ("two\nlines\t", "two lines"),
        ("a\x00b\x85c\ud800", "a b c?"),
        ("é😀\u200b", "é😀?"),
        ("", ""),
        ("\n", ""),
        ("x" * 201, "x" * 199 + "…"),
    ],
)
def test_a_line_is_one_line(text: str, line: str) -> None:
    """Control characters become spaces, what can't be printed a question mark, and the rest stays."""
    assert say.line(text) == line


def test_equal_warnings_are_said_once() -> None:
    """The order stays, and repetitions and empty ones go."""
    assert say.warnings(["a", "", "b", "a"]) == ("a", "b")


@pytest.mark.parametrize("name", ["pytorch", "x" * 63, "\n" * 63, "é" * 300])
def test_every_warning_fits(name: str) -> None:
    """No warning is cut, whatever the container is called."""
    sentences = [
        say.unclear_launch(name),
        say.no_rank_env(obeyable=True),
        say.no_rank_env(obeyable=False),
        say.standalone(name),
        say.deepspeed(name),
        say.literal_rank(name),
        say.gpus(name, 1000, 9999),
    ]
    assert all(len(say.line(text)) < 200 and not say.line(text).endswith("…") for text in sentences)


def test_a_denial_names_annotation_value_choices_and_job() -> None:
    """Whoever reads the Event knows what to change, and where."""
    message = say.denial(say.allowed("rankfix/mode", "proces", "auto, off"), "job")
    assert message == (
        'annotation rankfix/mode is "proces"; allowed: auto, off. Change it on the replica template of PyTorchJob job'
    )


def test_a_denial_stays_short_whatever_the_value() -> None:
    """A long or odd value is quoted in part; one that is no string by its type."""
    assert len(say.denial(say.allowed("rankfix/mode", "x" * 100_000, "auto"), "j" * 10_000)) <= 600
    assert "not a string (int)" in say.allowed("rankfix/mode", 3, "auto")
    assert "(unknown)" in say.denial("x", "")

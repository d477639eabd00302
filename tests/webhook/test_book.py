"""What is written down of answers: soon, all of it, and never at their cost."""

from __future__ import annotations

import asyncio
import io
import json
from typing import TYPE_CHECKING, Any, cast

import pytest
from msgspec.structs import replace
from prometheus_client import CollectorRegistry

from tests.support_edges import body
from webhook import book, logs, mutate
from webhook.book import Book
from webhook.metrics import Metrics
from webhook.policy import Policy

if TYPE_CHECKING:
    from collections.abc import Sequence

ANSWER = mutate.respond(body(), Policy())


class Page:
    """A book, and what is written in it."""

    def __init__(self, level: str = "debug") -> None:
        self.stream = io.StringIO()
        self.metrics = Metrics(CollectorRegistry(), version="1")
        self.book = Book(self.metrics, logs.make(self.stream, level))

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.stream.getvalue().splitlines()]

    def counted(self) -> int:
        (line,) = [
            one
            for one in self.metrics.render().decode().splitlines()
            if one.startswith("rankfix_duration_seconds_count")
        ]
        return int(float(line.split()[-1]))

    def noted(self, answers: Sequence[mutate.Answer], wait: float = 0) -> None:
        """Note these in an event loop, and let it run for a while."""

        async def run() -> None:
            for answer in answers:
                self.book.note(answer, 0.000_25)
            await asyncio.sleep(wait)

        asyncio.run(run())


def test_nothing_is_written_before_its_time() -> None:
    """Not while the answer is on its way; then one line and one count for each."""
    page = Page()
    page.noted([ANSWER] * 3)
    assert (page.lines, page.counted()) == ([], 0)
    page.book.write()
    assert (len(page.lines), page.counted()) == (3, 3)
    page.book.write()
    assert (len(page.lines), page.counted()) == (3, 3)


def test_it_is_written_by_itself() -> None:
    """A moment later, once for all that wait; and what comes after is written, too."""
    page = Page()
    page.noted([ANSWER] * 3, wait=3 * book.DELAY)
    assert len(page.lines) == 3
    page.noted([ANSWER], wait=3 * book.DELAY)
    assert (len(page.lines), page.counted()) == (4, 4)


def test_a_crowd_does_not_wait() -> None:
    """What waits has a bound: a burst is written down while it lasts."""
    page = Page()
    page.noted([ANSWER] * 1_000)
    assert 900 < len(page.lines) <= 1_000
    page.book.write()
    assert (len(page.lines), page.counted()) == (1_000, 1_000)


def test_lines_keep_their_answers_apart() -> None:
    """Each line has its own uid, in the order of the answers, and the level that it deserves."""
    page = Page()
    page.noted([replace(ANSWER, uid=f"u-{n}", patch=ANSWER.patch if n % 2 else []) for n in range(4)])
    page.book.write()
    assert sorted((line["uid"], line["level"]) for line in page.lines) == [
        ("u-0", "debug"),
        ("u-1", "info"),
        ("u-2", "debug"),
        ("u-3", "info"),
    ]
    assert {line["microseconds"] for line in page.lines} == {250}


def test_what_nobody_hears_is_not_said() -> None:
    """Below the level there is no line, and the count is right all the same."""
    page = Page("error")
    page.noted([ANSWER] * 3)
    page.book.write()
    assert (page.lines, page.counted()) == ([], 3)


@pytest.mark.parametrize("odd", [{"rules": (3, {})}, {"warnings": 3}])
def test_an_answer_that_cannot_be_written_down(odd: dict[str, Any]) -> None:
    """It is a fault of ours, told as such, and costs no other answer its line."""
    page = Page()
    page.noted([ANSWER, replace(ANSWER, uid="odd", **cast("Any", odd)), ANSWER])
    page.book.write()
    assert [(line["event"], line.get("exception")) for line in page.lines] == [
        ("bug", "TypeError"),
        ("pod", None),
        ("pod", None),
    ]
    assert page.lines[0]["uid"] == "odd"


def test_a_fault_of_ours_is_told_at_once() -> None:
    """Whoever looks into it may find the process gone a moment later."""
    page = Page()
    page.noted([replace(ANSWER, bug=ValueError("secret"))])
    assert [line["event"] for line in page.lines] == ["bug"]
    assert "secret" not in page.stream.getvalue()

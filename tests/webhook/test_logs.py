"""`webhook.logs`: JSON lines, levels, and what of an exception may be said."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import os
from typing import Any

import pytest

from tests.support_edges import CANARY
from webhook import logs


def fail() -> None:
    """Break with a secret in the text."""
    secret = CANARY
    raise ValueError(secret)


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_one_json_object_a_line() -> None:
    """Values with newlines, surrogates and control characters stay on their line."""
    stream = io.StringIO()
    logs.make(stream).info("pod", uid="a\nb\ud800\x00", rules=["C1"])
    (line,) = lines(stream)
    assert (line["event"], line["level"], line["uid"], line["rules"]) == ("pod", "info", "a\nb\ud800\x00", ["C1"])
    assert line["time"].endswith("Z")


def test_what_is_no_json_is_its_type() -> None:
    """A line isn't lost to a value that nobody thought of."""
    stream = io.StringIO()
    logs.make(stream).info("x", odd=object(), fine=1)
    (line,) = lines(stream)
    assert (line["odd"], line["fine"]) == ("object", 1)


@pytest.mark.parametrize(
    ("level", "heard"),
    [
        ("debug", ["debug", "info", "warning", "error"]),
        ("info", ["info", "warning", "error"]),
        ("warning", ["warning", "error"]),
        ("error", ["error"]),
    ],
)
def test_levels(level: str, heard: list[str]) -> None:
    """Nothing below the level asked for."""
    stream = io.StringIO()
    log = logs.make(stream, level)
    for name in ("debug", "info", "warning", "error"):
        getattr(log, name)("x")
    assert [line["level"] for line in lines(stream)] == heard


def test_two_loggers_do_not_meet() -> None:
    """No global configuration: each writes to its own stream at its own level."""
    one, two = io.StringIO(), io.StringIO()
    first, second = logs.make(one, "error"), logs.make(two, "debug")
    first.info("a")
    second.info("b")
    assert (one.getvalue(), [line["event"] for line in lines(two)]) == ("", ["b"])


def test_an_exception_is_type_and_frames() -> None:
    """Bug 47: its text may quote an env value, so it's never logged, whichever way the exception comes."""
    stream = io.StringIO()
    log = logs.make(stream)
    try:
        fail()
    except ValueError as exc:
        log.error("bug", exc_info=exc)  # noqa: TRY400 - not the standard library's logger
        log.error("bug", **logs.describe(exc))  # noqa: TRY400 - see above
    first, second = lines(stream)
    assert first["exception"] == second["exception"] == "ValueError"
    assert first["stack"][-1].endswith(" fail")
    assert "exc_info" not in first
    assert CANARY not in stream.getvalue()


class Full(io.StringIO):
    """A disk without room."""

    def write(self, text: str, /) -> int:
        del text
        raise OSError(28, "No space left on device")


@pytest.mark.parametrize("stream", [Full(), io.StringIO()])
def test_logging_never_fails(stream: io.StringIO) -> None:
    """A full disk or a closed pipe costs a line of the log, not a pod."""
    log = logs.make(stream)
    stream.close()
    log.info("pod")


def test_uvicorn_speaks_json_too() -> None:
    """While the server runs, what uvicorn and asyncio log is a line of ours, without the text of exceptions."""
    stream = io.StringIO()
    uvicorn = logging.getLogger("uvicorn.error")
    before = (uvicorn.handlers, uvicorn.propagate, uvicorn.level)
    with logs.forwarded(logs.make(stream, "debug")):
        uvicorn.info("Waiting for %s", "connections")
        uvicorn.debug("too much")
        try:
            fail()
        except ValueError:
            uvicorn.exception("Exception in ASGI application\n")
        asyncio.new_event_loop().close()
    uvicorn.info("after")
    first, second = lines(stream)
    assert list(first)[:3] == ["time", "level", "event"]
    assert (first["event"], first["logger"], first["message"]) == ("server", "uvicorn.error", "Waiting for connections")
    assert first["level"] == "debug"
    assert (second["level"], second["exception"]) == ("error", "ValueError")
    assert CANARY not in stream.getvalue()
    assert (uvicorn.handlers, uvicorn.propagate, uvicorn.level) == before


def test_a_pipe_that_nobody_empties() -> None:
    """Lines for which there is no room are lost, nobody waits; when there is room again their number is said."""
    reads, writes = os.pipe()
    with os.fdopen(reads, "rb", 0) as pipe, os.fdopen(writes, "w", encoding="utf-8") as stream:
        log = logs.make(stream)
        for number in range(5000):
            log.info("pod", number=number, filler="x" * 100)
        said = pipe.read(1 << 20)
        log.info("after")
        last, line = (json.loads(line) for line in pipe.read(1 << 20).splitlines()[-2:])
    kept = said.count(b"\n")
    assert 0 < kept < 5000
    assert (last["event"], last["lines"], line["event"]) == ("lost", 5000 - kept, "after")


def test_many_lines_at_once_into_a_pipe_that_is_almost_full() -> None:
    """A text of many lines is written as far as there is room, line by line; what can't be is counted line by line."""
    reads, writes = os.pipe()
    with os.fdopen(reads, "rb", 0) as pipe, os.fdopen(writes, "w", encoding="utf-8") as stream:
        lines_ = logs._Lines(stream)
        text = "\n".join("x" * 400 for _ in range(500))
        lines_.msg(text)
        lost = lines_.lost
        said = pipe.read(1 << 20).splitlines()
        assert set(said) == {b"x" * 400}
        assert len(said) + lost == 500
        lines_.msg("y" * 5000)
        assert pipe.read(1 << 20).splitlines()[-1] == b"y" * 5000
        assert lines_.lost == 0

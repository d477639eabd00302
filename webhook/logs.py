"""One JSON object a line, written where it is told to; nothing of a request beyond names and verdicts gets in.

An exception's message may quote the value that broke the code, so only its type and its frames are logged.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import select
import traceback
from typing import TYPE_CHECKING, Any, TextIO, cast

import structlog

from webhook import wire

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, MutableMapping

    from structlog.typing import FilteringBoundLogger

_AT_ONCE = select.PIPE_BUF - 100  # bytes; with room to say how many lines were lost
EACH = "each"  # its items are a line each, of the same event
_NAMES = ("uvicorn.error", "asyncio")  # who else speaks in this process
_LEVELS = logging.getLevelNamesMapping()


class _Lines:
    """Writes lines to a stream, and lets none be heard to fail: a full disk or a closed pipe mustn't fail a pod.

    Nor may a pipe that nobody empties hold all pods up: a line for which there is no room is lost, and when there is
    room again the number of those lines is said.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._descriptor = _descriptor(stream)
        self._room = select.poll()
        if self._descriptor is not None:
            self._room.register(self._descriptor, select.POLLOUT)
        self.lost = 0

    def msg(self, text: str) -> None:
        """Write a line, or several ones, each of them whole or not at all."""
        for piece in _pieces(text.encode("utf-8", "backslashreplace") + b"\n"):
            try:
                written = self._write(piece)
            except (OSError, ValueError):
                written = False
            self.lost = 0 if written else self.lost + piece.count(b"\n")

    def _write(self, piece: bytes) -> bool:
        if self.lost:
            piece = b'{"event": "lost", "level": "warning", "lines": %d}\n%b' % (self.lost, piece)
        if self._descriptor is None:
            self._stream.write(piece.decode())
            self._stream.flush()
            return True
        if not self._room.poll(0):
            return False
        os.write(self._descriptor, piece)
        return True

    debug = info = warning = error = critical = msg


def _pieces(text: bytes) -> Iterator[bytes]:
    """Lines, as many at once as a pipe that has room at all takes without waiting; a longer one by itself."""
    piece = b""
    for line in text.splitlines(keepends=True):
        if piece and len(piece) + len(line) > _AT_ONCE:
            yield piece
            piece = b""
        piece += line
    yield piece


def _descriptor(stream: TextIO) -> int | None:
    """The file behind a stream, None where there is none."""
    try:
        return stream.fileno()
    except (OSError, ValueError):
        return None


def make(stream: TextIO, level: str = "info") -> FilteringBoundLogger:
    """A logger of JSON lines to `stream`, deaf below `level` (debug, info, warning, error)."""
    logger = structlog.wrap_logger(
        _Lines(stream),
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level.upper()]),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
            _hide_message,
            _render,
        ],
        context_class=dict,
        cache_logger_on_first_use=True,
    )
    return cast("FilteringBoundLogger", logger)


def describe(exc: BaseException) -> dict[str, object]:
    """What may be logged of an exception: its type, and file, line and function of each frame, outermost first."""
    return {"exception": type(exc).__qualname__, "stack": frames(exc)}


def frames(exc: BaseException) -> list[str]:
    """`file:line function` of each frame that the exception went through, outermost first."""
    return [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in traceback.extract_tb(exc.__traceback__)]


def _render(_logger: object, _method: str, event: MutableMapping[str, Any]) -> str:
    head = {key: event.pop(key) for key in ("time", "level", "event")}  # first, so that people can read it too
    each = event.pop(EACH, None)
    start = _line({**head, **event})
    return start if each is None else "\n".join([f"{start[:-1]},{_line(one)[1:]}" for one in each])


def _line(event: Mapping[str, Any]) -> str:
    try:
        return wire.encode(event).decode()
    except TypeError:  # something that isn't JSON: its type will do, and the line isn't lost
        return json.dumps(event, default=lambda value: type(value).__qualname__)


def _hide_message(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    exc = event.pop("exc_info", None)
    if isinstance(exc, BaseException):
        event.update(describe(exc))
    return event


class _Forward(logging.Handler):
    """Passes the standard library's records on; their arguments are uvicorn's own words, their exceptions are not."""

    def __init__(self, log: FilteringBoundLogger) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Log the record as an event called `server`."""
        exc = record.exc_info[1] if record.exc_info else None
        detail = describe(exc) if exc else {}
        level = record.levelno if record.levelno > logging.INFO else logging.DEBUG  # uvicorn tells its story at INFO
        self._log.log(level, "server", logger=record.name, message=record.getMessage().strip(), **detail)


@contextlib.contextmanager
def forwarded(log: FilteringBoundLogger) -> Iterator[None]:
    """While it lasts, what uvicorn and asyncio log goes to `log`, and only there."""
    handler = _Forward(log)
    loggers = [logging.getLogger(name) for name in _NAMES]
    before = [(logger.handlers, logger.propagate, logger.level) for logger in loggers]
    for logger in loggers:
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        for logger, (handlers, propagate, level) in zip(loggers, before, strict=True):
            logger.handlers, logger.propagate = handlers, propagate
            logger.setLevel(level)

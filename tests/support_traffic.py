"""Calls as an API server makes them: connections kept and reused as Go's transport does, and no second try.

Go keeps idle connections, takes the one used last, drops those that are idle for 90 s, notices when the server closes
one of them, and doesn't repeat a POST whose connection breaks.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import logging
import ssl
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import uvloop

from tests.support_edges import body

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path

IDLE = 90.0  # seconds
KEPT = 25  # connections
WAIT = 10.0  # seconds that a caller waits for an answer
CALL = body()
ADDRESS = "127.0.0.1"


@dataclass
class Line:
    """A connection, and when it was used last."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    used: float = 0

    def open(self) -> bool:
        """Whether the server hasn't closed it, as far as is known."""
        return not (self.reader.at_eof() or self.writer.is_closing() or time.monotonic() - self.used > IDLE)


@dataclass
class Transport:
    """The connections of one API server to a Service: `ports` are its endpoints, to which new ones go in turn."""

    ports: list[int]
    context: ssl.SSLContext
    idle: list[Line] = field(default_factory=list)
    opened: int = 0
    _turn: Iterator[int] = field(default_factory=itertools.count)

    async def post(self, data: bytes, path: str = f"/mutate?timeout={WAIT:g}s") -> tuple[int, bytes]:
        """One call, on a connection that is idle or on a new one; raises what goes wrong, and tries nothing again."""
        line = await self._line()
        head = f"POST {path} HTTP/1.1\r\nHost: rankfix.ml.svc\r\nContent-Type: application/json\r\n"
        line.writer.write(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
        try:
            async with asyncio.timeout(WAIT):
                status, closing, answer = await _answer(line.reader)
        except BaseException:
            line.writer.transport.abort()
            raise
        line.used = time.monotonic()
        if closing or len(self.idle) >= KEPT:
            line.writer.transport.abort()
        else:
            self.idle.append(line)
        return status, answer

    async def _line(self) -> Line:
        while self.idle:
            line = self.idle.pop()
            if line.open():
                return line
            line.writer.transport.abort()
        self.opened += 1
        port = self.ports[next(self._turn) % len(self.ports)]
        pair = await asyncio.open_connection(ADDRESS, port, ssl=self.context, server_hostname="localhost")
        return Line(*pair)

    def close(self) -> None:
        """All of them."""
        for line in self.idle:
            line.writer.transport.abort()


async def _answer(reader: asyncio.StreamReader) -> tuple[int, bool, bytes]:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = int(head.partition(b"content-length:")[2].partition(b"\r")[0])
        return int(head.split(b" ", 2)[1]), b"connection: close" in head, await reader.readexactly(length)
    except asyncio.IncompleteReadError as exc:
        raise ConnectionError(f"EOF after {len(exc.partial)} bytes") from None


@dataclass
class Load:
    """Calls without a pause from several clients that share a transport, in a thread with an event loop of its own.

    `failed` counts, by what they got, calls that had no review for an answer; `slowest` is in seconds.
    """

    transport: Transport
    clients: int
    pause: float = 0
    data: bytes = CALL
    calls: int = 0
    slowest: float = 0
    failed: Counter[str] = field(default_factory=Counter)
    over: threading.Event = field(default_factory=threading.Event)

    async def run(self) -> None:
        """Until it's `over`."""
        await asyncio.gather(*(self._client() for _ in range(self.clients)))
        self.transport.close()

    async def _client(self) -> None:
        while not self.over.is_set():
            await self.call(self.data)
            if self.pause:
                await asyncio.sleep(self.pause)

    async def call(self, data: bytes, good: Callable[[int, Any], bool] | None = None) -> None:
        """One call, noted."""
        start = time.monotonic()
        try:
            status, answer = await self.transport.post(data)
            fine = (good or _changed)(status, json.loads(answer))
            said = "" if fine else f"{status} {answer[:80]!r}"
        except (OSError, TimeoutError) as exc:
            said = f"{type(exc).__name__} {exc}"
        self.calls += 1
        self.slowest = max(self.slowest, time.monotonic() - start)
        if said:
            self.failed[said] += 1

    def wait(self, calls: int, seconds: float = 60) -> None:
        """Until that many more were made."""
        goal, deadline = self.calls + calls, time.monotonic() + seconds
        while self.calls < goal:
            assert time.monotonic() < deadline, self.failed
            time.sleep(0.01)


def told(what: str, made: Load) -> None:
    """Note the figures of a test, for `make soak` to show."""
    logging.getLogger("figures").info(
        "%s: %d calls, %d connections, %d failed %s, slowest %.0f ms",
        what,
        made.calls,
        made.transport.opened,
        sum(made.failed.values()),
        dict(made.failed) or "",
        1000 * made.slowest,
    )


def _changed(status: int, answer: Any) -> bool:
    return status == 200 and "patch" in answer["response"]


@contextlib.contextmanager
def load(folder: Path, *ports: int, clients: int = 4, pause: float = 0.002, data: bytes = CALL) -> Iterator[Load]:
    """Calls to a Service with these endpoints, as long as it lasts. `load.transport.ports` may be changed meanwhile."""
    made = Load(Transport(list(ports), ssl.create_default_context(cafile=folder / "ca.crt")), clients, pause, data)
    thread = threading.Thread(target=uvloop.run, args=(made.run(),))
    thread.start()
    try:
        yield made
    finally:
        made.over.set()
        thread.join()


@contextlib.asynccontextmanager
async def transport(folder: Path, *ports: int) -> AsyncIterator[Transport]:
    """A transport for a coroutine of a test."""
    made = Transport(list(ports), ssl.create_default_context(cafile=folder / "ca.crt"))
    try:
        yield made
    finally:
        made.close()

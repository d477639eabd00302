"""Admissions that are answered as their last byte comes: without a task, a scope and the messages of ASGI.

Nearly all requests are alike: a small review by POST, from a client that keeps its connection. Handing such a request
on to an application takes longer than the answer, so uvicorn's machinery is started for the others only, and for those
of which it turns out on the way that they are others. Nearly all heads are alike, too, since little but the length is
different: one that was understood is known again by its bytes (docs/performance.md has the figures).
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from webhook.gate import JSON, PATH
from webhook.onewrite import OneWrite
from webhook.recent import Recent

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from uvicorn import Config
    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle
    from uvicorn.server import ServerState

    AtOnce = Callable[[Any, bytes, bytes], bytes | None]
    Header = tuple[bytes, bytes]

_WAITS = 64 * 1024  # bytes of a body that isn't whole yet: of more of them a `Gate` must know
_SPECIAL = frozenset({b"content-encoding", b"expect", b"upgrade"})  # headers of requests that aren't like the others
_MOST_HEADS, _MOST_BYTES = 256, 256 * 1024
_END = b"\r\n\r\n"  # of a head


@dataclass(frozen=True, slots=True)
class Quick:
    """What the connections of a server share.

    `at_once` has the answer to a body, by connection, query and body, or None where the application must be asked;
    `heads` are those that were understood, each with its query and its Content-Length.
    """

    at_once: AtOnce
    heads: Recent[bytes, tuple[bytes, int]] = field(default_factory=lambda: Recent(_MOST_HEADS, _MOST_BYTES))


@dataclass(slots=True)
class _Rest:
    """A request of `whole` bytes of which the last ones are still to come, and whose head ends before `end`."""

    query: bytes
    end: int
    whole: int
    data: bytearray

    def body(self) -> bytes:
        return bytes(memoryview(self.data)[self.end :])


class Direct(OneWrite):
    """The protocol. Without `quick` it answers nothing at once.

    Of a request that may be answered at once, uvicorn knows nothing until it's handed over: then it's told all that the
    parser has told so far. `since` is when the latest request began, by `clock`; `known` whether there was one.
    """

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        clock: Callable[[], float],
        quick: Quick | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.clock = clock
        self.since = clock()
        self.known = False
        self.in_head = False
        self._quick = quick
        self._between = True  # two requests, as far as the parser has come
        self._first = b""  # what came first of the request that is being parsed, if it began with that
        self._came = 0  # bytes since then, and with them
        self._rest: _Rest | None = None  # of a request whose head is known
        self._early: bytes | bytearray | None = None  # the body of a request that may be answered at once
        self._start: bytes | None = None  # of an answer, as long as these are the headers of all answers:
        self._start_for: list[Header] | None = None

    @property
    def pending(self) -> bool:
        """Whether a request is there that hasn't been handed over."""
        return self._early is not None or self._rest is not None

    @property
    def busy(self) -> bool:
        """Whether an answer is being made, or waits for the one before."""
        cycle: RequestResponseCycle | None = self.cycle  # uvicorn's types don't say that there may be none yet
        return cycle is not None and not cycle.response_complete

    def data_received(self, data: bytes) -> None:
        """Answer, or parse."""
        if self._rest is not None:
            self._gather(self._rest, data)
        elif not (self._between and self._is_known(data)):
            self.parse(data)

    def _is_known(self, data: bytes) -> bool:
        """Answer what is one request whose head is known, or wait for the rest of it."""
        quick, end = self._quick, data.find(_END) + len(_END)
        found = quick.heads.get(data[:end]) if quick else None
        if found is None or self.busy or self.flow.write_paused:
            return False
        query, length = found
        missing = end + length - len(data)
        if missing < 0 or (missing and length > _WAITS):
            return False
        if self.timeout_keep_alive_task is not None:
            self._unset_keepalive_if_required()  # as uvicorn does before it parses
        self.since, self.known = self.clock(), True
        if missing:
            self._rest = _Rest(query, end, end + length, bytearray(data))
            return True
        return self._answers(query, data[end:])

    def _gather(self, rest: _Rest, data: bytes) -> None:
        """More of a request whose head is known: clients write large bodies in pieces."""
        rest.data += data
        if len(rest.data) < rest.whole:
            return
        self._rest = None
        if len(rest.data) > rest.whole or self.flow.write_paused or not self._answers(rest.query, rest.body()):
            self.parse(bytes(rest.data))

    def parse(self, data: bytes) -> None:
        """Have it parsed. The parser calls the methods that follow."""
        if self._between:
            self._first, self._came = data, 0
        self._came += len(data)
        super().data_received(data)
        if self._between:  # no request has begun with it, or that is over
            self._first = b""
        if self._early and len(self._early) > _WAITS:
            self.hand_over()

    def on_message_begin(self) -> None:
        """The first byte of a request."""
        self.since = self.clock()
        self.in_head, self._between = True, False
        self.url = b""
        self.headers = []
        self.expect_100_continue = False

    def on_headers_complete(self) -> None:
        """The head is there: may this one be answered at once?"""
        self.in_head, self.known = False, True
        self._early = b""
        if not self._is_usual():
            self.hand_over()

    def _is_usual(self) -> bool:
        headers = dict(self.headers)
        parser = self.parser
        return (
            self._quick is not None
            and headers.get(b"content-type") == JSON
            and headers.keys().isdisjoint(_SPECIAL)
            and _query(self.url) is not None
            and parser.get_method() == b"POST"
            and parser.get_http_version() == "1.1"
            and parser.should_keep_alive()
            and not self.busy
            and not self.flow.write_paused
        )

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        early = self._early
        if early is None:
            super().on_body(body)
        elif not early:
            self._early = body  # most often that's all of it
        elif isinstance(early, bytearray):
            early += body
        else:
            self._early = bytearray(early + body)

    def on_message_complete(self) -> None:
        """The request is whole."""
        self._between = True
        first, self._first = self._first, b""
        if self._early is not None:
            query, body = _query(self.url), bytes(self._early)
            if query is not None and self._answers(query, body):
                self._early = None
                self._learn(first, query, body)
                return
            self.hand_over()
        super().on_message_complete()

    def _answers(self, query: bytes, body: bytes) -> bool:
        """Send the answer, if there is one at once."""
        start = self._head()
        answer = self._quick.at_once(self, query, body) if self._quick and start else None
        if start is None or answer is None:
            return False
        self.held.write_now(b"%b%d\r\n\r\n%b" % (start, len(answer), answer))
        return True

    def _head(self) -> bytes | None:
        """An answer's head up to the length; None where each answer says that it's the last one."""
        fixed = self.server_state.default_headers
        if fixed is not self._start_for:
            told = b"".join(b"%b: %b\r\n" % header for header in fixed)
            last = any(name == b"connection" for name, _ in fixed)
            self._start = None if last else b"HTTP/1.1 200 OK\r\n%bcontent-type: %b\r\ncontent-length: " % (told, JSON)
            self._start_for = fixed
        return self._start

    def _learn(self, first: bytes, query: bytes, body: bytes) -> None:
        """Remember the head of a request that came alone, its head in one piece."""
        head = first[: first.find(_END) + len(_END)]
        alone = len(head) + len(body) == self._came and head.startswith(b"POST ")
        if self._quick and alone and dict(self.headers).get(b"content-length") == b"%d" % len(body):
            self._quick.heads.keep(head, (query, len(body)), len(head))

    def hand_over(self) -> None:
        """Tell uvicorn of the request that is pending, and have the application asked."""
        rest, self._rest = self._rest, None
        if rest is not None:
            since = self.since
            self.parse(bytes(rest.data))
            self.since = since
        if self._early is None:  # since its answer has to wait
            return
        early, url, headers = self._early, self.url, self.headers
        self._early, self._first = None, b""
        super().on_message_begin()
        self.url = url
        for name, value in headers:
            super().on_header(name, value)
        super().on_headers_complete()
        if early:
            super().on_body(bytes(early))


@functools.lru_cache(64)
def _query(url: bytes) -> bytes | None:
    """The query of the address where admissions are asked for in its plain form; None where it's another address."""
    path, _, query = url.partition(b"?")
    return query if path == PATH else None

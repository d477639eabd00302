"""Admissions that are answered as their last byte comes: without a task, a scope and the messages of ASGI.

Nearly all requests are alike: a small review by POST, from a client that keeps its connection. Handing such a request
on to an application takes longer than the answer, so uvicorn's machinery is started for the others only, and for those
of which it turns out on the way that they are others (docs/performance.md has the figures).
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from webhook.gate import JSON, PATH
from webhook.onewrite import OneWrite

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from uvicorn import Config
    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle
    from uvicorn.server import ServerState

    AtOnce = Callable[[Any, bytes, bytes], bytes | None]  # connection, query and body
    Header = tuple[bytes, bytes]

_WAITS = 64 * 1024  # bytes of a body that isn't whole yet: of more of them a `Gate` must know
_SPECIAL = frozenset({b"content-encoding", b"expect", b"upgrade"})  # headers of requests that aren't like the others


class Direct(OneWrite):
    """The protocol. `at_once` has the answer to a body, or None where the application must be asked.

    Of a request that may be answered at once, uvicorn knows nothing until it's handed over: then it's told all that the
    parser has told so far.
    """

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        at_once: AtOnce | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.at_once = at_once
        self.in_head = False
        self._early: bytes | bytearray | None = None  # the body of a request that may be answered at once
        self._start: bytes | None = None  # of an answer, as long as these are the headers of all answers:
        self._start_for: list[Header] | None = None

    @property
    def pending(self) -> bool:
        """Whether a request is there that hasn't been handed over."""
        return self._early is not None

    @property
    def busy(self) -> bool:
        """Whether an answer is being made, or waits for the one before."""
        cycle: RequestResponseCycle | None = self.cycle  # uvicorn's types don't say that there may be none yet
        return cycle is not None and not cycle.response_complete

    def data_received(self, data: bytes) -> None:
        """Parse."""
        super().data_received(data)
        if self._early and len(self._early) > _WAITS:
            self.hand_over()

    def on_message_begin(self) -> None:
        """The first byte of a request. The parser calls this, and what follows."""
        self.in_head = True
        self.url = b""
        self.headers = []
        self.expect_100_continue = False

    def on_headers_complete(self) -> None:
        """The head is there: may this one be answered at once?"""
        self.in_head = False
        self._early = b""
        if not self._is_usual():
            self.hand_over()

    def _is_usual(self) -> bool:
        headers = dict(self.headers)
        parser = self.parser
        return (
            self.at_once is not None
            and headers.get(b"content-type") == JSON
            and headers.keys().isdisjoint(_SPECIAL)
            and _query(self.url) is not None
            and parser.get_method() == b"POST"
            and parser.get_http_version() == "1.1"
            and parser.should_keep_alive()
            and not self.busy
            and not self.flow.write_paused
            and self._head() is not None
        )

    def _head(self) -> bytes | None:
        """An answer's head up to the length; None where answers say more than which day it is."""
        fixed = self.server_state.default_headers
        if fixed is not self._start_for:
            told = b"".join(b"%b: %b\r\n" % header for header in fixed)
            last = any(name == b"connection" for name, _ in fixed)
            self._start = None if last else b"HTTP/1.1 200 OK\r\n%bcontent-type: %b\r\ncontent-length: " % (told, JSON)
            self._start_for = fixed
        return self._start

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
        if self._early is not None:
            answer = self._answer(bytes(self._early))
            if answer is not None:
                self._early = None
                self.held.write_now(answer)
                return
            self.hand_over()
        super().on_message_complete()

    def _answer(self, body: bytes) -> bytes | None:
        start, query = self._head(), _query(self.url)
        if start is None or query is None or self.at_once is None:
            return None
        answer = self.at_once(self, query, body)
        return None if answer is None else b"%b%d\r\n\r\n%b" % (start, len(answer), answer)

    def hand_over(self) -> None:
        """Tell uvicorn of the request that is pending, and have the application asked."""
        early, url, headers = self._early, self.url, self.headers
        self._early = None
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

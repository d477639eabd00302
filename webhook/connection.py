"""A connection that its client can't hold for ever, nor fill without end: uvicorn's protocol with limits.

uvicorn bounds idle time after an answer and nothing else: a head that comes a byte a minute, headers without end and a
connection on which nothing is ever asked would stay.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from webhook import caller
from webhook.gate import EXTENSION
from webhook.onewrite import OneWrite

if TYPE_CHECKING:
    import asyncio

    from uvicorn import Config
    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle
    from uvicorn.server import ServerState

    from webhook.room import Room

CLOSE = (b"connection", b"close")
LARGEST_HEAD = 64 * 1024  # bytes; the API server's have 500
_LEAVING = 5.0  # seconds for a client to take the last bytes
_WRITING = 30.0  # seconds for a client to take an answer: no API server waits longer for one


class Phase(Enum):
    """What a connection does."""

    IDLE = auto()
    HEAD = auto()
    REQUEST = auto()


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds for a connection without a request, a head and a body; bytes of a request, all framing included."""

    idle: float
    head: float
    body: float
    request_bytes: int


class Connection(OneWrite):
    """The protocol, a guest of a `Room`.

    A request's scope says under `extensions` when its first byte came and what names its client's certificate has.
    """

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        room: Room,
        limits: Limits,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.room, self.limits = room, limits
        self.phase, self.since, self.served = Phase.IDLE, room.clock(), 0
        self._taken = 0
        self._names: frozenset[str] | None = None
        self._leaving: float | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn has it
        """Take the client in."""
        super().connection_made(transport)
        self._names = caller.names(transport.get_extra_info("ssl_object"))
        self.room.enter(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone."""
        self.room.gone(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse, within the limits."""
        if self.phase is Phase.IDLE:
            self.phase, self.since = Phase.HEAD, self.room.clock()
            self._taken = 0
        self._taken += len(data)
        super().data_received(data)
        if self.phase is Phase.HEAD and self._taken > LARGEST_HEAD:
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "header-too-large")
        elif self._taken > self.limits.request_bytes:
            self._abort("request-too-large")

    def on_message_begin(self) -> None:
        """Tell the app what it can't see."""
        super().on_message_begin()
        self._taken = 0 if self.phase is Phase.REQUEST else self._taken
        self.scope["extensions"] = {EXTENSION: {"arrived": self.since, "names": self._names}}

    def on_headers_complete(self) -> None:
        """A head is whole."""
        super().on_headers_complete()
        self.phase = Phase.REQUEST

    def on_message_complete(self) -> None:
        """A body is whole, which may have had its answer long ago."""
        super().on_message_complete()
        if self.cycle.response_complete:
            self.phase, self.since = Phase.IDLE, self.room.clock()

    def on_response_complete(self) -> None:
        """An answer is whole; requests that came behind this one may wait for theirs, and its own body be under way."""
        super().on_response_complete()
        self.served += 1
        self.since = self.room.clock()
        if self.cycle.response_complete and not self.cycle.more_body:
            self.phase = Phase.IDLE

    def send_400_response(self, msg: str) -> None:
        """Bytes that are no HTTP."""
        self.room.ended("not-http")
        super().send_400_response(msg)

    @property
    def waits(self) -> bool:
        """Whether nothing can be done for it until its client sends more."""
        return self.phase is not Phase.REQUEST or self.cycle.more_body

    def leave(self) -> None:
        """End it at once."""
        self.transport.abort()

    def finish(self) -> None:
        """Let an answer that is being made be the last one; an idle connection stays as it is."""
        cycle: RequestResponseCycle | None = self.cycle  # uvicorn's type doesn't say that there may be none yet
        if cycle is not None and not cycle.response_complete:
            cycle.keep_alive = False
            cycle.default_headers = [*cycle.default_headers, CLOSE]  # not every uvicorn says it by itself

    def look(self, now: float) -> None:
        """End it if its time is over."""
        waited = now - self.since
        if self.transport.is_closing():
            self._leaving = self._leaving or now
            if now - self._leaving > _LEAVING:
                self.transport.abort()
        elif self.phase is Phase.HEAD and waited > self.limits.head:
            self._refuse(HTTPStatus.REQUEST_TIMEOUT, "header-timeout")
        elif self.phase is Phase.IDLE and waited > self.limits.idle:
            self.transport.close()
        elif self.phase is Phase.REQUEST and waited > self.limits.head + self.limits.body + _WRITING:
            self._abort("stuck")

    def _refuse(self, status: HTTPStatus, cause: str) -> None:
        if not self.transport.is_closing():
            self.room.ended(cause)
            self.transport.write(
                b"HTTP/1.1 %d %s\r\ncontent-length: 0\r\nconnection: close\r\n\r\n" % (status, status.phrase.encode())
            )
            self.transport.close()

    def _abort(self, cause: str) -> None:
        self.room.ended(cause)
        self.transport.abort()

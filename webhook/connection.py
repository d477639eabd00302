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
from webhook.direct import Direct
from webhook.gate import CLIENT, CLOSE

if TYPE_CHECKING:
    import asyncio

    from uvicorn import Config
    from uvicorn.server import ServerState

    from webhook.direct import Quick
    from webhook.room import Room

LARGEST_HEAD = 64 * 1024  # bytes; the API server's have 500
_LEAVING = 5.0  # seconds for a client to take the last bytes
_EARLY = 1.0  # seconds for a body until it's known to be a slow one
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


class Connection(Direct):
    """The protocol, a guest of a `Room`.

    The scope of a request has it under `state`, as the `Client` that a `Gate` looks for.
    """

    def __init__(  # noqa: PLR0913 - all it depends on is handed in
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        room: Room,
        limits: Limits,
        quick: Quick | None = None,
    ) -> None:
        super().__init__(config, server_state, {**app_state, CLIENT: self}, _loop, clock=room.clock, quick=quick)
        self.room, self.limits = room, limits
        self.names: frozenset[str] | None = None
        self._taken = 0
        self._leaving: float | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn has it
        """Take the client in."""
        super().connection_made(transport)
        self.names = caller.names(transport.get_extra_info("ssl_object"))
        self.room.enter(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone."""
        if self.pending:  # then there is somebody to count it
            self.hand_over()
        self.room.gone(self)
        self.app_state = {}  # which holds this connection
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        """A request: its bytes are counted."""
        self._taken = 0
        super().on_message_begin()

    def parse(self, data: bytes) -> None:
        """Have it parsed, within the limits."""
        super().parse(data)
        self._taken += len(data)
        if self._taken > LARGEST_HEAD:
            self._bound()

    def _bound(self) -> None:
        if self.phase is Phase.HEAD:
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "header-too-large")
        elif self._taken > self.limits.request_bytes:
            self._abort("request-too-large")

    @property
    def phase(self) -> Phase:
        """What it does."""
        if self.in_head:
            return Phase.HEAD
        return Phase.REQUEST if self.pending or self.busy else Phase.IDLE

    def send_400_response(self, msg: str) -> None:
        """Bytes that are no HTTP."""
        self.room.ended("not-http")
        super().send_400_response(msg)

    @property
    def waits(self) -> bool:
        """Whether nothing can be done for it until its client sends more."""
        return not self.busy or self.cycle.more_body

    def leave(self) -> None:
        """End it at once."""
        self.transport.abort()

    def finish(self) -> None:
        """Let an answer that is being made be the last one; an idle connection stays as it is."""
        if self.pending:
            self.hand_over()
        if self.busy:
            self.cycle.keep_alive = False
            self.cycle.default_headers = [*self.cycle.default_headers, CLOSE]  # not every uvicorn says it by itself

    def look(self, now: float) -> None:
        """End it if its time is over."""
        waited = now - self.since
        if self.transport.is_closing():
            self._leaving = self._leaving or now
            if now - self._leaving > _LEAVING:
                self.transport.abort()
        elif (phase := self.phase) is Phase.HEAD and waited > self.limits.head:
            self._refuse(HTTPStatus.REQUEST_TIMEOUT, "header-timeout")
        elif phase is Phase.IDLE and waited > self.limits.idle:
            self.transport.close()
        elif self.pending and waited > _EARLY:
            self.hand_over()
        elif phase is Phase.REQUEST and waited > self.limits.head + self.limits.body + _WRITING:
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

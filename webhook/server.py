"""uvicorn's server with an own way in and an end within a bound."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import signal
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import uvicorn

from webhook.connection import Connection, Limits
from webhook.door import Door
from webhook.gate import CLOSE

if TYPE_CHECKING:
    import socket
    import ssl
    from collections.abc import Callable, Generator, Sequence
    from types import FrameType

    from structlog.typing import FilteringBoundLogger

    from webhook.direct import Quick
    from webhook.probe import Beat
    from webhook.room import Room

_TICKS = 10  # of uvicorn's main loop, in a second


@dataclass
class Readiness:
    """Why no request should come just now (None: they should), as /readyz says it."""

    why: str | None = "starting"
    more: list[Callable[[], str | None]] = field(default_factory=list)  # further reasons, the first one counts

    def not_ready(self) -> str | None:
        return self.why or next((why for why in (ask() for ask in self.more) if why), None)


@dataclass
class Watch:
    """What is looked at beside the requests: `first` before the first of them, `beats` until the last.

    `second` is called each second in the event loop, and at the very end; where it says False, nobody wants this server
    any longer.
    """

    first: Callable[[socket.socket], None] = lambda _sock: None
    beats: list[Beat] = field(default_factory=list)
    second: Callable[[], bool] = lambda: True


class Server(uvicorn.Server):
    """Takes SIGTERM and SIGINT as a wish to end well, with code 0, and a second one as a wish to end now.

    The first socket is the one with TLS, where there is TLS; a second one, for metrics and probes, is served `aside`.
    """

    def __init__(  # noqa: PLR0913 - all it depends on is handed in
        self,
        config: uvicorn.Config,
        *,
        readiness: Readiness,
        log: FilteringBoundLogger,
        room: Room,
        limits: Limits,
        watch: Watch,
        context: ssl.SSLContext | None,
        handshake: float,
        drain: float = 0,
        pause: float = 0,
        aside: uvicorn.Config | None = None,
        quick: Quick | None = None,
    ) -> None:
        super().__init__(config)
        self._readiness = readiness
        self._log = log
        self._room = room
        self._limits = limits
        self._watch = watch
        self._context = context
        self._handshake = handshake
        self._seconds = drain
        self._pause = pause
        self._aside = aside
        self._quick = quick
        self._loop: asyncio.AbstractEventLoop | None = None
        self._impatient = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, then say so."""
        self._loop = asyncio.get_running_loop()
        await self.lifespan.startup()
        doors = self._doors(sockets or [])
        self.servers = doors  # type: ignore[assignment] # uvicorn closes what is in here, and asks no more of it
        for door in doors:
            door.open()
        self.started = True
        if sockets:
            await asyncio.to_thread(self._watch.first, sockets[0])  # so that "listening" is true when it is said
        for beat in self._watch.beats:
            beat.start()
        if not self.should_exit:
            self._readiness.why = None
        for sock, door in zip(sockets or [], doors, strict=True):
            host, port = sock.getsockname()[:2]
            self._log.info("listening", host=host, port=port, tls=door.context is not None)

    def _doors(self, sockets: Sequence[socket.socket]) -> list[Door]:
        ways = [(functools.partial(self._connection, self.config, self._quick), self._context)]
        if self._aside:
            ways.append((functools.partial(self._connection, self._aside, None), None))
        return [
            Door(sock, self._room, make, context, self._handshake, self._pause)
            for sock, (make, context) in zip(sockets, ways, strict=False)
        ]

    def _connection(self, config: uvicorn.Config, quick: Quick | None) -> Connection:
        return Connection(config, self.server_state, {}, self._loop, room=self._room, limits=self._limits, quick=quick)

    async def on_tick(self, counter: int) -> bool:
        """Each second, look after the connections."""
        if counter % _TICKS == 0:
            self._room.look()
            self.should_exit |= not self._watch.second()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Go on for a while, stop listening, finish what runs."""
        self._readiness.why = "stopping"
        self._log.info("stopping")
        for beat in self._watch.beats:
            beat.stop()
        await self._drain()
        await super().shutdown(sockets)
        self._watch.second()

    async def _drain(self) -> None:
        """Go on serving for a while, each answer with the wish to close: a client whose connection ends at its back,
        just as it sends, has lost a call. A second signal ends the wait.
        """
        self.server_state.default_headers = [*self.server_state.default_headers, CLOSE]
        for connection in list(self.server_state.connections):
            if isinstance(connection, Connection):
                connection.finish()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._seconds):
                await self._impatient.wait()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Not ready from now on; the second signal is impatient."""
        del sig, frame
        self._readiness.why = "stopping"
        if self.should_exit:
            self.force_exit = True
            if self._loop:
                self._loop.call_soon_threadsafe(self._impatient.set)
        self.should_exit = True

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Like uvicorn's, which raises the signal again at the end: then a pod that ended well would have failed."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

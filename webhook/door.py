"""The way in: takes connections from a listening socket while there is room, and sees each through its handshake.

What there is no room for, and what comes while no file descriptor is free, waits in the kernel's queue and isn't lost.
A handshake has its own time-out, and ends with the door: a peer that never says a word would hold uvicorn's own
listener for half a minute.
"""

from __future__ import annotations

import asyncio
import errno
import functools
import ssl
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from webhook.room import Room

_EXHAUSTED = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
_AGAIN_AFTER = 0.02  # seconds, when there was no room
_FAREWELL = 2.0  # seconds for a peer to answer the end of TLS


@dataclass(eq=False)
class Arrival:
    """A connection before the end of its handshake, a guest like any other."""

    since: float
    task: asyncio.Task[None] | None = None
    known: bool = False
    waits: bool = True
    begun: bool = False

    def look(self, _now: float) -> None:
        """Its time-out is the event loop's."""

    def leave(self) -> None:
        """End it at once."""
        if self.task:
            self.task.cancel()


@dataclass(eq=False)
class Door:
    """One listening socket. `context` is asked for at each handshake, None where there is no TLS."""

    sock: socket.socket
    room: Room
    make: Callable[[], asyncio.Protocol]
    context: ssl.SSLContext | None
    handshake: float  # seconds
    pause: float = 0  # seconds after each connection, in which another process that shares the socket may take the next
    _arrivals: set[Arrival] = field(default_factory=set)
    _task: asyncio.Task[None] | None = None

    def open(self) -> None:
        """Begin to accept."""
        self.sock.setblocking(False)
        self._task = asyncio.get_running_loop().create_task(self._accept())

    def close(self) -> None:
        """Accept no more."""
        for task in (self._task, *(arrival.task for arrival in self._arrivals)):
            if task:
                task.cancel()

    async def wait_closed(self) -> None:
        """Part of what uvicorn asks of a listener."""

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                taken, _ = await loop.sock_accept(self.sock)
            except OSError as exc:  # or the client has gone again
                if exc.errno in _EXHAUSTED:
                    self.room.send_away()
                await asyncio.sleep(_AGAIN_AFTER)
                continue
            while not self.room.has_room():  # noqa: ASYNC110 - what makes room is time, too: see SETTLED
                await asyncio.sleep(_AGAIN_AFTER)
            arrival = Arrival(self.room.clock())
            self._arrivals.add(arrival)
            self.room.enter(arrival)
            arrival.task = loop.create_task(self._greet(taken, arrival))
            arrival.task.add_done_callback(functools.partial(self._greeted, taken, arrival))
            if self.pause:
                await asyncio.sleep(self.pause)

    def _greeted(self, taken: socket.socket, arrival: Arrival, _task: asyncio.Task[None]) -> None:
        self._arrivals.discard(arrival)
        self.room.gone(arrival)
        if not arrival.begun:  # who closes it otherwise is the event loop
            taken.close()

    async def _greet(self, taken: socket.socket, arrival: Arrival) -> None:
        arrival.begun = True
        loop = asyncio.get_running_loop()
        limits = {"ssl_handshake_timeout": self.handshake, "ssl_shutdown_timeout": _FAREWELL} if self.context else {}
        try:
            await loop.connect_accepted_socket(self.make, taken, ssl=self.context, **limits)
        except ssl.SSLError:
            self.room.ended("tls")
        except ConnectionAbortedError:
            self.room.ended("handshake-timeout")
        except OSError:  # the client has gone
            self.room.ended("tls")

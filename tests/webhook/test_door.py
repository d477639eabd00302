"""`webhook.door`: what becomes of a connection between the kernel's queue and its protocol."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import time
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest
import uvloop

from webhook.door import Door
from webhook.room import Room

Step = Callable[[Door, tuple[str, int]], Awaitable[None]]


class Guest(asyncio.Protocol):
    """A protocol that says what came of its connection."""

    made: list[Guest]

    def __init__(self) -> None:
        self.lost = False

    def connection_made(self, transport: Any) -> None:
        self.socket = transport.get_extra_info("socket")
        self.no_delay = self.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        Guest.made.append(self)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self.lost = True


def behind(step: Step) -> list[str]:
    """Run `step` with a door that is open, without TLS; what the room counted."""
    Guest.made, ended = [], list[str]()

    async def run() -> None:
        with socket.create_server(("127.0.0.1", 0)) as sock:
            door = Door(sock, Room(8, time.monotonic, ended.append), Guest, None, 1.0)
            door.open()
            await step(door, sock.getsockname())
            door.close()
            await asyncio.sleep(0.05)

    uvloop.run(run())
    return ended


async def until(good: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not good():  # noqa: ASYNC110 - what changes has no event
            await asyncio.sleep(0.01)


def test_packets_leave_at_once() -> None:
    """TCP_NODELAY is on: without it an answer of two packets waits for 40 ms."""

    async def step(_door: Door, address: tuple[str, int]) -> None:
        with socket.create_connection(address):
            await until(lambda: bool(Guest.made))
        assert Guest.made[0].no_delay

    assert behind(step) == []


def test_an_arrival_leaves_the_room_when_it_has_come_in() -> None:
    """From then on its protocol counts, which isn't the door's business."""

    async def step(door: Door, address: tuple[str, int]) -> None:
        with socket.create_connection(address):
            await until(lambda: bool(Guest.made))
            await until(lambda: not door.room.guests)

    behind(step)


@pytest.mark.parametrize(("number", "sent_away"), [(errno.EMFILE, 1), (errno.ECONNABORTED, 0)])
def test_accepting_fails_for_a_while(number: int, sent_away: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a file descriptor one is freed; a client that has gone again is nobody's fault. Then it goes on."""
    failures = [OSError(number, "")]

    class Loop:
        """The event loop, whose first accept fails."""

        def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
            self._loop = loop

        def __getattr__(self, name: str) -> Any:
            return getattr(self._loop, name)

        async def sock_accept(self, sock: socket.socket) -> Any:
            if failures:
                raise failures.pop()
            return await self._loop.sock_accept(sock)

    class Idle:
        """A guest that can be spared."""

        since, known, waits, left = 0.0, True, True, 0

        def look(self, now: float) -> None: ...

        def leave(self) -> None:
            self.left += 1

    idle, running = Idle(), asyncio.get_running_loop

    async def step(door: Door, address: tuple[str, int]) -> None:
        door.room.enter(idle)
        with socket.create_connection(address):
            await until(lambda: bool(Guest.made))

    monkeypatch.setattr("webhook.door.asyncio.get_running_loop", lambda: cast("Any", Loop(running())))
    behind(step)
    assert idle.left == sent_away


def test_closing_ends_what_has_not_come_in() -> None:
    """Also one that was accepted in this very moment."""

    async def step(door: Door, address: tuple[str, int]) -> None:
        clients = [socket.create_connection(address) for _ in range(3)]
        await asyncio.sleep(0)
        door.close()
        await asyncio.sleep(0.05)
        assert not door.room.guests
        for client in clients:
            with contextlib.closing(client):
                client.settimeout(0.2)

    behind(step)

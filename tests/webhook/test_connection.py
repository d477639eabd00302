"""`webhook.connection`: each state that a client can leave a connection in has its time, and its end."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
import uvicorn
from uvicorn.server import ServerState

from tests.support_wire import Wire, with_a
from webhook.connection import Connection, Limits, Phase
from webhook.direct import Quick
from webhook.room import Room

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

HEAD = b"POST /mutate HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n"
LIMITS = Limits(idle=5, head=2, body=3, request_bytes=100_000)


@dataclass
class Scene:
    """A connection that was just made, its wire, and a clock that a test moves on."""

    now: float = 100.0
    wire: Wire = field(default_factory=Wire)
    ended: list[str] = field(default_factory=list)
    answers: asyncio.Event = field(default_factory=asyncio.Event)
    heard: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        async def app(_scope: Scope, receive: Receive, send: Send) -> None:
            await self.answers.wait()
            self.heard.append((await receive())["type"])
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
            await send({"type": "http.response.body", "body": b""})

        config = uvicorn.Config(app, lifespan="off", log_config=None, interface="asgi3")
        room = Room(8, lambda: self.now, self.ended.append)
        self.connection = Connection(
            config,
            ServerState(),
            {},
            asyncio.get_running_loop(),
            room=room,
            limits=LIMITS,
            quick=Quick(lambda _client, _query, _body: b"quick"),
        )
        self.connection.connection_made(self.wire)

    def after(self, seconds: float) -> list[str]:
        """Look at it so much later; how the wire was ended."""
        self.now += seconds
        self.connection.look(self.now)
        return self.wire.ends

    def gets(self, data: bytes) -> None:
        self.connection.data_received(data)

    async def answered(self) -> None:
        self.answers.set()
        async with asyncio.timeout(5):
            while not self.connection.cycle.response_complete:  # noqa: ASYNC110 - uvicorn's state has no event
                await asyncio.sleep(0)


scene = with_a(Scene)


@scene
async def test_nothing_is_asked(it: Scene) -> None:
    """A connection without a request stays as long as an idle one."""
    assert it.connection.waits
    assert it.after(4.9) == []
    assert it.after(0.2) == ["close"]


@scene
async def test_half_a_head(it: Scene) -> None:
    """The client hears why."""
    it.gets(b"POST /mut")
    assert it.connection.waits
    assert it.after(1.9) == []
    assert it.after(0.2) == ["close"]
    assert it.wire.sent.startswith(b"HTTP/1.1 408 ")
    assert it.ended == ["header-timeout"]


@scene
async def test_a_request_that_is_never_over(it: Scene) -> None:
    """Head, body and half a minute to take the answer: whoever needs longer is cut off."""
    it.gets(HEAD + b"{}")
    assert it.connection.waits
    it.gets(b"{}")
    assert not it.connection.waits
    assert it.after(34) == []
    assert it.after(2) == ["abort"]
    assert it.ended == ["stuck"]


@scene
async def test_the_time_begins_anew_with_each_request(it: Scene) -> None:
    """Idle after an answer, and a head after that has all of its time."""
    assert not it.connection.known
    it.gets(HEAD + b"{}{}")
    it.now += 4
    await it.answered()
    assert (it.connection.phase, it.connection.known) == (Phase.IDLE, True)
    it.gets(b"POST /mut")
    assert it.connection.phase is Phase.HEAD
    assert it.after(1.9) == []
    it.gets(b"ate")
    assert it.after(0.2) == ["close"]


USUAL = HEAD.replace(b"\r\n\r\n", b"\r\nContent-Type: application/json\r\n\r\n")


@scene
async def test_an_answer_at_once(it: Scene) -> None:
    """It makes a client known, and begins its idle time."""
    it.now += 4
    it.gets(USUAL + b"{}{}")
    assert it.wire.sent.endswith(b"\r\n\r\nquick")
    assert (it.connection.phase, it.connection.known, it.connection.waits) == (Phase.IDLE, True, True)
    assert it.after(4.9) == []
    assert it.after(0.2) == ["close"]


@scene
async def test_a_body_that_comes_slowly(it: Scene) -> None:
    """After a moment it's handed over to those who count and bound it."""
    it.gets(USUAL + b"{}")
    assert (it.connection.phase, it.connection.waits) == (Phase.REQUEST, True)
    assert it.after(0.9) == []
    assert it.connection.pending
    assert it.after(0.2) == []
    assert (it.connection.pending, it.connection.phase, it.connection.waits) == (False, Phase.REQUEST, True)
    it.gets(b"{}")
    await it.answered()
    assert (it.heard, it.wire.ends) == (["http.request"], [])


@scene
async def test_a_body_that_comes_slowly_behind_a_known_head(it: Scene) -> None:
    """The same, and the time that it had before counts."""
    it.gets(USUAL + b"{}{}")
    it.gets(USUAL + b"{}")
    assert it.after(0.9) == []
    assert (it.connection.pending, it.connection.phase, it.connection.waits) == (True, Phase.REQUEST, True)
    since = it.connection.since
    assert it.after(0.2) == []
    assert (it.connection.pending, it.connection.phase, it.connection.waits) == (False, Phase.REQUEST, True)
    assert it.connection.since == since
    it.gets(b"{}")
    await it.answered()
    assert (it.heard, it.wire.ends) == (["http.request"], [])


@scene
async def test_a_body_that_never_comes(it: Scene) -> None:
    """Whoever goes away in the middle of one is told of, as one who goes later is."""
    it.gets(USUAL + b"{}")
    it.connection.connection_lost(None)
    it.answers.set()
    for _ in range(5):
        await asyncio.sleep(0)
    assert it.heard == ["http.disconnect"]


@scene
async def test_the_last_answer_to_half_a_body(it: Scene) -> None:
    """It says so, too."""
    it.gets(USUAL + b"{}")
    it.connection.finish()
    it.gets(b"{}")
    await it.answered()
    await asyncio.sleep(0)
    assert b"connection: close" in it.wire.sent
    assert it.wire.ends == ["close"]


@scene
async def test_who_never_takes_the_end(it: Scene) -> None:
    """A connection that is being closed is gone soon, whether its client reads the rest or not."""
    it.wire.close()
    assert it.after(1) == ["close"]
    assert it.after(4) == ["close"]
    assert it.after(2) == ["close", "abort"]


@scene
async def test_a_request_without_end(it: Scene) -> None:
    """More bytes than any request has are no request."""
    it.gets(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
    for _ in range(120):
        it.gets(b"1;" + b"x" * 900 + b"\r\n{\r\n")
    assert it.wire.ends[0] == "abort"
    assert it.ended[0] == "request-too-large"


@scene
async def test_the_last_answer(it: Scene) -> None:
    """One that is being made says that it's the last; a connection without a request, or an idle one, is left alone."""
    it.connection.finish()
    it.gets(HEAD + b"{}{}")
    it.connection.finish()
    await it.answered()
    await asyncio.sleep(0)
    assert b"connection: close" in it.wire.sent
    it.connection.finish()
    assert it.wire.ends == ["close"]


@scene
async def test_it_leaves_the_room(it: Scene) -> None:
    """When the client has gone, and at once when it's sent away."""
    room = it.connection.room
    assert room.guests == {it.connection}
    it.connection.leave()
    assert it.wire.ends == ["abort"]
    it.connection.connection_lost(None)
    assert room.guests == set()


@pytest.mark.parametrize("data", [b"\x00\r\n\r\n", b"POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n"])
def test_what_is_no_http(data: bytes) -> None:
    """It's counted, and the connection is over."""

    async def run() -> None:
        it = Scene()
        it.gets(data)
        assert it.ended == ["not-http"]
        assert it.wire.ends == ["close"]

    asyncio.run(run())

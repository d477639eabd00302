"""`webhook.direct`: the usual request is answered at once; every other one as uvicorn would answer it."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
import uvicorn
from hypothesis import given, settings
from hypothesis import strategies as st
from uvicorn.server import ServerState

from tests.support_asgi import whole
from tests.support_wire import Wire, with_a
from webhook.direct import Direct, Quick

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.types import Receive, Scope, Send

TODAY, CLOSE = (b"date", b"today"), (b"connection", b"close")
ODD = b"?"  # a body with this one isn't answered at once


def request(
    body: bytes = b"{}",
    *,
    start: bytes = b"POST /mutate?timeout=10s HTTP/1.1",
    media: bytes = b"application/json",
    more: Sequence[bytes] = (),
    chunks: int = 0,
) -> bytes:
    """A request's bytes; `chunks` is the size of each, 0 where it isn't chunked."""
    head = [start, b"Host: a", b"Content-Type: " + media, *more]
    if not chunks:
        return b"\r\n".join([*head, b"Content-Length: %d" % len(body), b"", body])
    pieces = [body[at : at + chunks] for at in range(0, len(body), chunks)]
    framed = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
    return b"\r\n".join([*head, b"Transfer-Encoding: chunked", b"", framed + b"0\r\nTrailer: x\r\n\r\n"])


USUAL = request()
ANSWER = b"HTTP/1.1 200 OK\r\ndate: today\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"


@dataclass
class Scene:
    """A connection that was just made, and how often the application behind it was asked."""

    quick: bool = True
    wire: Wire = field(default_factory=Wire)
    asked: int = 0
    now: float = 5.0
    queries: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        async def app(_scope: Scope, receive: Receive, send: Send) -> None:
            self.asked += 1
            body = await whole(receive)
            if body is None:
                return
            headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": body})

        def at_once(_connection: Direct, query: bytes, body: bytes) -> bytes | None:
            self.queries.append(query)
            return None if ODD in body else body

        config = uvicorn.Config(app, lifespan="off", log_config=None, interface="asgi3", ws="none")
        self.state = ServerState()
        self.state.default_headers = [TODAY]
        self.connection = Direct(
            config,
            self.state,
            {},
            asyncio.get_running_loop(),
            clock=lambda: self.now,
            quick=Quick(at_once) if self.quick else None,
        )
        self.connection.connection_made(self.wire)

    def gets(self, data: bytes) -> bytes:
        """What has been sent when these have come."""
        self.connection.data_received(data)
        return self.wire.sent

    async def settled(self) -> bytes:
        """What has been sent when the application has answered, too."""
        async with asyncio.timeout(5):
            while self.connection.busy:  # noqa: ASYNC110 - uvicorn's state has no event
                await asyncio.sleep(0)
            await asyncio.sleep(0)
        return self.wire.sent


scene = with_a(Scene)


@scene
async def test_the_usual_one(it: Scene) -> None:
    """Before the call that brings its last byte is over; the next one on the same connection too."""
    assert it.gets(USUAL) == ANSWER
    assert it.gets(USUAL + USUAL) == 3 * ANSWER
    assert not it.connection.busy
    assert (it.asked, it.wire.ends, it.queries) == (0, [], 3 * [b"timeout=10s"])


@scene
async def test_a_known_head(it: Scene) -> None:
    """The parser isn't asked again, and the answer depends on the body, the query and the day as before."""
    other = request(b'"a"', start=b"POST /mutate?timeout=3s HTTP/1.1")
    it.gets(USUAL)
    it.gets(other)
    it.connection.parse = None  # type: ignore[assignment, method-assign] # it can't be called
    it.wire.sent, it.now = b"", 9.0
    it.state.default_headers = []
    assert it.gets(USUAL.replace(b"{}", b"[]")) == ANSWER.replace(b"date: today\r\n", b"").replace(b"{}", b"[]")
    assert it.gets(other).endswith(b'\r\n\r\n"a"')
    assert it.queries == [b"timeout=10s", b"timeout=3s"] * 2
    assert it.connection.since == 9.0


@scene
async def test_a_known_head_in_pieces(it: Scene) -> None:
    """Clients write a large body in pieces: its head is learned and known all the same, once its end is there."""
    end = len(USUAL) - 2
    it.gets(USUAL[:end])
    assert it.gets(USUAL[end:]) == ANSWER
    it.connection.parse = None  # type: ignore[assignment, method-assign] # it can't be called
    it.now = 9.0
    assert it.gets(USUAL[:end] + b"[") == ANSWER
    assert (it.connection.pending, it.connection.since) == (True, 9.0)
    assert it.gets(b"]") == ANSWER + ANSWER.replace(b"{}", b"[]")
    assert not it.connection.pending
    for piece in (USUAL[:end], b"{", b"}"):
        it.gets(piece)
    assert it.wire.sent.endswith(b"[]" + ANSWER)


@scene
async def test_what_begins_no_request_is_not_kept(it: Scene) -> None:
    """A client can't have the server hold empty lines for it."""
    it.gets(b"\r\n" * 50_000)
    assert it.connection._first == b""
    assert it.gets(USUAL) == ANSWER


@scene
async def test_a_known_head_makes_a_client_known(it: Scene) -> None:
    """Whoever asks what another one asked has asked, too."""
    it.gets(USUAL)
    it.connection.known = False
    it.gets(USUAL)
    assert it.connection.known


@scene
async def test_a_known_head_whose_body_does_not_come(it: Scene) -> None:
    """Handed over, it's a request like any other, as old as it is."""
    it.gets(USUAL)
    it.now = 9.0
    it.gets(USUAL[:-1])
    it.now = 10.5
    it.connection.hand_over()
    assert (it.connection.pending, it.connection.busy, it.connection.since) == (False, True, 9.0)
    it.gets(USUAL[-1:])
    assert await it.settled() == ANSWER + ANSWER
    assert it.asked == 1


@scene
async def test_a_known_head_while_nobody_reads(it: Scene) -> None:
    """The answer waits until the client takes it, whether it was asked for at once or handed over."""
    it.gets(USUAL)
    for hand_over in (False, True):
        it.wire.sent = b""
        it.gets(USUAL[:-1])
        it.connection.pause_writing()
        if hand_over:
            it.connection.hand_over()
        it.gets(USUAL[-1:])
        await asyncio.sleep(0)
        assert it.wire.sent == b""
        it.connection.resume_writing()
        assert await it.settled() == ANSWER


@pytest.mark.parametrize(
    "pieces",
    [
        [USUAL[:-1], USUAL[-1:]],
        [USUAL[:-1], USUAL[-1:] + USUAL],
        [USUAL[:-1], USUAL[-1:] + request(ODD)],
        [b"\r\n\r\n" + USUAL[:-1], USUAL[-1:], b"\r\n\r\n" + USUAL],
        [request(b"x" * 70_000), request(b"x" * 70_000)[:-1], b"x"],
        [USUAL + USUAL[:20], USUAL[20:]],
        [USUAL.replace(b"Host: a", b"Host: b")],
        [request(b"1")],
        [request(ODD * 2)],
    ],
    ids=[
        "less",
        "less, then more",
        "less, then another",
        "empty lines",
        "large",
        "more",
        "other head",
        "other length",
        "odd",
    ],
)
def test_what_only_looks_known(pieces: Sequence[bytes]) -> None:
    """It's parsed, and what comes of it is uvicorn's."""

    async def run() -> None:
        it, plain = Scene(), Scene(quick=False)
        for one, data in itertools.product((it, plain), (USUAL, *pieces, USUAL)):
            one.gets(data)
            for _ in range(9):
                await asyncio.sleep(0)
        assert it.wire.sent == plain.wire.sent
        assert it.wire.sent.startswith(ANSWER)
        assert it.wire.sent.endswith(ANSWER)

    asyncio.run(run())


@scene
async def test_a_request_within_a_body(it: Scene) -> None:
    """What looks like a request whose head is known isn't one as long as another isn't over."""
    it.gets(USUAL)
    data = request(USUAL, start=b"POST /echo HTTP/1.1")
    it.gets(data[: -len(USUAL)])
    it.gets(data[-len(USUAL) :])
    assert (await it.settled()).endswith(b"\r\n\r\n" + USUAL)


@scene
async def test_the_time_of_an_idle_connection_begins_anew(it: Scene) -> None:
    """Uvicorn's own, which began with an answer that it made, ends as with any request."""
    it.gets(USUAL)
    it.gets(request(ODD))
    await it.settled()
    assert it.connection.timeout_keep_alive_task is not None
    it.gets(USUAL)
    assert it.connection.timeout_keep_alive_task is None


@pytest.mark.parametrize("cut", range(1, len(USUAL)))
def test_in_pieces(cut: int) -> None:
    """Wherever it's cut, the last byte brings the answer."""

    async def run() -> None:
        it = Scene()
        assert it.gets(USUAL[:cut]) == b""
        assert it.connection.in_head is (cut < len(USUAL) - 2)
        assert it.connection.pending is (cut >= len(USUAL) - 2)
        assert it.gets(USUAL[cut:]) == ANSWER
        assert it.asked == 0

    asyncio.run(run())


OTHERS = {
    "get": request(start=b"GET /mutate HTTP/1.1"),
    "put": request(start=b"PUT /mutate HTTP/1.1"),
    "path": request(start=b"POST /readyz HTTP/1.1"),
    "longer path": request(start=b"POST /mutate/ HTTP/1.1"),
    "absolute": request(start=b"POST http://a/mutate HTTP/1.1"),
    "1.0": request(start=b"POST /mutate HTTP/1.0", more=[b"Connection: keep-alive"]),
    "last": request(more=[b"Connection: close"]),
    "expects": request(more=[b"Expect: 100-continue"]),
    "upgrade": request(more=[b"Connection: upgrade", b"Upgrade: h2c"]),
    "media": request(media=b"text/plain"),
    "parameter": request(media=b"application/json; charset=utf-8"),
    "gzip": request(more=[b"Content-Encoding: gzip"]),
    "odd": request(ODD),
}


@pytest.mark.parametrize("data", OTHERS.values(), ids=OTHERS)
def test_others(data: bytes) -> None:
    """The application is asked, and hears of nothing but them."""

    async def run() -> None:
        it = Scene()
        assert b"200 OK" not in it.gets(data)
        assert b"200 OK" in await it.settled()
        assert it.asked == 1

    asyncio.run(run())


@scene
async def test_much_of_a_body(it: Scene) -> None:
    """What comes in one go is answered at once; what waits for its rest only as long as it's small."""
    assert it.gets(request(b"x" * 100_000)).endswith(b"x" * 100_000)
    data = request(b"y" * 70_000)
    it.gets(data[:40_000])
    assert it.connection.pending
    it.gets(data[40_000:69_000])
    assert (it.connection.pending, it.connection.busy) == (False, True)
    it.gets(data[69_000:])
    assert (await it.settled()).endswith(b"y" * 70_000)
    assert it.asked == 1


@scene
async def test_another_day(it: Scene) -> None:
    """An answer has the headers that all answers have when it's made."""
    it.gets(USUAL)
    it.state.default_headers = [(b"date", b"tomorrow"), (b"x", b"y")]
    assert it.gets(USUAL) == ANSWER + ANSWER.replace(b"today\r\n", b"tomorrow\r\nx: y\r\n")


@pytest.mark.parametrize("cut", [0, 30, len(USUAL) - 1])
def test_the_last_day(cut: int) -> None:
    """Where each answer says that it's the last one, uvicorn sees to it that it is."""

    async def run() -> None:
        it = Scene()
        it.gets(USUAL + USUAL[:cut])
        it.state.default_headers = [TODAY, CLOSE]
        it.gets(USUAL[cut:])
        assert b"connection: close" in await it.settled()
        assert (it.asked, it.wire.ends) == (1, ["close"])

    asyncio.run(run())


@scene
async def test_who_does_not_read(it: Scene) -> None:
    """A client that takes no answers gets no further ones until it does."""
    it.connection.pause_writing()
    it.gets(USUAL)
    await asyncio.sleep(0)
    assert it.wire.sent == b""
    it.connection.resume_writing()
    assert await it.settled() == ANSWER


@scene
async def test_the_order_is_kept(it: Scene) -> None:
    """A usual request behind one that takes longer waits its turn."""
    assert it.gets(request(ODD) + USUAL) == b""
    await it.settled()
    assert (await it.settled()).endswith(b"\r\n\r\n?" + ANSWER)
    assert it.gets(USUAL).endswith(ANSWER + ANSWER)


@scene
async def test_a_request_that_breaks_off(it: Scene) -> None:
    """What is no HTTP within a body is an error, and the connection's end."""
    it.gets(request(b"abcd", chunks=2).partition(b"cd")[0][:-3])
    assert it.connection.pending
    assert b"400 Bad Request" in it.gets(b"\0")
    assert it.wire.ends == ["close"]


BODIES = st.sampled_from([b"", b"{}", ODD, b"x" * 300, b"z" * 70_000])
REQUESTS = st.one_of(
    st.builds(request, BODIES),
    st.sampled_from([USUAL, b"\r\n" + USUAL, b"\r\n\r\n" + USUAL]),
    st.builds(request, BODIES, chunks=st.sampled_from([1000, 7000]), more=st.just((b"X: y",))),
    st.sampled_from([data for name, data in OTHERS.items() if name != "upgrade"]),  # after which uvicorn reads no HTTP
)


def sent(pieces: Sequence[tuple[bytes, bool]], *, quick: bool) -> tuple[bytes, bool]:
    """All that a connection sends to these pieces, between some of which others have their turn; whether it ends."""

    async def run() -> tuple[bytes, bool]:
        it = Scene(quick=quick)
        for piece, pause in pieces:
            if not it.wire.is_closing():
                it.gets(piece)
            for _ in range(4 * pause):
                await asyncio.sleep(0)
        for _ in range(60):
            await asyncio.sleep(0)
        return it.wire.sent, it.wire.is_closing()

    return asyncio.run(run())


@settings(max_examples=300, deadline=None)
@given(st.lists(REQUESTS, max_size=4), st.data())
def test_it_answers_as_uvicorn_does(requests: list[bytes], data: st.DataObject) -> None:
    """Whatever comes, in whatever pieces: byte for byte what is sent without a way to answer at once."""
    stream = b"".join(requests)
    ends = data.draw(st.sets(st.sampled_from([*itertools.accumulate(map(len, requests)), 0])))
    cuts = sorted({*ends, *data.draw(st.lists(st.integers(0, len(stream)), max_size=4))})
    bounds = [0, *cuts, len(stream)]
    pauses = data.draw(st.lists(st.booleans(), min_size=len(bounds), max_size=len(bounds)))
    pieces = [
        (stream[start:end], pause) for start, end, pause in zip(bounds, bounds[1:], pauses, strict=False) if end > start
    ]
    assert sent(pieces, quick=True) == sent(pieces, quick=False)

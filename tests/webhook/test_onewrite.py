"""`webhook.onewrite`: what a transport that holds the first write must do besides."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from webhook.onewrite import HeldTransport


class Wire(asyncio.Transport):
    """A transport that notes what happens to it."""

    def __init__(self) -> None:
        super().__init__({"peername": "p"})
        self.seen: list[object] = []

    def write(self, data: object) -> None:
        self.seen.append(data)

    def close(self) -> None:
        self.seen.append("close")

    def abort(self) -> None:
        self.seen.append("abort")

    def is_closing(self) -> bool:
        return "close" in self.seen

    def pause_reading(self) -> None:
        self.seen.append("pause")

    def resume_reading(self) -> None:
        self.seen.append("resume")


def held() -> tuple[Wire, HeldTransport, list[Callable[[], None]]]:
    """A wire, the transport before it, and what the event loop would call at the end of the turn."""
    wire, later = Wire(), list[Callable[[], None]]()
    return wire, HeldTransport(wire, later.append), later


def test_two_writes_are_one() -> None:
    """Head and body leave together, and the turn's end has nothing to add."""
    wire, transport, later = held()
    transport.write(b"head")
    assert wire.seen == []
    transport.write(bytearray(b"body"))
    later[0]()
    assert wire.seen == [b"headbody"]


def test_one_write_leaves_at_the_end_of_the_turn() -> None:
    """An answer to HEAD, or 100 Continue, has no second part."""
    wire, transport, later = held()
    transport.write(b"head")
    later[0]()
    assert wire.seen == [b"head"]


def test_many_writes_keep_their_order() -> None:
    """Pieces of a long answer, and answers of several turns."""
    wire, transport, later = held()
    for piece in (b"1", b"2", b"3", b"4", b"5"):
        transport.write(piece)
    for call in later:
        call()
    transport.write(b"6")
    later[-1]()
    assert b"".join(part for part in wire.seen if isinstance(part, bytes)) == b"123456"


def test_what_is_whole_leaves_at_once() -> None:
    """Behind what is held."""
    wire, transport, later = held()
    transport.write_now(b"1")
    transport.write(b"2")
    transport.write_now(b"3")
    later[0]()
    assert wire.seen == [b"1", b"2", b"3"]


def test_closing_sends_what_is_held() -> None:
    """An error answer with `connection: close` is still heard."""
    wire, transport, _ = held()
    transport.write(b"bye")
    transport.close()
    assert wire.seen == [b"bye", "close"]
    assert transport.is_closing()


def test_aborting_does_not() -> None:
    """Nobody listens any more."""
    wire, transport, later = held()
    transport.write(b"bye")
    transport.abort()
    later[0]()
    assert wire.seen == ["abort"]


def test_the_rest_is_passed_on() -> None:
    """Flow control and what's known of the peer."""
    wire, transport, _ = held()
    transport.pause_reading()
    transport.resume_reading()
    assert wire.seen == ["pause", "resume"]
    assert transport.get_extra_info("peername") == "p"
    assert transport.get_extra_info("nothing", 3) == 3

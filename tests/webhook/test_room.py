"""`webhook.room`: who has to go when one more wants in, and whose time is over."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from webhook.room import Room


@dataclass(eq=False)
class Guest:
    """A connection that notes what happens to it."""

    name: str
    since: float
    known: bool = False
    waits: bool = True
    said: list[object] = field(default_factory=list)

    def look(self, now: float) -> None:
        self.said.append(now)

    def leave(self) -> None:
        self.said.append("left")


@dataclass
class Clock:
    """A clock that a test sets."""

    now: float = 100.0

    def __call__(self) -> float:
        return self.now


def room(most: int, *guests: Guest) -> tuple[Room, Clock, list[str]]:
    clock, ended = Clock(), list[str]()
    made = Room(most, clock, ended.append)
    for guest in guests:
        made.enter(guest)
    return made, clock, ended


@pytest.mark.parametrize(
    ("guests", "leaves"),
    [
        ([Guest("old", 10), Guest("new", 20)], "old"),
        ([Guest("api server", 10, known=True), Guest("stranger", 90)], "stranger"),
        ([Guest("api server", 20, known=True), Guest("other", 10, known=True)], "other"),
        ([Guest("busy", 10, waits=False), Guest("new", 98)], "new"),
        ([Guest("busy", 10, waits=False), Guest("just now", 99.5)], None),
        ([Guest("api server", 10, known=True), Guest("just now", 99.5)], None),
        ([Guest("busy", 10, waits=False), Guest("busy too", 10, waits=False)], None),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_who_has_to_go(guests: list[Guest], leaves: str | None) -> None:
    """Who waits longest, strangers first; nobody whose answer is being made, and nobody within the first second."""
    made, _, ended = room(2, *guests)
    assert not made.has_room()
    assert [guest.name for guest in guests if guest.said == ["left"]] == ([leaves] if leaves else [])
    assert ended == (["full"] if leaves else [])


def test_there_is_room_again() -> None:
    """When somebody has gone."""
    one, two = Guest("one", 1, waits=False), Guest("two", 2, waits=False)
    made, _, ended = room(2, one, two)
    assert not made.has_room()
    made.gone(one)
    made.gone(one)
    assert made.has_room()
    assert ended == []


def test_each_is_looked_at() -> None:
    """Once a second, with the time of that look."""
    guest = Guest("one", 90)
    made, clock, _ = room(2, guest)
    made.look()
    clock.now += 1
    made.look()
    assert guest.said == [100.0, 101.0]


def test_a_pause_of_ours_is_not_theirs() -> None:
    """A process that was stopped for a while doesn't say that its clients were slow."""
    guest = Guest("one", 99)
    made, clock, _ = room(2, guest)
    made.look()
    clock.now += 60
    made.look()
    assert (guest.said, guest.since) == ([100.0], 159.0)

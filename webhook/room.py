"""How many connections there are, and which of them has to go when one more wants in.

Who is let go is who waits for its client for longest: first of all one that has never asked anything, since the API
server's idle connections have, and a stranger's thousand silent ones haven't.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

SETTLED = 1.0  # seconds: nobody is let go sooner, or a crowd would push itself out
_PAUSE = 3.0  # seconds without a look: it was us who were away


class Guest(Protocol):
    """A connection: since when it is in its present state, and whether its client has asked anything before."""

    since: float

    @property
    def known(self) -> bool:
        """Whether its client has asked anything yet."""

    @property
    def waits(self) -> bool:
        """Whether nothing can be done for it until its client sends more."""

    def look(self, now: float) -> None:
        """End it if its time is over."""

    def leave(self) -> None:
        """End it at once."""


@dataclass
class Room:
    """Room for `most` connections. `ended` counts, by cause, those that the server ended before their time."""

    most: int
    clock: Callable[[], float]
    ended: Callable[[str], None]
    guests: set[Guest] = field(default_factory=set)
    _looked: float | None = None

    def enter(self, guest: Guest) -> None:
        self.guests.add(guest)

    def gone(self, guest: Guest) -> None:
        self.guests.discard(guest)

    def has_room(self) -> bool:
        """Whether one more may come in; where not, one that waits is sent away, so that there will be room soon."""
        if len(self.guests) < self.most:
            return True
        self.send_away()
        return False

    def send_away(self) -> bool:
        """Let the one go that can be spared best; False if there is none."""
        waiting = [guest for guest in self.guests if guest.waits]
        spared = min(waiting, key=lambda guest: (guest.known, guest.since), default=None)
        if spared is None or self.clock() - spared.since < SETTLED:
            return False
        self.ended("full")
        spared.leave()
        return True

    def look(self) -> None:
        """End all whose time is over. Called each second; after a pause, which was ours and not theirs, times are
        moved on instead: a process that was stopped or starved mustn't blame its clients.
        """
        now = self.clock()
        away = 0.0 if self._looked is None else now - self._looked
        self._looked = now
        for guest in list(self.guests):
            if away > _PAUSE:
                guest.since += away
            else:
                guest.look(now)

"""How much may run at once: processes that want a CPU are counted, those that only wait for each other aren't."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@dataclass(slots=True)
class Budget:
    """So many processes at once; a run that is larger than that runs when no other moves."""

    processes: int
    _moving: int = 0
    _changed: threading.Condition = field(default_factory=threading.Condition)

    @contextlib.contextmanager
    def place(self, weight: int) -> Iterator[Callable[[bool], None]]:
        """Wait for a place; what is yielded is told whether the run moves, and gives the place to others if not."""
        mine = min(weight, self.processes)
        with self._changed:
            self._changed.wait_for(lambda: self._moving + mine <= self.processes)
            self._moving += mine
        taken = [mine]

        def moving(moves: bool) -> None:
            wanted = mine if moves else 0
            if wanted != taken[0]:
                self._add(wanted - taken[0])
                taken[0] = wanted

        try:
            yield moving
        finally:
            self._add(-taken[0])

    def _add(self, more: int) -> None:
        """A run that moves again isn't stopped: there may be more than the budget for a while."""
        with self._changed:
            self._moving += more
            self._changed.notify_all()

"""A bounded memory of what was worked out of late: pure functions are asked the same thing again and again."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Hashable

K = TypeVar("K", bound="Hashable")
V = TypeVar("V")


class Recent(Generic[K, V]):
    """Values by key, at most `most` of them and `most_size` in all; the longest unused goes first."""

    def __init__(self, most: int, most_size: int) -> None:
        self._most, self._most_size = most, most_size
        self._kept: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self.size = 0
        self.hits = 0
        self.misses = 0

    def __len__(self) -> int:
        """How many there are."""
        return len(self._kept)

    def get(self, key: K) -> V | None:
        """The value that was kept under this key, if it still is."""
        found = self._kept.get(key)
        if found is None:
            self.misses += 1
            return None
        self.hits += 1
        self._kept.move_to_end(key)
        return found[0]

    def keep(self, key: K, value: V, size: int) -> None:
        """Remember it; what is more than a hundredth of all room isn't worth what it would push out."""
        if size * 100 > self._most_size:
            return
        before = self._kept.pop(key, None)
        self.size += size - (before[1] if before else 0)
        self._kept[key] = value, size
        while len(self._kept) > self._most or self.size > self._most_size:
            self.size -= self._kept.popitem(last=False)[1][1]

    def forget(self) -> None:
        """Everything."""
        self._kept.clear()
        self.size = 0

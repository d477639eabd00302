"""Texts that differ in numbers only, and these go up with a rank by equal steps: one form, to be filled in."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

_NUMBER = re.compile(rb"([0-9]+)")


class Pattern(NamedTuple):
    """`form` has a `%d` for each of `lines`: where they are (step, start), the number of rank k is step * k + start."""

    form: bytes
    lines: tuple[tuple[int, int], ...]

    def at(self, rank: int) -> bytes:
        """The text of a rank."""
        return self.form % tuple([step * rank + start for step, start in self.lines])


def learn(samples: Sequence[tuple[int, bytes]]) -> Pattern | None:
    """The pattern of the texts of three ranks or more; None where they have none."""
    (rank, text), (other_rank, other), *_ = samples
    pieces, others = _NUMBER.split(text), _NUMBER.split(other)
    form: list[bytes] = []
    lines: list[tuple[int, int]] = []
    for at, (piece, other_piece) in enumerate(zip(pieces, others, strict=False)):
        if piece == other_piece:
            form.append(piece.replace(b"%", b"%%"))
        elif at % 2:
            step = (int(other_piece) - int(piece)) // (other_rank - rank)
            form.append(b"%d")
            lines.append((step, int(piece) - step * rank))
    found = Pattern(b"".join(form), tuple(lines))
    return found if all(found.at(rank) == text for rank, text in samples) else None

"""The verdicts on a job's pods: by the rules for the first few, then by what the verdicts have in common.

`kin` says what decides on them. What is left of that for a rank from 1 on is numbers that are linear in it (contract,
section 1: RANK = k * N, with a Master of another N a constant more), the rules that fire and their order being the
same. One number can happen to be right already: RANK, where k * N + c = k. With N > 1 that is so at no k from 1 on but,
where c = 1 - N, at k = 1; with N = 1 at all of them or at none. So ranks 1, 2 and the last show whether it holds, and
what doesn't fit is left to the rules.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from webhook import kin, outcome, pattern, wire

if TYPE_CHECKING:
    from webhook.kin import Kin
    from webhook.outcome import Verdict
    from webhook.pattern import Pattern

_FEW, _WORTH = 3, 8  # to find what is common takes as long as three pods take by the rules, so others must follow


class _Common(NamedTuple):
    """A verdict of the job, its JSON around the patch, and the patch of each rank from 1 up to, and without, `end`."""

    verdict: Verdict
    before: bytes
    patch: Pattern
    after: bytes
    end: int

    def at(self, rank: int) -> Verdict:
        patch = self.patch.at(rank)
        told = b"%b%b%b" % (self.before, base64.b64encode(patch), self.after)
        return replace(self.verdict, told=told, patch=wire.decode(patch))


class Siblings:
    """The pods of one job, by the first of them."""

    def __init__(self, first: Kin) -> None:
        self._first = first
        self._asked = 0
        self._common: _Common | None = None

    def verdict(self, rank: int) -> Verdict | None:
        """The verdict on the pod of this rank; None if the job can't have it."""
        common = self._common
        if common is not None and 0 < rank < common.end:
            return common.at(rank)
        self._asked += 1
        if self._asked == _FEW:
            self._common = self._find()
        return self._by_rules(rank)

    def _by_rules(self, rank: int) -> Verdict | None:
        decision = kin.decided(self._first, rank)
        return None if decision is None else outcome.on(self._first.pod, decision)

    def _find(self) -> _Common | None:
        pods = self._first.case.facts.of
        if pods <= _WORTH:
            return None
        some = {rank: self._by_rules(rank) for rank in (1, 2, pods - 1)}
        told = [(rank, verdict, wire.encode(verdict.patch)) for rank, verdict in some.items() if verdict is not None]
        form = pattern.learn([(rank, patch) for rank, _, patch in told])
        around = {verdict.told.replace(base64.b64encode(patch), b"\0") for _, verdict, patch in told}
        if form is None or len(around) > 1:
            return None
        before, _, after = around.pop().partition(b"\0")
        return _Common(told[0][1], before, form, after, pods)

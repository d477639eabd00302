"""What is written down of each answer, in metrics and log, once the answer has left.

It waits for a moment and is done for several answers at once: that costs the fewest microseconds on the way of a pod,
and a fraction of the work, since code that has just run runs faster. A process that is killed takes the last moment's
lines with it; one that ends, or breaks, doesn't.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from webhook import logs

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from webhook.metrics import Metrics
    from webhook.mutate import Answer

DELAY = 0.02  # seconds
_MOST = 64  # answers that wait


class Book:
    """Counts answers in `metrics` and tells them to `log`."""

    def __init__(self, metrics: Metrics, log: FilteringBoundLogger) -> None:
        self._metrics = metrics
        self._log = log
        self._waiting: list[tuple[Answer, float]] = []

    def note(self, answer: Answer, seconds: float) -> None:
        """Remember an answer that took so long; called in the event loop. A fault of ours is told at once."""
        if answer.bug is not None:
            self.bug(answer.uid, answer.bug)
        self._waiting.append((answer, seconds))
        if len(self._waiting) == 1:
            asyncio.get_running_loop().call_later(DELAY, self.write)
        elif len(self._waiting) >= _MOST:
            self.write()

    def write(self) -> None:
        """Write down all that waits."""
        waiting, self._waiting = self._waiting, []
        loud: list[dict[str, object]] = []
        quiet: list[dict[str, object]] = []
        for answer, seconds in waiting:
            try:
                notable = self._count(answer, seconds)
                (loud if notable else quiet).append(_line(answer, seconds))
            except Exception as exc:  # noqa: BLE001 - what one answer can't be written down by mustn't lose the others
                self.bug(answer.uid, exc)
        if loud:
            self._log.info("pod", each=loud)
        if quiet:
            self._log.debug("pod", each=quiet)

    def bug(self, uid: str | None, exc: Exception) -> None:
        """A fault of our own, at once."""
        self._metrics.bug()
        self._log.error("bug", uid=uid, **logs.describe(exc))

    def _count(self, answer: Answer, seconds: float) -> bool:
        self._metrics.answered(
            outcome=_outcome(answer), reason=answer.reason, rules=answer.rules, classes=answer.classes, seconds=seconds
        )
        return bool(answer.patch or not answer.allowed or answer.warnings or answer.bug)


def _outcome(answer: Answer) -> str:
    return "denied" if not answer.allowed else "changed" if answer.patch else "unchanged"


def _line(answer: Answer, seconds: float) -> dict[str, object]:
    return {
        "outcome": _outcome(answer),
        "uid": answer.uid,
        "namespace": answer.namespace,
        "job": answer.job,
        "operation": answer.operation,
        "dry_run": answer.dry_run,
        "status": answer.status,
        "rules": answer.rules,
        "reason": answer.reason,
        "warnings": len(answer.warnings),
        "microseconds": round(seconds * 1e6),
    }

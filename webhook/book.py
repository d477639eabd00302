"""What is written down of each answer, in metrics and log, once the answer has left.

It waits for a moment and is done for several answers at once: that keeps it off the way of a pod, and costs a fraction
of the work, since code that has just run runs faster. A process that is killed takes the last moment's lines with it;
one that ends, or fails, doesn't.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from webhook import logs

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from webhook.metrics import Metrics
    from webhook.mutate import Answer

DELAY = 0.02  # seconds
_MOST = 32  # answers that wait


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
        elif len(self._waiting) == _MOST:
            asyncio.get_running_loop().call_soon(self.write)  # when this answer has left

    def write(self) -> None:
        """Write down all that waits."""
        waiting, self._waiting = self._waiting, []
        alike: dict[tuple[Any, ...], tuple[list[float], list[int]]] = {}
        lines: dict[bool, list[dict[str, object]]] = {True: [], False: []}
        for answer, seconds in waiting:
            try:
                line = _line(answer, seconds)
                kind = line["outcome"], answer.reason, answer.rules, answer.classes
                times, sizes = alike.setdefault(kind, ([], []))
                times.append(seconds)
                if answer.patch:
                    sizes.append(len(answer.body))
                lines[_notable(answer)].append(line)
            except Exception as exc:  # noqa: BLE001 - what one answer can't be written down by mustn't lose the others
                self.bug(answer.uid, exc)
        for (outcome, reason, rules, classes), (times, sizes) in alike.items():
            self._metrics.answered(
                outcome=outcome, reason=reason, rules=rules, classes=classes, seconds=times, patch_bytes=sizes
            )
        if lines[True]:
            self._log.info("pod", each=lines[True])
        if lines[False]:
            self._log.debug("pod", each=lines[False])

    def bug(self, uid: str | None, exc: Exception) -> None:
        """A fault of our own, at once."""
        self._metrics.bug()
        self._log.error("bug", uid=uid, **logs.describe(exc))


def _notable(answer: Answer) -> bool:
    return bool(answer.patch or not answer.allowed or answer.warnings or answer.bug)


def _line(answer: Answer, seconds: float) -> dict[str, object]:
    return {
        "outcome": "denied" if not answer.allowed else "changed" if answer.patch else "unchanged",
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

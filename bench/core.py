"""Handler time, from the body's bytes to the answer's, in this process on one core.

Each row is measured beside a no-op (decode the JSON, answer with its uid) on the same bodies in the same run, taking
turns, so that the ratio means something on a machine that is slow. The clock is the CPU time of this thread: the
handler waits for nothing, so on an idle core that is the time on the wall, and on a busy one other programs' turns
don't count. The collector runs as it does in the server.
"""

from __future__ import annotations

import gc
import os
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import orjson
from rich.table import Table

from bench.cases import Case, all_cases
from webhook.mutate import Answer, remembering, respond
from webhook.policy import Policy

if TYPE_CHECKING:
    from rich.console import Console

Handler = Callable[[bytes], object]
MOST_TIMES = 12
POLICY = Policy()


def pin() -> str:
    """Stay on one core where the system lets us; say what the machine is."""
    cores = "unpinned"
    if hasattr(os, "sched_setaffinity"):
        core = max(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {core})
        cores = f"core {core} of {os.cpu_count()}"
    return f"Python {platform.python_version()}, {platform.machine()}, {cores}"


def unpin() -> None:
    """Take any core again."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, range(os.cpu_count() or 1))


@dataclass(frozen=True, slots=True)
class Timing:
    """Microseconds of each call."""

    micros: list[float]

    @property
    def median(self) -> float:
        """Half of the calls took no longer."""
        return statistics.median(self.micros)

    @property
    def p99(self) -> float:
        """99 of 100 calls took no longer."""
        return sorted(self.micros)[min(len(self.micros) * 99 // 100, len(self.micros) - 1)]


@dataclass(frozen=True, slots=True)
class Row:
    """A case, how long the handler took for it, and how long the no-op took."""

    case: Case
    handler: Timing
    noop: Timing

    def figures(self) -> dict[str, float]:
        """In microseconds, and the body in bytes."""
        return {
            "body_bytes": len(self.case.bodies[0]),
            "calls": self.case.calls,
            "median_us": round(self.handler.median, 1),
            "p99_us": round(self.handler.p99, 1),
            "noop_median_us": round(self.noop.median, 1),
        }


def noop(body: bytes) -> bytes:
    """The least that a webhook could do."""
    review = orjson.loads(body)
    response = {"uid": review["request"]["uid"], "allowed": True}
    return orjson.dumps({"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response})


def clock(handler: Handler, body: bytes) -> float:
    """How many microseconds of CPU one call takes."""
    start = time.thread_time_ns()
    handler(body)
    return (time.thread_time_ns() - start) / 1_000


def measure(case: Case, handler: Handler) -> Row:
    """Time `handler` and the no-op in turns on the case's bodies; a tenth more calls beforehand don't count."""
    for _ in range(max(case.calls // 10, 1)):
        clock(handler, case.bodies[0])
        clock(noop, case.bodies[0])
    gc.collect()
    pairs = [(clock(handler, body), clock(noop, body)) for body in case.turns()]
    return Row(case, Timing([ours for ours, _ in pairs]), Timing([theirs for _, theirs in pairs]))


def table(rows: list[Row]) -> Table:
    """The figures for a person."""
    made = Table("pod", "body", "calls", "median", "p99", "no-op", "times no-op", title="handler time, in-process")
    for column in made.columns[1:]:
        column.justify = "right"
    for row in rows:
        made.add_row(
            row.case.name,
            f"{len(row.case.bodies[0]) / 1024:,.1f} KiB",
            f"{row.case.calls:,}",
            f"{row.handler.median:,.0f} us",
            f"{row.handler.p99:,.0f} us",
            f"{row.noop.median:,.0f} us",
            f"{row.handler.median / row.noop.median:.1f}",
        )
    return made


def growth(rows: list[Row]) -> str:
    """What ten times the env costs."""
    times = {row.case.name: row.handler.median for row in rows}
    ratio = times["10,000 env entries"] / times["1,000 env entries"]
    return f"10,000 env entries cost {ratio:.1f} times what 1,000 cost (linear enough: at most {MOST_TIMES})"


def _answered(answer: Callable[[bytes, Policy], Answer], body: bytes) -> Answer:
    return answer(body, POLICY)


def measured(calls: int, console: Console) -> dict[str, dict[str, dict[str, float]]]:
    """The figures of each way to answer, by case, small pods `calls` times each; prints them, too."""
    figures = {}
    for title, answer in (("as the server answers", remembering()), ("with nothing remembered", respond)):
        console.print(title, style="bold")
        handler = partial(_answered, answer)
        rows = [measure(case, handler) for case in all_cases(calls)]
        console.print(table(rows))
        if answer is respond:  # what is remembered costs nothing to judge
            console.print(growth(rows))
        figures[title] = {row.case.name: row.figures() for row in rows}
    return figures

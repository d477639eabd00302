"""Handler time, from the body's bytes to the answer's, in this process on one core: `make bench`.

Each row is measured beside a no-op (decode the JSON, answer with its uid) on the same bodies in the same run, taking
turns, so that the ratio means something on a machine that is slow. The clock is the CPU time of this thread: the
handler waits for nothing, so on an idle core that is the time on the wall, and on a busy one other programs' turns
don't count. The collector runs as it does in the server.
"""

from __future__ import annotations

import argparse
import gc
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import orjson
from rich.console import Console
from rich.table import Table

from bench.cases import Case, all_cases
from webhook.mutate import Answer, remembering, respond
from webhook.policy import Policy

Handler = Callable[[bytes], object]
MOST_TIMES = 12


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
    thousand, ten_thousand = (row.handler.median for row in rows[-2:])
    times = ten_thousand / thousand
    return f"10,000 env entries cost {times:.1f} times what 1,000 cost (linear enough: at most {MOST_TIMES})"


def _answered(answer: Callable[[bytes, Policy], Answer], body: bytes) -> Answer:
    return answer(body, Policy())


def pin() -> str:
    """Stay on one core where the system lets us; say what the machine is."""
    cores = "unpinned"
    if hasattr(os, "sched_setaffinity"):
        core = max(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {core})
        cores = f"core {core} of {os.cpu_count()}"
    return f"Python {platform.python_version()}, {platform.machine()}, {cores}"


def main(arguments: list[str]) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--calls", type=int, default=5_000, help="calls for each small pod (default 5000)")
    options = parser.parse_args(arguments)
    console = Console(width=110)
    console.print(pin())
    for title, answer in (("as the server answers", remembering()), ("with every command text judged anew", respond)):
        console.print(title, style="bold")
        handler = partial(_answered, answer)
        rows = [measure(case, handler) for case in all_cases(options.calls)]
        console.print(table(rows))
        console.print(growth(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

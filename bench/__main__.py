"""How fast is it, beside what it could be: `make bench`. docs/performance.md says what is measured, and how.

Everything that is compared is measured in one run, taking turns. Figures go to bench/results.json, a chart of them to
docs/performance.svg; a part that isn't measured this time keeps those that it had.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from bench import cases, chart, core, load, servers
from certs.issue import make_ca, make_leaf

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

ROOT = Path(__file__).resolve().parent.parent
RESULTS, CHART = ROOT / "bench" / "results.json", ROOT / "docs" / "performance.svg"
CONNECTIONS = (1, 4, 16, 64)
NO_WRK = "no wrk here, so no server is measured: install it (Debian: apt-get install wrk) and run again"
TITLES = {
    "same": "one pod again and again",
    "new": "each pod new, of 32 jobs",
    "env300": "one pod with 300 env entries",
}


@dataclass(frozen=True, slots=True)
class Plan:
    """What is measured, how often and how long."""

    commands: dict[str, str]
    sample: bytes
    loads: dict[str, load.Load]
    kinds: tuple[str, ...]
    connections: tuple[int, ...]
    seconds: int
    rounds: int
    soak: int


Figures = dict[str, Any]


def loaded(plan: Plan, folder: Path, console: Console) -> Figures:
    """Throughput and latency of each server under each load; the servers take turns, `rounds` times."""
    driver = load.Driver(folder)
    rounds: dict[str, dict[str, dict[str, list[Figures]]]] = {}
    ready: dict[str, list[float]] = {}
    for _ in range(plan.rounds):
        for name, command in plan.commands.items():
            with servers.running(name, command, folder, plan.sample) as server:
                ready.setdefault(name, []).append(server.ready)
                for kind in plan.kinds:
                    one = plan.loads[kind]
                    driver.run(server, one, 4, 1)
                    for connections in plan.connections:
                        run = {**driver.run(server, one, connections, plan.seconds), "rss_mib": server.rss()}
                        runs = rounds.setdefault(kind, {}).setdefault(str(connections), {}).setdefault(name, [])
                        runs.append(run)
    figures = {
        kind: {c: {n: spread(runs) for n, runs in by.items()} for c, by in of.items()} for kind, of in rounds.items()
    }
    for kind, of in figures.items():
        console.print(load_table(TITLES[kind], of))
    return {"loads": figures, "ready_s": {name: spread_of(values) for name, values in ready.items()}}


def connecting(plan: Plan, folder: Path, console: Console) -> Figures:
    """The same pod, each over a connection of its own, with a TLS handshake each."""
    driver = load.Driver(folder)
    found: dict[str, list[Figures]] = {}
    for _ in range(plan.rounds):
        for name, command in plan.commands.items():
            with servers.running(name, command, folder, plan.sample) as server:
                found.setdefault(name, []).append(driver.run(server, plan.loads["same"], 4, plan.seconds, close=True))
    figures = {"4": {name: spread(runs) for name, runs in found.items()}}
    console.print(load_table("a new connection for each pod", figures))
    return {"loads": figures}


def soaked(plan: Plan, folder: Path, console: Console) -> Figures:
    """Memory before, under load, and while it lasts: each pod new, by 16 connections."""
    driver, samples = load.Driver(folder), []
    with (
        servers.running("rankfix", plan.commands["rankfix"], folder, plan.sample) as server,
        ThreadPoolExecutor(1) as pool,
    ):
        idle, start = server.rss(), time.monotonic()
        run = pool.submit(driver.run, server, plan.loads["new"], 16, plan.soak)
        while not run.done():
            time.sleep(min(5.0, plan.soak / 10))
            samples.append((round(time.monotonic() - start), round(server.rss(), 1)))
        requests, failed = run.result()["requests"], run.result()["failed"]
    settled = next((rss for at, rss in samples if at >= plan.soak / 10), samples[-1][1])
    growth = samples[-1][1] / settled - 1
    console.print(
        f"memory: {idle:.0f} MiB idle, {settled:.0f} after {plan.soak / 10:.0f} s under load, "
        f"{samples[-1][1]:.0f} after {samples[-1][0]} s ({growth:+.1%}); {requests:,.0f} requests, {failed:.0f} failed"
    )
    return {"idle_mib": round(idle, 1), "samples": samples, "growth": growth, "requests": requests, "failed": failed}


def spread_of(values: Sequence[float]) -> Figures:
    """Median, least and greatest of some figures."""
    return {"median": round(statistics.median(values), 3), "least": min(values), "greatest": max(values)}


def spread(runs: Sequence[Figures]) -> Figures:
    """The same for each figure of some runs; failures are added up."""
    found: Figures = {key: spread_of([run[key] for run in runs]) for key in runs[0] if key != "failed"}
    return {**found, "failed": sum(run["failed"] for run in runs)}


def load_table(title: str, figures: Figures) -> Table:
    """The figures for a person."""
    made = Table("connections", "server", "requests/s", "spread", "p50", "p99", "CPU", "RSS", "failed", title=title)
    for column in made.columns[2:]:
        column.justify = "right"
    for connections, by in figures.items():
        for name, one in by.items():
            made.add_row(
                connections,
                name,
                f"{one['rps']['median']:,.0f}",
                f"{one['rps']['least']:,.0f}-{one['rps']['greatest']:,.0f}",
                f"{one['p50_ms']['median']:.2f} ms",
                f"{one['p99_ms']['median']:.2f} ms",
                f"{one['cpu_us']['median']:.0f} us",
                f"{one['rss_mib']['median']:.0f} MiB" if "rss_mib" in one else "",
                f"{one['failed']}",
            )
        made.add_section()
    return made


def certificate(folder: Path) -> None:
    """A pair for the loopback."""
    now, day = datetime.now(UTC), timedelta(days=1)
    ca = make_ca(now=now, lifetime=2 * day)
    leaf = make_leaf(ca, now=now, lifetime=day, names=["localhost"], ips=["127.0.0.1"])
    (folder / "tls.crt").write_bytes(leaf.certificate)
    (folder / "tls.key").write_bytes(leaf.key)
    (folder / "ca.crt").write_bytes(ca.certificate)


def machine() -> Figures:
    """Where and when this was measured."""
    model = "unknown"
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), model)
    return {
        "python": platform.python_version(),
        "cpu": model,
        "cores": os.cpu_count(),
        "measured": time.strftime("%Y-%m-%d"),
    }


PARTS: dict[str, Callable[[Plan, Path, Console], Figures]] = {"load": loaded, "connect": connecting, "soak": soaked}


def main(arguments: list[str]) -> int:
    """Measure, print, and write down."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--part", action="append", choices=["core", *PARTS], help="only this part (may be repeated)")
    parser.add_argument("--calls", type=int, default=5_000, help="core: calls for each small pod (default 5000)")
    parser.add_argument("--peer", action="append", default=[], help="another server: COMMAND {port} {certdir}")
    parser.add_argument("--review", type=Path, help="a recorded review to send in place of the one in the checkout")
    parser.add_argument("--only", action="append", help="only these servers, by name")
    parser.add_argument("--load", action="append", choices=list(TITLES), help="only these loads")
    parser.add_argument("--connections", type=int, action="append", help="how many (default 1, 4, 16 and 64)")
    parser.add_argument("--seconds", type=int, default=3, help="of each load (default 3)")
    parser.add_argument("--rounds", type=int, default=1, help="turns of each server (default 1)")
    parser.add_argument("--soak", type=int, default=20, help="seconds of load while memory is watched (default 20)")
    parser.add_argument("--results", type=Path, default=RESULTS, help="file with the figures")
    parser.add_argument("--chart", type=Path, default=CHART, help="file with the chart")
    options = parser.parse_args(arguments)
    console = Console(width=120)
    results: Figures = json.loads(options.results.read_text(encoding="utf-8")) if options.results.exists() else {}
    parts = options.part or ["core", *PARTS]
    if "core" in parts:
        console.print(core.pin())
        results["core"] = {"machine": machine(), **core.measured(options.calls, console)}
        core.unpin()
    if not load.can():
        console.print(NO_WRK)
        parts = []
    with tempfile.TemporaryDirectory(prefix="rankfix-bench-") as name:
        folder = Path(name)
        certificate(folder)
        plan = _plan(options)
        for part, measure in PARTS.items():
            if part in parts:
                figures = {"machine": machine(), "seconds": plan.seconds, **measure(plan, folder, console)}
                if part == "load":  # loads that weren't asked for keep their figures
                    figures["loads"] = {**results.get(part, {}).get("loads", {}), **figures["loads"]}
                results[part] = figures
    options.results.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    if "load" in results:
        options.chart.write_text(chart.svg(results["load"]["loads"], TITLES), encoding="utf-8")
    return 0


def _plan(options: argparse.Namespace) -> Plan:
    body = options.review.read_bytes() if options.review else cases.body(cases.recorded(cases.SHELL_FORM))
    loads = {
        "same": load.same("same", body),
        "new": load.new_pods("new", cases.SHELL_FORM),
        "env300": load.same("env300", cases.with_env(300)),
    }
    commands = servers.commands(options.peer)
    return Plan(
        {name: command for name, command in commands.items() if not options.only or name in options.only},
        body,
        loads,
        tuple(options.load or loads),
        tuple(options.connections or CONNECTIONS),
        options.seconds,
        options.rounds,
        options.soak,
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""The figures of docs/performance.md, from bench/results.json: `python -m bench.page`, which `make docs` runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

ROOT = Path(__file__).resolve().parent.parent
PAGE, RESULTS = ROOT / "docs" / "performance.md", ROOT / "bench" / "results.json"
BEGIN, END = "<!-- figures -->\n", "<!-- end of figures -->"
NAMES = {"rankfix": "**rankfix**", "leango": "lean Go", "gopeer": "controller-runtime"}
LOADS = {
    "same": "One pod again and again (7.5 KB)",
    "new": "Each pod new, of 32 jobs (5.2 KB)",
    "env300": "One pod with 300 env entries",
}
Figures = dict[str, Any]


def page(text: str, results: Figures) -> str:
    """The page with these figures between its two marks."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    figures = "\n".join(_figures(results))
    return f"{before}{BEGIN}\n{figures}\n\n{END}{after}"


def _figures(results: Figures) -> Iterator[str]:
    machine = results["load"]["machine"]
    yield (
        f"Python {machine['python']}, {machine['cpu']}, {machine['cores']} cores (virtual), {machine['measured']}. "
        "*Lean Go* is net/http and encoding/json into six fields, *controller-runtime* a webhook as one writes it with "
        "that library; both do a part of the same job."
    )
    for key, title in LOADS.items():
        yield f"\n**{title}**\n"
        columns = ("connections", "server", "requests/s", "spread", "p50 ms", "p99 ms", "CPU µs", "RSS MiB")
        yield from _table(columns, _loads(results["load"]["loads"].get(key, {})))
    yield "\n**A new connection, with its handshake, for each pod**\n"
    yield from _table(("server", "requests/s", "p50 ms", "CPU µs"), _connects(results["connect"]["loads"]))
    yield "\n**The handler alone**, µs: as the server answers, with nothing remembered, and a no-op that decodes\n"
    yield from _table(("pod", "body KiB", "server", "nothing remembered", "no-op"), _handler(results["core"]))
    soak, ready = results["soak"], results["load"]["ready_s"]["rankfix"]["median"]
    seconds, loaded = soak["samples"][-1]
    yield (
        f"\nFrom its start to the first answer the server takes {ready:.2f} s. It holds {soak['idle_mib']:.0f} MiB "
        f"when idle and {loaded:.0f} under load; in a soak of {seconds} s and {soak['requests']:,.0f} requests, "
        f"{soak['failed']:.0f} of which failed, memory grew by {soak['growth']:.1%}."
    )


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(columns)} |"
    yield "|" + "---|" * len(columns)
    for row in rows:
        yield f"| {' | '.join(row)} |"


def _loads(loads: Figures) -> Iterator[Sequence[str]]:
    for connections, servers in loads.items():
        for name, of in servers.items():
            rate = of["rps"]
            spread = f"{rate['least']:,.0f}-{rate['greatest']:,.0f}"
            times = (f"{of['p50_ms']['median']:.2f}", f"{of['p99_ms']['median']:.2f}", f"{of['cpu_us']['median']:.0f}")
            rss = f"{of['rss_mib']['median']:.0f}"
            yield connections, NAMES.get(name, name), f"{rate['median']:,.0f}", spread, *times, rss


def _connects(loads: Figures) -> Iterator[Sequence[str]]:
    for servers in loads.values():
        for name, of in servers.items():
            medians = (f"{of['rps']['median']:,.0f}", f"{of['p50_ms']['median']:.2f}", f"{of['cpu_us']['median']:.0f}")
            yield NAMES.get(name, name), *medians


def _handler(core: Figures) -> Iterator[Sequence[str]]:
    served, plain = core["as the server answers"], core["with nothing remembered"]
    for name, of in served.items():
        medians = (of["median_us"], plain[name]["median_us"], plain[name]["noop_median_us"])
        yield name, f"{of['body_bytes'] / 1024:,.1f}", *(f"{median:,.0f}" for median in medians)


if __name__ == "__main__":
    PAGE.write_text(
        page(PAGE.read_text(encoding="utf-8"), json.loads(RESULTS.read_text(encoding="utf-8"))), encoding="utf-8"
    )

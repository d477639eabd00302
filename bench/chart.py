"""A chart of throughput, as SVG that reads well on light and dark pages."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

WIDTH, LEFT, RIGHT, ROW, GAP = 820, 150, 110, 22, 44
_COLOURS = {"rankfix": "#2f7ed8"}
_OTHER, _TEXT = "#9aa5b1", "#6b7785"


def svg(loads: Mapping[str, Any], titles: Mapping[str, str], connections: str = "16") -> str:
    """Bars of requests per second with `connections` connections, a group for each load; whiskers are the spread."""
    groups = {kind: of[connections] for kind, of in loads.items() if connections in of}
    most = max((one["rps"]["greatest"] for by in groups.values() for one in by.values()), default=1)
    lines: list[str] = []
    top = 30
    for kind, by in groups.items():
        lines.append(_text(LEFT, top, titles[kind], "start", bold=True))
        for name, one in by.items():
            top += ROW
            lines += _bar(top, name, one["rps"], (WIDTH - LEFT - RIGHT) / most)
        top += GAP
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top}" font-family="sans-serif" font-size="13">'
    )
    title = f"requests per second on one core, TLS, {connections} connections"
    return "\n".join([head, f"<title>{title}</title>", *lines, _text(LEFT, top - 8, title, "start"), "</svg>", ""])


def _bar(top: int, name: str, rps: Mapping[str, float], scale: float) -> Iterator[str]:
    low, middle, high = (LEFT + rps[key] * scale for key in ("least", "median", "greatest"))
    y = top - ROW / 2
    yield _text(LEFT - 8, top - 1, name, "end")
    size, colour = f'width="{middle - LEFT:.1f}" height="15"', _COLOURS.get(name, _OTHER)
    yield f'<rect x="{LEFT}" y="{y - 4:.0f}" {size} fill="{colour}"/>'
    yield f'<path d="M{low:.1f} {y + 3.5:.1f}H{high:.1f}" stroke="{_TEXT}" stroke-width="2"/>'
    yield _text(high + 6, top - 1, f"{rps['median']:,.0f}", "start")


def _text(x: float, y: float, text: str, anchor: str, *, bold: bool = False) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x:.0f}" y="{y:.0f}" fill="{_TEXT}" text-anchor="{anchor}"{weight}>{escape(text)}</text>'

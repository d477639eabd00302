"""The chart of docs/conformance.md: a bar an arm. Plain SVG, legible on light and on dark ground. Pure functions."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from conformance.figures import Bar

_LABELS, _WIDTH, _HEIGHT, _GAP, _TOP = 200, 600, 30, 12, 46
_NARROWEST = 22  # a part that is narrower has no room for its number
_PARTS = (
    ("right", "right", "#1a7f37"),
    ("hang", "waits for ever", "#9a6700"),
    ("crash", "ends with an error", "#cf222e"),
    ("silent", "wrong, without a word", "#8250df"),
)
_STYLE = """\
text { font: 14px system-ui, sans-serif; fill: #1f2328 }
.number { fill: #fff; text-anchor: middle; font-weight: 600 }
.arm { text-anchor: end }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .number { fill: #fff } }"""


def svg(bars: Sequence[Bar]) -> str:
    """The chart."""
    height = _TOP + len(bars) * (_HEIGHT + _GAP)
    width = _LABELS + _WIDTH + 10
    told = "; ".join(f"{bar.name}: right in {bar.right} of {bar.total}" for bar in bars)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img">',
        f"<title>{escape(told)}</title>",
        f"<style>{_STYLE}</style>",
        *_legend(),
        *(line for index, bar in enumerate(bars) for line in _bar(bar, _TOP + index * (_HEIGHT + _GAP))),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _legend() -> Iterator[str]:
    at = _LABELS
    for _, name, colour in _PARTS:
        yield f'<rect x="{at}" y="12" width="14" height="14" rx="3" fill="{colour}"/>'
        yield f'<text x="{at + 20}" y="24">{name}</text>'
        at += 36 + 8 * len(name)


def _bar(bar: Bar, top: int) -> Iterator[str]:
    yield f'<text class="arm" x="{_LABELS - 10}" y="{top + 20}">{escape(bar.name)}</text>'
    at = float(_LABELS)
    for key, _, colour in _PARTS:
        count: int = getattr(bar, key)
        wide = _WIDTH * count / max(bar.total, 1)
        if not count:
            continue
        yield f'<rect x="{at:.1f}" y="{top}" width="{wide:.1f}" height="{_HEIGHT}" fill="{colour}"/>'
        if wide >= _NARROWEST:
            yield f'<text class="number" x="{at + wide / 2:.1f}" y="{top + 20}">{count}</text>'
        at += wide

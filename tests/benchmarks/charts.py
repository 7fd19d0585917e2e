"""Charts: the allocation of resources as pods come, as an SVG."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from xml.sax.saxutils import escape

_WIDTH, _HEIGHT = 260, 180
_LEFT, _TOP, _GAP, _FOOT = 44, 44, 48, 54
# A panel has not many more pixels than this.
_POINTS = 200
# Colours of Okabe and Ito for colour-blind readers, and dashes for print.
_LINES = (
    ("#0072b2", ""),
    ("#d55e00", ' stroke-dasharray="6 3"'),
    ("#009e73", ' stroke-dasharray="2 2"'),
    ("#cc79a7", ' stroke-dasharray="9 3"'),
    ("#e69f00", ' stroke-dasharray="6 2 2 2"'),
    ("#56b4e9", ' stroke-dasharray="3 3"'),
)


def line_chart(
    names: Sequence[str], lines: Mapping[str, Sequence[Sequence[float]]], end: str
) -> str:
    """A panel per resource, with a line of parts for each of at most six names.

    `end` labels the right end of the horizontal axis, which begins at 0.
    """
    width = _LEFT + len(lines) * (_WIDTH + _GAP)
    height = _TOP + _HEIGHT + _FOOT + 18 * len(names)
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">',
        "<title>Allocation as pods come</title>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    for number, (resource, some) in enumerate(lines.items()):
        parts += _panel(resource, _LEFT + number * (_WIDTH + _GAP), some, end)
    parts += _legend(names)
    return "\n".join([*parts, "</svg>", ""])


def _panel(resource: str, left: int, lines: Sequence[Sequence[float]], end: str) -> Iterator[str]:
    bottom = _TOP + _HEIGHT
    yield f'<text x="{left}" y="{_TOP - 12}" font-weight="bold">{escape(resource)}</text>'
    for percent in (0, 25, 50, 75, 100):
        y = bottom - _HEIGHT * percent // 100
        yield f'<path d="M{left} {y}h{_WIDTH}" stroke="#dddddd"/>'
        yield _label(left - 6, y + 4, f"{percent}%", "end")
    yield _label(left, bottom + 18, "0", "start")
    yield _label(left + _WIDTH, bottom + 18, end, "end")
    for line, (colour, dashes) in zip(lines, _LINES, strict=False):
        points = " ".join(_points(line, left, bottom))
        style = f'fill="none" stroke="{colour}" stroke-width="2"{dashes}'
        yield f'<polyline points="{points}" {style}/>'


def _points(line: Sequence[float], left: int, bottom: int) -> Iterator[str]:
    """The points of a line, which is cut at the top: nodes can be over-full from the start."""
    last = len(line) - 1
    steps = min(last, _POINTS)
    for step in range(steps + 1):
        at = last * step // max(steps, 1)
        part = min(line[at], 1.0)
        yield f"{left + _WIDTH * at / max(last, 1):.1f},{bottom - _HEIGHT * part:.1f}"


def _legend(names: Sequence[str]) -> Iterator[str]:
    for number, (name, (colour, dashes)) in enumerate(zip(names, _LINES, strict=False)):
        y = _TOP + _HEIGHT + 42 + 18 * number
        yield f'<path d="M{_LEFT} {y - 4}h28" stroke="{colour}" stroke-width="2"{dashes}/>'
        yield f'<text x="{_LEFT + 36}" y="{y}">{escape(name)}</text>'


def _label(x: int, y: int, text: str, anchor: str) -> str:
    return f'<text x="{x}" y="{y}" fill="#555555" text-anchor="{anchor}">{text}</text>'

"""What is allocated as pods come, as an SVG: a panel per resource, a line per policy set."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from xml.sax.saxutils import escape

from engine.simulation.result import Allocation, Result

_WIDTH, _HEIGHT = 260, 180
_LEFT, _TOP, _GAP, _FOOT = 44, 44, 48, 72
# More points than a panel has pixels say nothing.
_POINTS = 200
_MOST_PANELS = 4
# Okabe and Ito's: told apart by whoever sees few colours, and by their dashes in print.
_LINES = (("#0072b2", ""), ("#d55e00", "6 3"))


def chart(results: Mapping[str, Result]) -> str:
    """`results` by the name of their policies, one or two, all of the same pods and nodes."""
    panels = _resources(list(results.values()))
    width = _LEFT + len(panels) * (_WIDTH + _GAP)
    height = _TOP + _HEIGHT + _FOOT
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">',
        "<title>Allocation as pods come</title>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    for number, resource in enumerate(panels):
        left = _LEFT + number * (_WIDTH + _GAP)
        lines += _panel(resource, left, [r.allocation[resource] for r in results.values()])
    lines += _legend(list(results))
    return "\n".join([*lines, "</svg>", ""])


def _resources(results: Sequence[Result]) -> list[str]:
    """cpu, memory, and what else the pods took some of; that there are pods, everybody knows."""
    kept = [
        resource
        for resource in results[0].allocation
        if resource in ("cpu", "memory")
        or (resource != "pods" and any(_grows(r.allocation[resource]) for r in results))
    ]
    return kept[:_MOST_PANELS]


def _grows(allocation: Allocation) -> bool:
    return allocation.course[-1] > allocation.course[0]


def _panel(resource: str, left: int, allocations: Sequence[Allocation]) -> Iterator[str]:
    pods = len(allocations[0].course) - 1
    bottom = _TOP + _HEIGHT
    yield f'<text x="{left}" y="{_TOP - 12}" font-weight="bold">{escape(resource)}</text>'
    for percent in (0, 25, 50, 75, 100):
        y = bottom - _HEIGHT * percent // 100
        yield f'<path d="M{left} {y}h{_WIDTH}" stroke="#dddddd"/>'
        yield _label(left - 6, y + 4, f"{percent}%", "end")
    yield _label(left, bottom + 18, "0", "start")
    yield _label(left + _WIDTH, bottom + 18, f"{pods} pods", "end")
    for allocation, (colour, dash) in zip(allocations, _LINES, strict=False):
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        points = " ".join(_points(allocation, left, bottom))
        style = f'fill="none" stroke="{colour}" stroke-width="2"{dashes}'
        yield f'<polyline points="{points}" {style}/>'


def _points(allocation: Allocation, left: int, bottom: int) -> Iterator[str]:
    """A node that was over-full from the start may lift the line past the top; it is cut there."""
    last = len(allocation.course) - 1
    steps = min(last, _POINTS)
    for step in range(steps + 1):
        at = last * step // max(steps, 1)
        part = min(allocation.course[at] / allocation.allocatable, 1.0)
        yield f"{left + _WIDTH * at / max(last, 1):.1f},{bottom - _HEIGHT * part:.1f}"


def _legend(names: Sequence[str]) -> Iterator[str]:
    for number, (name, (colour, dash)) in enumerate(zip(names, _LINES, strict=False)):
        y = _TOP + _HEIGHT + 42 + 18 * number
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        yield f'<path d="M{_LEFT} {y - 4}h28" stroke="{colour}" stroke-width="2"{dashes}/>'
        yield f'<text x="{_LEFT + 36}" y="{y}">{escape(name)}</text>'


def _label(x: int, y: int, text: str, anchor: str) -> str:
    return f'<text x="{x}" y="{y}" fill="#555555" text-anchor="{anchor}">{text}</text>'

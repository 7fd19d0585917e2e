"""A node's score as bars, each where the one before it ends, so that they add up to the score."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from cli.console import console, table
from engine.inspection import Contribution

# Cells of the bar of a whole score, and what one is drawn with where a terminal is old.
_WIDTH = 40
_BLOCK, _PLAIN_BLOCK = "█", "#"


def score_bars(contributions: Sequence[Contribution], node: int) -> Table:
    """A row for each term of the mean of one node, by index, and one for their sum.

    What a clause `adds` is its part of 10. Rows are rounded so that the sum shown is their sum.
    """
    total = sum(c.weight for c in contributions)
    rows = table("score", "weight", "points", "adds", "", right=("weight", "points", "adds"))
    so_far = 0.0
    for each in contributions:
        given = float(each.points[node])
        end = so_far + each.weight * given / total / 10
        adds = f"{round(end, 2) - round(so_far, 2):.2f}"
        name = f"{each.policy}: {each.name}"
        rows.add_row(name, f"{each.weight:g}", f"{given:.1f}", adds, _bar(so_far, end))
        so_far = end
    rows.add_row(
        "sum, rounded to a whole number", f"{total:g}", "", f"{so_far:.2f}", _bar(0, so_far)
    )
    return rows


def _bar(start: float, end: float) -> str:
    block = _PLAIN_BLOCK if console().options.ascii_only else _BLOCK
    first, last = (round(at * _WIDTH / 10) for at in (start, end))
    return f"{' ' * first}{block * (last - first)}".ljust(_WIDTH)

"""Which cells of a clause have room for one more pod, and how well each suits it."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import assert_never

import msgspec
import numpy as np
import numpy.typing as npt

from engine.program.program import CountClause, LimitProgram, ShareProgram, SpreadProgram
from grammar.clauses import Bound

Counts = npt.NDArray[np.int64]
Open = npt.NDArray[np.bool_]

# The cells of a share.
OFF, ON = 0, 1


class Numbers(msgspec.Struct, frozen=True, eq=False):
    """How many pods there are in each cell.

    `high` has every pod that is or may be there, `low` only those that a watch has shown there;
    neither has the pod in question, which is `own` (0 or 1) of those that are counted. `total` is
    how many there are or shall be, this one included; `anywhere` whether any other one exists.
    `domains` says which cells a spread compares.
    """

    high: Counts
    low: Counts
    own: int
    total: int
    anywhere: bool
    domains: Open

    def hopeful(self) -> Numbers:
        """As if all that are on their way went where they are wanted, and nowhere else."""
        return Numbers(self.low, self.high, self.own, self.total, self.anywhere, self.domains)


@lru_cache(4096)
def target(bound: Bound, total: int) -> int:
    """How many pods a bound means, of `total`: rounded to the safe side, and never more than all.

    `at most` and `exactly` round down, `at least` up.
    """
    if not bound.percent:
        return min(int(bound.amount), total)
    part = Fraction(str(bound.amount)) * total / 100
    return min(total, math.ceil(part) if bound.kind == "at least" else math.floor(part))


def open_cells(clause: CountClause, numbers: Numbers) -> Open:
    """The cells in which one more pod breaks no bound."""
    high, low, own = numbers.high, numbers.low, numbers.own
    match clause:
        case ShareProgram():
            return _open_sides(clause.bound, numbers)
        case SpreadProgram():
            return high + own - fewest(clause, numbers) <= clause.skew
        case LimitProgram():
            most = high + own <= clause.bound.amount
            least = (low >= clause.bound.amount) | bool(own and not numbers.anywhere)
            return _by_kind(clause.bound, most, least)
        case _:
            assert_never(clause)


def is_narrow(clause: CountClause) -> bool:
    """Whether every cell is bounded: then a pod must be sent to one cell at a time."""
    match clause:
        case ShareProgram():
            return clause.bound.kind == "exactly"
        case SpreadProgram():
            return True
        case LimitProgram():
            return clause.bound.kind != "at least"
        case _:
            assert_never(clause)


def points(clause: CountClause, numbers: Numbers) -> npt.NDArray[np.float64]:
    """0..100 per cell, for a clause that is best effort."""
    if isinstance(clause, SpreadProgram):
        among = numbers.high[numbers.domains]
        least = fewest(clause, numbers)
        greatest = int(among.max()) if len(among) else 0
        given = 100 * (1 - (numbers.high - least) / max(1, greatest - least))
        return np.clip(given, 0, 100)
    return np.where(open_cells(clause, numbers), 100.0, 0.0)


def _open_sides(bound: Bound, numbers: Numbers) -> Open:
    wanted = target(bound, numbers.total)
    on = numbers.high[ON] + numbers.own <= wanted
    match bound.kind:
        case "at most":
            return np.array([True, on])
        case "at least":
            return np.array([numbers.low[ON] >= wanted, True])
        case "exactly":
            off = numbers.high[OFF] + numbers.own <= numbers.total - wanted
            return np.array([off, on])
        case _:
            assert_never(bound.kind)


def fewest(clause: SpreadProgram, numbers: Numbers) -> int:
    """The count over the domains that a spread compares with; 0 where there are too few of them."""
    among = numbers.low[numbers.domains]
    if not len(among) or (clause.min_domains is not None and len(among) < clause.min_domains):
        return 0
    return int(among.min())


def _by_kind(bound: Bound, most: Open, least: Open) -> Open:
    match bound.kind:
        case "at most":
            return most
        case "at least":
            return least
        case "exactly":
            return most & least
        case _:
            assert_never(bound.kind)

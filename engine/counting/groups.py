"""Which cells of a clause have room for one more pod, and how well each suits it."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import assert_never

import msgspec
import numpy as np
import numpy.typing as npt

from engine.cache.node_table import UNKNOWN_ROW, NodeTable
from engine.cache.tallies import Tally
from engine.counting.in_flight_pods import GroupIds
from engine.objects import eligibility
from engine.program.columns import Freshness, grown
from engine.program.frame import CheckDeadline, Frame, Report
from engine.program.program import CountClause, LimitProgram, ShareProgram, SpreadProgram
from grammar.clauses import Bound
from grammar.errors import EvaluationError, MissingError

Counts = npt.NDArray[np.int64]
GroupMask = npt.NDArray[np.bool_]

# The cells of a share.
OFF, ON = 0, 1


class GroupCounts(msgspec.Struct, frozen=True, eq=False):
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
    domains: GroupMask

    def hopeful(self) -> GroupCounts:
        """As if all that are on their way went where they are wanted, and nowhere else."""
        return GroupCounts(self.low, self.high, self.own, self.total, self.anywhere, self.domains)


@lru_cache(4096)
def target(bound: Bound, total: int) -> int:
    """How many pods a bound means, of `total`: rounded to the safe side, and never more than all.

    `at most` and `exactly` round down, `at least` up.
    """
    if not bound.percent:
        return min(int(bound.amount), total)
    part = Fraction(str(bound.amount)) * total / 100
    return min(total, math.ceil(part) if bound.kind == "at least" else math.floor(part))


def open_groups(clause: CountClause, group_counts: GroupCounts) -> GroupMask:
    """The cells in which one more pod breaks no bound."""
    high, low, own = group_counts.high, group_counts.low, group_counts.own
    match clause:
        case ShareProgram():
            return _open_sides(clause.bound, group_counts)
        case SpreadProgram():
            return high + own - fewest(clause, group_counts) <= clause.skew
        case LimitProgram():
            most = high + own <= clause.bound.amount
            least = (low >= clause.bound.amount) | bool(own and not group_counts.anywhere)
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


def points(clause: CountClause, group_counts: GroupCounts) -> npt.NDArray[np.float64]:
    """0..100 per cell, for a clause that is best effort."""
    if isinstance(clause, SpreadProgram):
        among = group_counts.high[group_counts.domains]
        least = fewest(clause, group_counts)
        greatest = int(among.max()) if len(among) else 0
        given = 100 * (1 - (group_counts.high - least) / max(1, greatest - least))
        return np.clip(given, 0, 100)
    return np.where(open_groups(clause, group_counts), 100.0, 0.0)


def _open_sides(bound: Bound, group_counts: GroupCounts) -> GroupMask:
    wanted = target(bound, group_counts.total)
    on = group_counts.high[ON] + group_counts.own <= wanted
    match bound.kind:
        case "at most":
            return np.array([True, on])
        case "at least":
            return np.array([group_counts.low[ON] >= wanted, True])
        case "exactly":
            off = group_counts.high[OFF] + group_counts.own <= group_counts.total - wanted
            return np.array([off, on])
        case _:
            assert_never(bound.kind)


def fewest(clause: SpreadProgram, group_counts: GroupCounts) -> int:
    """The count over the domains that a spread compares with; 0 where there are too few of them."""
    among = group_counts.low[group_counts.domains]
    if not len(among) or (clause.min_domains is not None and len(among) < clause.min_domains):
        return 0
    return int(among.min())


def _by_kind(bound: Bound, most: GroupMask, least: GroupMask) -> GroupMask:
    match bound.kind:
        case "at most":
            return most
        case "at least":
            return least
        case "exactly":
            return most & least
        case _:
            assert_never(bound.kind)


# ---- The cells of a clause: the sides of a share, the domains of a spread, what a limit is per.

# A node that is in no cell: it has no value for the domain.
OUTSIDE = -1


@dataclass(slots=True)
class _KeptCounts:
    """The pods of a version of a tally in each cell, for these cells and places."""

    tally: Tally
    version: int
    ids: GroupIds
    rows: Mapping[str, int]
    counts: Counts


class CountGroups:
    """The cell of each place for one shape of pod; looked at again where a node is another.

    `ids` is another array whenever a cell is another one. `eligible` says which nodes' domains a
    spread compares. `by_labels` is for whoever counts: by id of their labels, which pods count.
    """

    def __init__(self, clause: CountClause, report: Report) -> None:
        self.clause = clause
        self.count = 2 if isinstance(clause, ShareProgram) else 0
        self.ids: GroupIds = np.empty(0, np.int32)
        self.eligible: npt.NDArray[np.bool_] = np.empty(0, np.bool_)
        self.by_labels: dict[int, tuple[Mapping[str, str], bool]] = {}
        self._report = report
        self._counted: _KeptCounts | None = None
        self._fresh = Freshness()
        self._known: dict[Hashable, int] = {}

    def look(self, table: NodeTable, frame: Callable[[], Frame], check: CheckDeadline) -> None:
        """Raises DeadlineExceededError."""
        portions = self._fresh.stale(table)
        if not portions:
            return
        size = len(table.views)
        ids = grown(self.ids, size, OUTSIDE).copy()
        self.eligible = grown(self.eligible, size, 0)
        for portion in portions:
            check()
            ids[portion] = [self._group(table, int(row), frame()) for row in portion]
        if not np.array_equal(ids, self.ids):
            self.ids = ids
        for portion in portions:
            self._fresh.worked_out(table, portion)

    def count_of(self, tally: Tally, table: NodeTable) -> Counts:
        """How many pods of a tally are in each cell; what was counted before is kept up."""
        size, known = max(self.count, 1), self._counted
        changes: Iterable[tuple[str, int]] | None = None
        if (
            known is not None
            and known.tally is tally
            and known.ids is self.ids
            and known.rows is table.rows
            and len(known.counts) == size
        ):
            changes = tally.since(known.version)
        if changes is None or known is None:
            counts = np.zeros(size, np.int64)
            known = self._counted = _KeptCounts(tally, 0, self.ids, table.rows, counts)
            changes = tally.nodes.items()
        for node, by in changes:
            group = self.ids[table.rows.get(node, UNKNOWN_ROW)]
            if group >= 0:
                known.counts[group] += by
        known.version = tally.version
        return known.counts.copy()

    def domains(self) -> npt.NDArray[np.bool_]:
        """Which cells have an eligible node."""
        found = np.zeros(self.count, np.bool_)
        here = self.ids[self.eligible[: len(self.ids)] & (self.ids >= 0)]
        found[here] = True
        return found

    def _group(self, table: NodeTable, row: int, frame: Frame) -> int:
        view = table.views[row]
        if row == UNKNOWN_ROW or view is None:
            return OUTSIDE
        frame.node = view
        self.eligible[row] = not isinstance(self.clause, SpreadProgram) or eligibility.is_eligible(
            frame.pod, view
        )
        try:
            return self._evaluated(row, frame)
        except EvaluationError as error:
            # A node of which that is missing is off, and has no domain.
            if not isinstance(error, MissingError):
                self._report(self.clause.count.policy, self.clause.count.name, error)
            return OFF if isinstance(self.clause, ShareProgram) else OUTSIDE

    def _evaluated(self, row: int, frame: Frame) -> int:
        match self.clause:
            case ShareProgram(on=on):
                return ON if on(frame) is True else OFF
            case SpreadProgram(domain=domain):
                return self._id(domain(frame))
            case LimitProgram(per_node=True):
                self.count = max(self.count, row + 1)
                return row
            case LimitProgram(domain=None):
                self.count = 1
                return 0
            case LimitProgram(domain=domain):
                assert domain is not None
                return self._id(domain(frame))

    def _id(self, value: object) -> int:
        """A number for a domain, for good: there may be some that no node has any more."""
        if not isinstance(value, str | int):
            raise EvaluationError("a domain is a string, an int or a bool")
        found = self._known.setdefault((type(value), value), len(self._known))
        self.count = len(self._known)
        return found

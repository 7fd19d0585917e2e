"""The cells of a clause: the sides of a share, the domains of a spread, what a limit is per."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engine import eligibility
from engine.cache.node_table import NOWHERE, NodeTable
from engine.cache.tallies import Tally
from engine.counting.ledger import CellIds
from engine.counting.numbers import OFF, ON, Counts
from engine.filtering import CheckDeadline
from engine.memo import Freshness, grown
from engine.program.frame import Frame
from engine.program.program import CountClause, LimitProgram, ShareProgram, SpreadProgram
from engine.scoring import Report
from grammar.errors import EvaluationError, MissingError

# A node that is in no cell: it has no value for the domain.
OUTSIDE = -1


@dataclass(slots=True)
class _Counted:
    """The pods of a version of a tally in each cell, for these cells and places."""

    tally: Tally
    version: int
    ids: CellIds
    places: Mapping[str, int]
    counts: Counts


class Cells:
    """The cell of each place for one shape of pod; looked at again where a node is another.

    `ids` is another array whenever a cell is another one. `eligible` says which nodes' domains a
    spread compares. `by_labels` is for whoever counts: by id of their labels, which pods count.
    """

    def __init__(self, clause: CountClause, report: Report) -> None:
        self.clause = clause
        self.count = 2 if isinstance(clause, ShareProgram) else 0
        self.ids: CellIds = np.empty(0, np.int32)
        self.eligible: npt.NDArray[np.bool_] = np.empty(0, np.bool_)
        self.by_labels: dict[int, tuple[Mapping[str, str], bool]] = {}
        self._report = report
        self._counted: _Counted | None = None
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
            ids[portion] = [self._cell(table, int(place), frame()) for place in portion]
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
            and known.places is table.places
            and len(known.counts) == size
        ):
            changes = tally.since(known.version)
        if changes is None or known is None:
            counts = np.zeros(size, np.int64)
            known = self._counted = _Counted(tally, 0, self.ids, table.places, counts)
            changes = tally.nodes.items()
        for node, by in changes:
            cell = self.ids[table.places.get(node, NOWHERE)]
            if cell >= 0:
                known.counts[cell] += by
        known.version = tally.version
        return known.counts.copy()

    def domains(self) -> npt.NDArray[np.bool_]:
        """Which cells have an eligible node."""
        found = np.zeros(self.count, np.bool_)
        here = self.ids[self.eligible[: len(self.ids)] & (self.ids >= 0)]
        found[here] = True
        return found

    def _cell(self, table: NodeTable, place: int, frame: Frame) -> int:
        view = table.views[place]
        if place == NOWHERE or view is None:
            return OUTSIDE
        frame.node = view
        self.eligible[place] = not isinstance(
            self.clause, SpreadProgram
        ) or eligibility.is_eligible(frame.pod, view)
        try:
            return self._evaluated(place, frame)
        except EvaluationError as error:
            # A node of which that is missing is off, and has no domain.
            if not isinstance(error, MissingError):
                self._report(self.clause.count.policy, self.clause.count.name, error)
            return OFF if isinstance(self.clause, ShareProgram) else OUTSIDE

    def _evaluated(self, place: int, frame: Frame) -> int:
        match self.clause:
            case ShareProgram(on=on):
                return ON if on(frame) is True else OFF
            case SpreadProgram(domain=domain):
                return self._id(domain(frame))
            case LimitProgram(per_node=True):
                self.count = max(self.count, place + 1)
                return place
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

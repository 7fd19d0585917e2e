"""Group numbers: the numbers of bounds that read groups of nodes.

A bound such as `at most 0.66 * zone.allocatable["cpu"]` changes when nodes of the zone do. They
belong to CountGroups of one clause and one pod shape. A number is worked out anew when what it
reads has changed.

Pods on their way may make a strict bound stricter or easier. So it is worked out with all of them
where they may end, and with none of them, and the strictest number counts: nothing is passed
wherever they end, as long as the bound only rises or only falls with what it reads. Of several
named counts each is taken in both ways, beside each way of the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from engine.cache.node_table import NodeRows, NodeTable
from engine.counting.bounds import LARGEST, Bounds, Mask, number_of_bound
from engine.counting.in_flight_pods import GroupIds
from engine.counting.node_groups import CallGroups, OnTheWay, Ways, ways_of
from engine.program.frame import Evaluation, Frame
from engine.program.program import CountClause
from grammar.values.errors import EvaluationError
from grammar.values.time import NEVER

# The version of what was never evaluated.
_UNKNOWN = -1


class GroupNumbers:
    """The number of each count group of a clause.

    `bounds` are the numbers, LARGEST for a group without a node. `eased` are those of a strict
    clause if no pod on its way ends anywhere, None where that makes no difference. `failed` marks
    the groups for which there is no number; the last item, of nodes in no group, is False.
    """

    def __init__(self, clause: CountClause) -> None:
        count = clause.count
        assert count.number is not None, "the clause has a bound that is computed"
        self._clause, self._count = clause, count
        self._number: Callable[[Frame], object] = count.number
        # Each node is a group of its own, and its number may read the node.
        self._of_nodes = clause.groups_are == "nodes"
        self._ways: tuple[tuple[OnTheWay, Ways], ...] = ()
        self._owner: object = None
        # For these groups and rows: a row of each group, and the groups.
        self._there: tuple[GroupIds, Mapping[str, int], NodeRows, GroupIds] | None = None
        self._versions: npt.NDArray[np.int64] = np.empty(0, np.int64)
        # The moments from which on numbers may be others, with the time or as rows of tables become
        # stale, and the time of the last call.
        self._last = -NEVER
        self._until: npt.NDArray[np.int64] = np.empty(0, np.int64)
        self._found: list[Bounds] = []
        self.bounds: Bounds = np.empty(0, np.int64)
        self.eased: Bounds | None = None
        self.failed: Mask = np.zeros(1, np.bool_)

    def update(self, ids: GroupIds, size: int, table: NodeTable, evaluation: Evaluation) -> None:
        """Works out the numbers that have changed. Raises DeadlineExceededError.

        `ids` has the group of each row, of so many.
        """
        frame, count = evaluation.frame(), self._count
        groups, gone = frame.groups, frame.gone
        assert isinstance(groups, CallGroups), "a call has groups where a policy reads them"
        ways = ways_of(groups, count.groups, strict=count.weight is None)
        if ways != self._ways or len(self._versions) != size or self._owner is not table.owner:
            self._ways, self._owner = ways, table.owner
            self._versions = np.full(size, _UNKNOWN)
            self._until = np.full(size, NEVER)
            self._found = [np.full(size, LARGEST) for _ in ways]
            self.failed = np.zeros(size + 1, np.bool_)
            self._combine()
        rows, there = self._groups_of(table, ids)
        versions = self._versions_of(groups, ways, table)[rows]
        if (now := evaluation.now()) < self._last:
            # The clock was set back.
            self.forget()
        self._last = now
        is_due = self._until[there] <= now
        changed = np.flatnonzero((versions != self._versions[there]) | is_due)
        if not len(changed):
            return
        time = evaluation.time
        time.charge(count.policy)
        # What pods leave when they are evicted is not given back here.
        frame.gone = ()
        try:
            for done, number in enumerate(changed.tolist()):
                if done and not done % count.nodes_per_look:
                    time.check()
                group, row = int(there[number]), int(rows[number])
                frame.node, frame.until = table.nodes[row], NEVER
                self._evaluate(group, groups, frame, evaluation)
                self._versions[group], self._until[group] = versions[number], frame.until
        finally:
            frame.groups, frame.gone = groups, gone
        time.rest()
        self._combine()

    def forget(self) -> None:
        """Has every number be worked out anew."""
        self._versions[:] = _UNKNOWN

    def _groups_of(self, table: NodeTable, ids: GroupIds) -> tuple[NodeRows, GroupIds]:
        """A row of each group that has a node, and the number of the group."""
        last = self._there
        if last is None or last[0] is not ids or last[1] is not table.rows:
            # Rows of nodes that are gone may still have a group.
            known = np.sort(np.fromiter(table.rows.values(), np.intp, len(table.rows)))
            there, at = np.unique(ids[known], return_index=True)
            last = ids, table.rows, known[at[there >= 0]], there[there >= 0]
            self._there = last
        return last[2], last[3]

    def _versions_of(
        self, groups: CallGroups, ways: Sequence[tuple[OnTheWay, Ways]], table: NodeTable
    ) -> npt.NDArray[np.int64]:
        """The version of what the number of each row's group depends on."""
        reads = self._count.groups
        # The number is the same for all nodes of a group, so theirs do not matter.
        found: npt.NDArray[np.int64] = table.versions if self._of_nodes else 0 * table.versions
        every = {way for way, others in ways} | {way for _, others in ways for _, way in others}
        for way in sorted(every):
            of_way = groups.counting(way)
            versioned = of_way.with_versions(reads.digests, table, reads_pods=reads.pods)
            found = found + versioned.versions - table.versions
        return found

    def _evaluate(
        self, group: int, groups: CallGroups, frame: Frame, evaluation: Evaluation
    ) -> None:
        self.failed[group] = False
        for way, found in zip(self._ways, self._found, strict=True):
            frame.groups = groups.counting(*way)
            try:
                found[group] = number_of_bound(self._clause, self._number(frame))
            except EvaluationError as error:
                evaluation.report(self._count.policy, self._count.name, error)
                self.failed[group] = True
                found[group] = LARGEST
                return

    def _combine(self) -> None:
        if len(self._found) == 1:
            self.bounds, self.eased = self._found[0].copy(), None
            return
        is_floor = self._clause.is_at_least
        worst, best = (np.maximum, np.minimum) if is_floor else (np.minimum, np.maximum)
        self.bounds, self.eased = worst.reduce(self._found), best.reduce(self._found)

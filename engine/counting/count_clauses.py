"""CountClauses: the shares, spreads and limits that apply to the pods of one shape.

Strict clauses leave headroom on some nodes and reject the others; clauses with a weight give points
instead. CountClauses belong to the plan for a pod shape and live as long as it does.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from collections.abc import Set as AbstractSet

import numpy as np

from engine.cache.node_table import NodeRows, NodeTable
from engine.counting.bounds import ON, points, target
from engine.counting.floors import Floors, judged_together
from engine.counting.groups import CountGroups, CountHeadroom, same_groups
from engine.counting.mutual_limits import MutualLimit
from engine.counting.pod_counter import PodCounter
from engine.program.frame import Evaluation, Term
from engine.program.pod_shape import pod_values
from engine.program.program import BoundProgram, CountClause, CountProgram, applies

# The search ends after so many pods if a side gets no more, as the other side of 100 % does.
_MOST_PODS = 100_000


# The groups that a clause shares with plans for other pods; None where it has its own.
Leaders = Callable[[CountClause], CountGroups | None]


def no_leader(_: CountClause) -> CountGroups | None:
    """The groups of each plan are its own."""
    return None


class CountClauses:
    """The count clauses of one pod shape. `strict`: any of them is; `soft`: any has a weight.

    `need_workloads`: a strict one needs the workloads of pods. `mutual` are the limits of pods that
    are there already, which may keep the pod out. `own` is the number of strict clauses; their
    headrooms come first. `floors` are the policies and names of the strict shares with a lower
    bound.
    """

    def __init__(
        self,
        clauses: Sequence[CountClause],
        evaluation: Evaluation,
        mutual: Sequence[MutualLimit] = (),
        leaders: Leaders = no_leader,
        *,
        counts_alone: bool = False,
    ) -> None:
        """`leaders` gives groups that are the same for other pods, where some are kept.

        With `counts_alone` they do not keep the counts in these groups.
        """
        applying = [clause for clause in clauses if applies(clause.count, evaluation)]
        self.clauses = applying
        every = list[CountGroups]()
        for clause in applying:
            alike = (each for each in every if same_groups(each.clause, clause))
            values = _values(clause.count, evaluation)
            leader, is_alone = next(alike, None), False
            if leader is None:
                leader, is_alone = leaders(clause), counts_alone
            every.append(CountGroups(clause, values, leader, counts_alone=is_alone))
        self._strict = [each for each in every if each.clause.count.weight is None]
        self._soft = [each for each in every if each.clause.count.weight is not None]
        self.mutual = mutual
        self.strict = bool(self._strict) or bool(mutual)
        self._floors = [Floors(shares) for shares in judged_together(self._strict)]
        self._together = {share for floors in self._floors for share in floors.shares}
        self.own = len(self._strict)
        self.floors = frozenset(
            (each.clause.count.policy, each.clause.count.name)
            for each in self._strict
            if each.clause.has_floor
        )
        self.need_workloads = any(each.clause.count.needs_workloads for each in self._strict)
        self.soft = bool(self._soft)

    def tables_changed(self, digests: AbstractSet[str]) -> None:
        """Has evaluated again what reads these tables: there are other ones now."""
        for groups in (*self._strict, *self._soft):
            if groups.clause.count.tables & digests:
                groups.forget()

    def headrooms(
        self, counter: PodCounter, table: NodeTable, rows: NodeRows, evaluation: Evaluation
    ) -> list[CountHeadroom]:
        """The headroom of each strict clause. Raises DeadlineExceededError."""
        found = {}
        for groups in self._strict:
            groups.update(table, evaluation)
            counts = counter.count(groups.clause, groups, predicted=False)
            alone = groups not in self._together
            found[groups] = counts, groups.headroom(counts, rows, alone=alone)
        for floors in self._floors:
            floors.judge(counter, rows, found)
        own = [headroom for _, headroom in found.values()]
        return own + [limit.headroom(counter, table, rows, evaluation) for limit in self.mutual]

    def deletion_cost(self, counter: PodCounter, row: int) -> int | None:
        """The deletion cost of a pod that is about to be bound to a node; None: no share sets one.

        A share of 40 % fills up in the order off, off, on, off, on, and so on. Later pods of this
        order cost less, so the pods that are left after some deletions are the first pods of this
        order. A controller deletes pods of one revision, so each revision has an order of its own.

        It comes after `headrooms`, which has evaluated the node.
        """
        for groups in self._strict:
            clause, group = groups.clause, int(groups.ids[row])
            if (bound := clause.deletion_bound) is None or group < 0:
                continue
            counts = counter.count(clause, groups, predicted=False, of_revision=True)
            if counts.own:
                bound = counts.numbered(bound, group)
                return -_position(bound, int(counts.high[group]) + 1, on=group == ON)
        return None

    def terms(
        self, counter: PodCounter, table: NodeTable, rows: NodeRows, evaluation: Evaluation
    ) -> list[Term]:
        """The weight and the points per row of each other clause. Raises DeadlineExceededError."""
        found = []
        for groups in self._soft:
            groups.update(table, evaluation)
            count = groups.clause.count
            assert count.weight is not None, "it is not strict"
            given = points(groups.clause, counter.count(groups.clause, groups, predicted=True))
            ids = groups.ids[rows]
            missing = count.missing if isinstance(count.missing, int | float) else 0.0
            found.append((count.weight, np.where(ids < 0, missing, given[ids])))
        return found


def _values(count: CountProgram, evaluation: Evaluation) -> Hashable | None:
    """What the clause reads of the pod to say which pods it counts."""
    if not count.peers.of_pod:
        return None
    evaluation.time.charge(count.policy)
    try:
        return pod_values(count.peers.of_pod, evaluation.frame())
    finally:
        evaluation.time.rest()


def _position(bound: BoundProgram, which: int, *, on: bool) -> int:
    """The position in the fill order, from 1, of the pod number `which` of one side."""
    selected = found = 0
    for position in range(1, _MOST_PODS):
        due = target(bound, position)
        found += (due > selected) is on
        selected = due
        if found == which:
            return position
    return _MOST_PODS

"""CardRoom: the nodes whose cards have room for a pod, whatever pods in flight take of them.

Between two answers of filter nobody knows the node of a pod in flight, let alone its cards. So it
holds what it needs on every node that it was offered. Bind looks at the cards themselves: what is
held only saves pods from being refused there. A CardRoom belongs to the plan for a pod shape and
lives as long as it does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from engine.cache.node_table import NodeRows, NodeTable
from engine.counting.groups import Headroom
from engine.counting.in_flight_pods import HeldCards, InFlightPod
from engine.decision.scoring import ScoreMemo
from engine.program.card_choice import demands
from engine.program.frame import Evaluation
from engine.program.program import CardsProgram, ScoreProgram, applies
from grammar.values.cards import Demand


class SpareMemo(ScoreMemo):
    """What others may take of the cards of each node, by row."""

    def __init__(self, clauses: Sequence[ScoreProgram]) -> None:
        """There is one clause."""
        super().__init__(clauses[0])


@dataclass(frozen=True, slots=True)
class _AppliedCards:
    """A clause that applies, what the pods of the shape take, and what others may by node."""

    program: CardsProgram
    demand: Demand
    spare: SpareMemo


class CardRoom:
    """The `cards` clauses of one pod shape. False if none applies."""

    def __init__(
        self,
        clauses: Sequence[CardsProgram],
        evaluation: Evaluation,
        spare: Callable[[ScoreProgram, Evaluation], SpareMemo],
    ) -> None:
        """`spare` gives the memo of a clause's value. Raises ExpensivePolicyError."""
        applying = [clause for clause in clauses if applies(clause, evaluation)]
        found = demands(applying, evaluation)
        self._clauses = [
            _AppliedCards(clause, found[clause.name], spare(clause.spare, evaluation))
            for clause in applying
            if clause.name in found and found[clause.name].cards > 0
        ]
        evaluation.time.rest()

    def __len__(self) -> int:
        return len(self._clauses)

    def held(self, group: str) -> HeldCards:
        """What a pod of the shape holds while it is in flight; `group` is its pod group."""
        return HeldCards(group, {c.program.name: c.demand for c in self._clauses})

    def headrooms(
        self,
        in_flight: Sequence[InFlightPod],
        group: str,
        table: NodeTable,
        rows: NodeRows,
        evaluation: Evaluation,
    ) -> list[Headroom]:
        """The headroom of each clause beside the pods in flight, but those of the same pod group.

        kube-scheduler asks about all pods of a group before one is bound. Raises as
        `ScoreMemo.values`.
        """
        others = [p for p in in_flight if p.cards is not None and not p.cards.are_of(group)]
        found = []
        for clause in self._clauses:
            taken = np.zeros(len(table.views), np.int64)
            for pod in others:
                assert pod.cards is not None, "only such are left"
                times = pod.cards.times(clause.program.name, clause.demand.take)
                if times:
                    taken[pod.rows] += times
            spare = clause.spare.values(table, rows, evaluation)
            # A node that is not known here is for bind to refuse.
            left = np.where(np.isnan(spare), np.inf, spare) - taken[rows]
            found.append(
                Headroom(
                    rule=clause.program,
                    open=left > 0,
                    hopeful=np.ones(len(rows), np.bool_),
                    groups=rows.astype(np.int32),
                    # Its pods would all get the same node.
                    narrow=not group,
                    roomy=left > clause.demand.cards,
                )
            )
        return found

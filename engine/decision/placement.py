"""Which of the feasible nodes a pod is told: as many as leave every bound whole."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Protocol

import msgspec
import numpy as np

from engine.cache.node_table import NodeRows, NodeTable
from engine.counting.headroom import CountClauses, Headroom, Mask, narrowed
from engine.counting.in_flight_pods import InFlightPods
from engine.counting.pod_counter import CountContext, KnownPods, PodCounter, PodsExcluding
from engine.decision.verdict import Decision, Rejected, Verdict
from engine.errors import WaitingError
from engine.objects.peer import Peer
from engine.program.frame import CheckDeadline, Floats, LazyFrame

# What kube-scheduler does with a node that it was told, and the pod is not there, nobody tells.
NOT_BOUND = "the node that it was sent to did not take it"


class PodsView(Protocol):
    """Where the pods are known from."""

    @property
    def pods(self) -> KnownPods: ...


class Question(msgspec.Struct, frozen=True, eq=False):
    """One filter call: who asks, about which nodes of the cache, and what they suit (0..10)."""

    context: CountContext
    table: NodeTable
    rows: NodeRows
    frame: LazyFrame
    check: CheckDeadline
    suits: Callable[[], Floats]


class Placement:
    """Decides by counts, and remembers whom it has told what."""

    def __init__(self, view: PodsView, in_flight: InFlightPods) -> None:
        self._view = view
        self.in_flight = in_flight

    def counter(self, table: NodeTable, context: CountContext) -> PodCounter:
        return PodCounter(self._view.pods, self.in_flight, table, context)

    def has_headroom(self, counting: CountClauses, asked: Question, gone: Collection[Peer]) -> bool:
        """Whether all places asked about would have room by every strict clause, some pods gone."""
        pods = PodsExcluding(self._view.pods, gone)
        counter = PodCounter(pods, self.in_flight, asked.table, asked.context)
        headrooms = counting.headrooms(counter, asked.table, asked.rows, asked.frame, asked.check)
        return all(bool(headroom.open.all()) for headroom in headrooms)

    def closed(self, counting: CountClauses, asked: Question) -> list[tuple[str, int]]:
        """The strict clauses without room on some places, and on how many."""
        counter = self.counter(asked.table, asked.context)
        headrooms = counting.headrooms(counter, asked.table, asked.rows, asked.frame, asked.check)
        found = [
            (headroom.clause.count.name, int((~headroom.open).sum())) for headroom in headrooms
        ]
        return [(name, count) for name, count in found if count]

    def is_open(self, counting: CountClauses, asked: Question) -> bool:
        """Whether some place has room by every strict clause."""
        counter = self.counter(asked.table, asked.context)
        headroom = np.ones(len(asked.rows), np.bool_)
        for each in counting.headrooms(counter, asked.table, asked.rows, asked.frame, asked.check):
            headroom &= each.open
        return bool(headroom.any())

    def take(self, counting: CountClauses, asked: Question) -> list[Headroom]:
        """The strict clauses' rooms at the one place where the pod is about to be bound.

        Raises WaitingError where one of them has none: kube-scheduler was told another place, or
        others were quicker, and asks again.
        """
        counter = self.counter(asked.table, asked.context)
        headrooms = counting.headrooms(counter, asked.table, asked.rows, asked.frame, asked.check)
        if full := [headroom for headroom in headrooms if not headroom.open.all()]:
            texts = dict.fromkeys(headroom.clause.count.message(asked.frame) for headroom in full)
            raise WaitingError("; ".join(texts))
        return headrooms

    def answer(
        self, counting: CountClauses, asked: Question, decided: Decision, *, predicts: bool
    ) -> Decision:
        """What is left of the feasible nodes of `decided`.

        `predicts` says that somebody counts pods where they likely end.

        Raises WaitingError where only pods on their way stand in the way, and
        DeadlineExceededError.
        """
        feasible: Mask = decided.codes == 0
        if not counting.strict:
            self._tell(asked, feasible, is_narrow=False, predicts=predicts)
            return decided
        before = self.in_flight.narrowed(asked.context.pod.uid)
        counter = self.counter(asked.table, asked.context)
        headrooms = counting.headrooms(counter, asked.table, asked.rows, asked.frame, asked.check)
        headroom = feasible.copy()
        hopeful = feasible.copy()
        for each in headrooms:
            headroom &= each.open
            hopeful &= each.hopeful
        if not np.logical_or.reduce(headroom):
            self.in_flight.forget(asked.context.pod.uid)
            if hopeful.any():
                raise WaitingError(_reason(headrooms, feasible, asked.frame))
            return _refused(decided, headrooms, feasible, headroom, asked.frame)
        if before is not None and not before.excused:
            before.excused = True
            raise WaitingError(NOT_BOUND)
        is_narrow = any(each.narrow for each in headrooms)
        kept = headroom
        if is_narrow:
            tried = np.isin(asked.rows, before.tried) if before is not None else ~feasible
            kept = narrowed(headrooms, headroom, asked.suits(), tried)
        self._tell(asked, kept, is_narrow=is_narrow, predicts=predicts)
        return _refused(decided, headrooms, feasible, kept, asked.frame)

    def passed(self, context: CountContext, table: NodeTable, find: Callable[[], NodeRows]) -> None:
        """A pod that no policy concerns may go to any of the nodes that it was asked about."""
        pod = context.pod
        self.in_flight.passed(pod.uid, context.peer, pod.revision, table.owner, find)

    def _tell(self, asked: Question, kept: Mask, *, is_narrow: bool, predicts: bool) -> None:
        rows = asked.rows[kept]
        best = int(rows[0]) if len(rows) else 0
        if predicts and len(rows) > 1:
            best = int(rows[int(np.argmax(asked.suits()[kept]))])
        pod, owner = asked.context.pod, asked.table.owner
        self.in_flight.answered(
            pod.uid, asked.context.peer, pod.revision, owner, rows, best, is_narrow=is_narrow
        )


def _refused(
    decided: Decision, headrooms: Sequence[Headroom], feasible: Mask, kept: Mask, frame: LazyFrame
) -> Decision:
    """The decision with a verdict of the first clause without room, for all that is not kept."""
    left = feasible & ~kept
    if not np.logical_or.reduce(left):
        return decided
    codes = decided.codes.copy()
    verdicts: list[Verdict] = list(decided.verdicts)

    def refuse(headroom: Headroom, nodes: Mask) -> None:
        count = headroom.clause.count
        # Whoever is counted may be evicted.
        verdicts.append(Rejected(count.message(frame), count.policy, count.name, resolvable=True))
        codes[nodes] = len(verdicts) - 1

    for headroom in headrooms:
        if (full := left & ~headroom.open).any():
            refuse(headroom, full)
            left &= ~full
    for headroom in headrooms:
        # There is room here too, and another cell was chosen.
        if (
            headroom.narrow
            and (others := left & ~np.isin(headroom.groups, headroom.groups[kept])).any()
        ):
            refuse(headroom, others)
            left &= ~others
    return Decision(codes, verdicts)


def _reason(headrooms: Sequence[Headroom], feasible: Mask, frame: LazyFrame) -> str:
    """Which clauses wait for pods on their way."""
    waiting = [r for r in headrooms if (feasible & ~r.open & r.hopeful).any()]
    texts = dict.fromkeys(headroom.clause.count.message(frame) for headroom in waiting)
    return f"waiting for pods on their way: {'; '.join(texts)}"

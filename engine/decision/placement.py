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

    asker: CountContext
    table: NodeTable
    places: NodeRows
    frame: LazyFrame
    check: CheckDeadline
    suits: Callable[[], Floats]


class Placement:
    """Decides by counts, and remembers whom it has told what."""

    def __init__(self, view: PodsView, ledger: InFlightPods) -> None:
        self._view = view
        self.ledger = ledger

    def census(self, table: NodeTable, asker: CountContext) -> PodCounter:
        return PodCounter(self._view.pods, self.ledger, table, asker)

    def has_room(self, counting: CountClauses, asked: Question, gone: Collection[Peer]) -> bool:
        """Whether all places asked about would have room by every strict clause, some pods gone."""
        pods = PodsExcluding(self._view.pods, gone)
        census = PodCounter(pods, self.ledger, asked.table, asked.asker)
        rooms = counting.rooms(census, asked.table, asked.places, asked.frame, asked.check)
        return all(bool(room.open.all()) for room in rooms)

    def closed(self, counting: CountClauses, asked: Question) -> list[tuple[str, int]]:
        """The strict clauses without room on some places, and on how many."""
        census = self.census(asked.table, asked.asker)
        rooms = counting.rooms(census, asked.table, asked.places, asked.frame, asked.check)
        found = [(room.clause.count.name, int((~room.open).sum())) for room in rooms]
        return [(name, count) for name, count in found if count]

    def is_open(self, counting: CountClauses, asked: Question) -> bool:
        """Whether some place has room by every strict clause."""
        census = self.census(asked.table, asked.asker)
        room = np.ones(len(asked.places), np.bool_)
        for each in counting.rooms(census, asked.table, asked.places, asked.frame, asked.check):
            room &= each.open
        return bool(room.any())

    def take(self, counting: CountClauses, asked: Question) -> list[Headroom]:
        """The strict clauses' rooms at the one place where the pod is about to be bound.

        Raises WaitingError where one of them has none: kube-scheduler was told another place, or
        others were quicker, and asks again.
        """
        census = self.census(asked.table, asked.asker)
        rooms = counting.rooms(census, asked.table, asked.places, asked.frame, asked.check)
        if full := [room for room in rooms if not room.open.all()]:
            texts = dict.fromkeys(room.clause.count.message(asked.frame) for room in full)
            raise WaitingError("; ".join(texts))
        return rooms

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
        before = self.ledger.narrowed(asked.asker.pod.uid)
        census = self.census(asked.table, asked.asker)
        rooms = counting.rooms(census, asked.table, asked.places, asked.frame, asked.check)
        room = feasible.copy()
        hopeful = feasible.copy()
        for each in rooms:
            room &= each.open
            hopeful &= each.hopeful
        if not np.logical_or.reduce(room):
            self.ledger.forget(asked.asker.pod.uid)
            if hopeful.any():
                raise WaitingError(_reason(rooms, feasible, asked.frame))
            return _refused(decided, rooms, feasible, room, asked.frame)
        if before is not None and not before.excused:
            before.excused = True
            raise WaitingError(NOT_BOUND)
        is_narrow = any(each.narrow for each in rooms)
        kept = room
        if is_narrow:
            tried = np.isin(asked.places, before.tried) if before is not None else ~feasible
            kept = narrowed(rooms, room, asked.suits(), tried)
        self._tell(asked, kept, is_narrow=is_narrow, predicts=predicts)
        return _refused(decided, rooms, feasible, kept, asked.frame)

    def passed(self, asker: CountContext, table: NodeTable, find: Callable[[], NodeRows]) -> None:
        """A pod that no policy concerns may go to any of the nodes that it was asked about."""
        pod = asker.pod
        self.ledger.passed(pod.uid, asker.peer, pod.revision, table.owner, find)

    def _tell(self, asked: Question, kept: Mask, *, is_narrow: bool, predicts: bool) -> None:
        places = asked.places[kept]
        best = int(places[0]) if len(places) else 0
        if predicts and len(places) > 1:
            best = int(places[int(np.argmax(asked.suits()[kept]))])
        pod, owner = asked.asker.pod, asked.table.owner
        self.ledger.answered(
            pod.uid, asked.asker.peer, pod.revision, owner, places, best, is_narrow=is_narrow
        )


def _refused(
    decided: Decision, rooms: Sequence[Headroom], feasible: Mask, kept: Mask, frame: LazyFrame
) -> Decision:
    """The decision with a verdict of the first clause without room, for all that is not kept."""
    left = feasible & ~kept
    if not np.logical_or.reduce(left):
        return decided
    codes = decided.codes.copy()
    verdicts: list[Verdict] = list(decided.verdicts)

    def refuse(room: Headroom, nodes: Mask) -> None:
        count = room.clause.count
        # Whoever is counted may be evicted.
        verdicts.append(Rejected(count.message(frame), count.policy, count.name, resolvable=True))
        codes[nodes] = len(verdicts) - 1

    for room in rooms:
        if (full := left & ~room.open).any():
            refuse(room, full)
            left &= ~full
    for room in rooms:
        # There is room here too, and another cell was chosen.
        if room.narrow and (others := left & ~np.isin(room.cells, room.cells[kept])).any():
            refuse(room, others)
            left &= ~others
    return Decision(codes, verdicts)


def _reason(rooms: Sequence[Headroom], feasible: Mask, frame: LazyFrame) -> str:
    """Which clauses wait for pods on their way."""
    waiting = [r for r in rooms if (feasible & ~r.open & r.hopeful).any()]
    texts = dict.fromkeys(room.clause.count.message(frame) for room in waiting)
    return f"waiting for pods on their way: {'; '.join(texts)}"

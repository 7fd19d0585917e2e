"""Placement: the feasible nodes that a pod is offered, so that every bound holds.

Strict counts hold because a pod is offered only nodes with headroom, and counts on all of them
until kube-scheduler has bound it. Placement belongs to the engine and lives as long as it does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import msgspec
import numpy as np

from engine.cache.node_table import NodeRows, NodeTable
from engine.counting.count_clauses import CountClauses, narrowed
from engine.counting.groups import CountHeadroom, Headroom, Mask
from engine.counting.in_flight_pods import InFlightPods
from engine.counting.pod_counter import CountContext, PodCounter, PodsExcluding
from engine.decision.card_room import CardRoom
from engine.decision.verb_call import ClusterView
from engine.decision.verdict import Decision, Rejected, Verdict
from engine.errors import BriefWaitError, WaitingError
from engine.objects.peer import Peer
from engine.program.frame import Evaluation, Floats

# kube-scheduler does not say why it did not bind a pod to a node that it was offered.
NOT_BOUND = "the pod was not bound to the offered node; retrying"


class Question(msgspec.Struct, frozen=True, eq=False):
    """A pod and the nodes of the cache that are in question; `suits` has our scores 0..10.

    `cards` are those that the pod takes, None if it takes none.
    """

    context: CountContext
    table: NodeTable
    rows: NodeRows
    evaluation: Evaluation
    suits: Callable[[], Floats]
    cards: CardRoom | None


class Placement:
    """Decides by counts, and remembers what each pod was offered."""

    def __init__(self, view: ClusterView, in_flight: InFlightPods) -> None:
        self._view = view
        self.in_flight = in_flight

    def counter(self, table: NodeTable, context: CountContext) -> PodCounter:
        in_flight = self.in_flight.others(context.pod.uid, table.owner)
        return PodCounter(self._view.pods, in_flight, table, context)

    def all_open(self, counts: CountClauses, question: Question, without: Collection[Peer]) -> bool:
        """Whether every strict clause has headroom on all nodes in question, some pods gone."""
        pods, context = PodsExcluding(self._view.pods, without), question.context
        in_flight = self.in_flight.others(context.pod.uid, question.table.owner)
        counter = PodCounter(pods, in_flight, question.table, context)
        found = counts.headrooms(counter, question.table, question.rows, question.evaluation)
        return all(bool(headroom.open.all()) for headroom in found)

    def closed(self, counts: CountClauses, question: Question) -> list[tuple[str, int]]:
        """The strict clauses without headroom on some nodes, and the number of these nodes."""
        closed = ((h.rule.name, int((~h.open).sum())) for h in self._of(counts, question))
        return [(name, number) for name, number in closed if number]

    def any_open(self, counts: CountClauses, question: Question) -> bool:
        """Whether some node has headroom under every strict clause."""
        mask = np.ones(len(question.rows), np.bool_)
        for headroom in self._of(counts, question):
            mask &= headroom.open
        return bool(mask.any())

    def take(self, counts: CountClauses, question: Question) -> int | None:
        """Takes the one node that the pod is about to be bound to. Returns its deletion cost.

        Bound pods alone count: another pod that may end there has its own look before it does.
        Raises WaitingError where a strict clause has none: another pod was bound first, and
        kube-scheduler has to ask again.
        """
        counter = PodCounter(self._view.pods, (), question.table, question.context)
        headrooms = counts.headrooms(counter, question.table, question.rows, question.evaluation)
        if full := [headroom for headroom in headrooms if not headroom.open.all()]:
            raise WaitingError(_joined(full, question.evaluation))
        return counts.deletion_cost(counter, int(question.rows[0]))

    def answer(
        self, counts: CountClauses, question: Question, decided: Decision, *, predicts: bool
    ) -> Decision:
        """The decision with the nodes held back that strict clauses do not allow.

        The nodes that are left are offered to the pod. `predicts` says that some policy counts
        in-flight pods where they probably end.

        Raises BriefWaitError where only in-flight pods are in the way, WaitingError once after a
        narrow offer that did not end in a binding, DeadlineExceededError and ExpensivePolicyError.
        """
        feasible: Mask = decided.codes == 0
        if not counts.strict and not question.cards:
            self._offer(question, feasible, is_narrow=False, predicts=predicts)
            return decided
        evaluation = question.evaluation
        before = self.in_flight.narrow_offer(question.context.pod.uid)
        counted = self._of(counts, question)
        headrooms: list[Headroom] = [*counted, *self._of_cards(question)]
        if not headrooms:
            self._offer(question, feasible, is_narrow=False, predicts=predicts)
            return decided
        own = counted[: counts.own]
        opened = feasible.copy()
        hopeful = feasible.copy()
        for headroom in headrooms:
            opened &= headroom.open
            hopeful &= headroom.hopeful
        if not np.count_nonzero(opened):
            self.in_flight.forget(question.context.pod.uid)
            if hopeful.any():
                raise BriefWaitError(_waiting(headrooms, feasible, evaluation))
            return _rejected(decided, headrooms, own, feasible, opened, evaluation)
        if before is not None and not before.excused:
            before.excused = True
            raise WaitingError(NOT_BOUND)
        narrow = [headroom for headroom in headrooms if _narrows(headroom, opened)]
        kept = opened
        if narrow:
            tried = np.isin(question.rows, before.tried) if before is not None else ~feasible
            kept = narrowed(narrow, opened, question.suits(), tried)
        # It may run out of time, so it comes before the offer.
        left = _rejected(decided, headrooms, own, feasible, kept, evaluation, narrow)
        self._offer(question, kept, is_narrow=bool(narrow), predicts=predicts)
        return left

    def _of_cards(self, question: Question) -> list[Headroom]:
        """The headrooms of cards; none where one pod is bound before the next is asked about."""
        cards, context = question.cards, question.context
        if not cards:
            return []
        others, overlap = self.in_flight.with_cards(context.pod.uid, question.table.owner)
        if not overlap:
            return []
        group, table = context.pod.group, question.table
        return cards.headrooms(others, group, table, question.rows, question.evaluation)

    def _of(self, counts: CountClauses, question: Question) -> list[CountHeadroom]:
        counter = self.counter(question.table, question.context)
        return counts.headrooms(counter, question.table, question.rows, question.evaluation)

    def _offer(self, question: Question, kept: Mask, *, is_narrow: bool, predicts: bool) -> None:
        rows = question.rows[kept]
        best = int(rows[0]) if len(rows) else 0
        if predicts and len(rows) > 1:
            best = int(rows[int(np.argmax(question.suits()[kept]))])
        context, owner = question.context, question.table.owner
        pod = context.pod
        self.in_flight.offer(
            pod.uid,
            context.peer,
            pod.revision,
            owner,
            rows,
            best,
            is_narrow=is_narrow,
            cards=question.cards.held(pod.group) if question.cards else None,
            asked=pod,
        )


def _narrows(headroom: Headroom, opened: Mask) -> bool:
    """Whether a clause has a pod offered one group of these nodes, not all of them."""
    return headroom.narrow and (
        headroom.roomy is None or not np.count_nonzero(opened & headroom.roomy)
    )


def _rejected(
    decided: Decision,
    headrooms: Sequence[Headroom],
    own: Sequence[CountHeadroom],
    feasible: Mask,
    kept: Mask,
    evaluation: Evaluation,
    narrow: Sequence[Headroom] = (),
) -> Decision:
    """The decision with a rejection for each feasible node that is not kept, and `own` headrooms.

    It names the first clause without headroom, or else the first `narrow` one, which holds the node
    back.
    """
    left = feasible & ~kept
    if not np.count_nonzero(left):
        return Decision(decided.codes, decided.verdicts, decided.known_rows, own)
    codes = decided.codes.copy()
    verdicts: list[Verdict] = list(decided.verdicts)

    def reject(headroom: Headroom, nodes: Mask) -> None:
        rule = headroom.rule
        # An eviction can help: the pods that are counted can be evicted.
        text = rule.message(evaluation)
        verdicts.append(Rejected(text, rule.policy, rule.name, resolvable=True))
        codes[nodes] = len(verdicts) - 1

    for headroom in headrooms:
        if (full := left & ~headroom.open).any():
            reject(headroom, full)
            left &= ~full
    for headroom in narrow:
        # These nodes have headroom as well, but another group was chosen.
        if (others := left & ~np.isin(headroom.groups, headroom.groups[kept])).any():
            reject(headroom, others)
            left &= ~others
    return Decision(codes, verdicts, decided.known_rows, own)


def _waiting(headrooms: Sequence[Headroom], feasible: Mask, evaluation: Evaluation) -> str:
    """The clauses that wait for in-flight pods."""
    waiting = [h for h in headrooms if (feasible & ~h.open & h.hopeful).any()]
    return f"waiting for in-flight pods: {_joined(waiting, evaluation)}"


def _joined(headrooms: Sequence[Headroom], evaluation: Evaluation) -> str:
    """The texts of some clauses, each once."""
    return "; ".join(dict.fromkeys(h.rule.message(evaluation) for h in headrooms))

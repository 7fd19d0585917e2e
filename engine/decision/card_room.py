"""Card room: what a pod takes of cards, the nodes with room, and the choice of cards at bind.

The choice at bind is made in the same turn of the event loop in which the pod begins to count on
the node, so no two pods are given the same part of a card.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from engine.cache.node_table import NodeRows, NodeTable, NodeWithPods
from engine.cards.node_cards import TAKEN, CardPod, Claim, Demand, Taken, annotation
from engine.counting.groups import Headroom
from engine.counting.in_flight_pods import HeldCards, InFlightPod
from engine.decision.scoring import ScoreMemo, value
from engine.errors import RefusedError, WaitingError
from engine.objects.peer import Peer, placed_pod, values_at
from engine.objects.remembered import Remembered, bytes_of
from engine.program.frame import Evaluation, Frame
from engine.program.pod_shape import Path
from engine.program.program import CardsProgram, Program, ScoreProgram, applies
from grammar.messages.texts import shown
from grammar.values.errors import EvaluationError, MissingError
from grammar.values.time import Timestamp

# The bytes of what pods take that are alike.
_MOST_KEPT = 16 << 20

# ---- what pods take


def demands(clauses: Iterable[CardsProgram], evaluation: Evaluation) -> Mapping[str, Demand]:
    """What the pod takes, by the names of clauses. Raises ExpensivePolicyError."""
    found: dict[str, Demand] = {}
    for clause in clauses:
        if not applies(clause, evaluation):
            continue
        with suppress(EvaluationError):
            found[clause.name] = demand(clause, evaluation.frame())
    return found


def demand(clause: CardsProgram, frame: Frame) -> Demand:
    """What the frame's pod takes by a clause. Raises EvaluationError."""
    number, take = clause.number(frame), clause.take(frame)
    assert isinstance(number, int), "the checker has seen its type"
    assert isinstance(take, Mapping), "the checker has seen its type"
    return Demand.checked(number, take)


class CardClaims:
    """What pods take of cards that others have bound, without Placet's annotation, by clause.

    Where Placet is new, pods run on cards that another extender gave them. They take what the
    clause of the first policy that selects them says. CardClaims belong to a registry, on one event
    loop.

    `programs` are the policies with cards, in the order in which they decide.

    A policy or clause that reads what is not known of such a pod gives none (`Program.selects_by`,
    `CardsProgram.reads`). Rules are evaluated once for pods that are alike in what they read.
    """

    def __init__(self, programs: Iterable[Program], exempts: Callable[[Peer], bool]) -> None:
        self._exempts = exempts
        self._programs: dict[str, list[tuple[Program, CardsProgram]]] = {}
        paths: dict[str, set[Path]] = {}
        for program in programs:
            selects = program.selects_by
            if selects is None or selects.namespace:
                continue
            for clause in program.of(CardsProgram):
                if clause.reads is not None:
                    self._programs.setdefault(clause.name, []).append((program, clause))
                    paths.setdefault(clause.name, set()).update(selects.pod, clause.reads.pod)
        self._slots = max((p.slots for each in self._programs.values() for p, _ in each), default=0)
        self._key_of = {name: values_at(read) for name, read in paths.items()}
        self._known: Remembered[Hashable, tuple[CardsProgram, Demand] | None]
        self._known = Remembered(
            _MOST_KEPT, lambda key, found: bytes_of(key) + bytes_of(found and found[1])
        )

    def of(self, clause: str, pod: CardPod) -> Claim | None:
        """What a pod on a node takes of the cards of a clause; None if nothing is known of it."""
        programs = self._programs.get(clause)
        if not programs or not isinstance(pod, Peer) or self._exempts(pod):
            return None
        key = clause, self._key_of[clause](pod)
        if key in self._known:
            found = self._known.get(key)
        else:
            found = self._known.put(key, self._demand(programs, pod))
        if found is None:
            return None
        program, takes = found
        return Claim(takes, _numbers(pod, program.index, takes.cards))

    def _demand(
        self, programs: Iterable[tuple[Program, CardsProgram]], pod: Peer
    ) -> tuple[CardsProgram, Demand] | None:
        for program, clause in programs:
            frame = Frame(placed_pod(pod), Timestamp.ZERO, slots=self._slots)
            try:
                if program.select is not None and program.select(frame) is not True:
                    continue
                if clause.when is not None and clause.when.evaluate(frame) is not True:
                    continue
                return clause, demand(clause, frame)
            except EvaluationError:
                continue
        return None


def _numbers(pod: Peer, index: str | None, wanted: int) -> tuple[int, ...]:
    """The numbers of cards in the index annotation; none if it has not as many as it should."""
    texts = pod.annotations.get(index, "").split(",") if index is not None else []
    found = {int(text) for text in texts if text.isascii() and text.isdecimal() and len(text) < 4}
    return tuple(sorted(found)) if len(found) == wanted == len(texts) else ()


# ---- nodes with room


@dataclass(frozen=True, slots=True)
class _AppliedCards:
    """A clause about cards that applies, what pods of the shape take, and the spare part."""

    program: CardsProgram
    demand: Demand
    spare: ScoreMemo


class CardRoom:
    """The `cards` clauses of one pod shape. False if none applies.

    Between two answers of filter nobody knows the node of a pod in flight, let alone its cards. So
    it holds as much as it needs on every offered node. Bind looks at the cards themselves: what is
    held only saves pods from being refused there. A CardRoom belongs to the plan for a pod shape
    and lives as long as it does.
    """

    def __init__(
        self,
        clauses: Sequence[CardsProgram],
        evaluation: Evaluation,
        spare: Callable[[ScoreProgram, Evaluation], ScoreMemo],
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
            taken = np.zeros(len(table.nodes), np.int64)
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
                    # The pods of a group would all get the same node. Of others nobody knows how
                    # many wait.
                    roomy=None if group else left > clause.demand.cards,
                    wait=len(rows),
                )
            )
        return found

    def has_room(
        self,
        node: NodeWithPods,
        row: int,
        in_flight: Sequence[InFlightPod],
        group: str,
        evaluation: Evaluation,
    ) -> bool:
        """Whether every clause has headroom on one node, which is not as the cache has it.

        `row` is that of the node in the table of the cache. See `headrooms`.
        """
        others = [
            pod.cards
            for pod in in_flight
            if pod.cards is not None and not pod.cards.are_of(group) and (pod.rows == row).any()
        ]
        if not others:
            return True
        frame = evaluation.frame()
        frame.node = node
        for each in self._clauses:
            program = each.program
            taken = sum(held.times(program.name, each.demand.take) for held in others)
            if not taken:
                continue
            evaluation.time.charge(program.policy)
            spare = value(program.spare, frame, evaluation.report)
            evaluation.time.rest()
            if spare <= taken:
                return False
        return True


# ---- cards at bind


def choose(
    clauses: Iterable[CardsProgram], evaluation: Evaluation, node: object
) -> Mapping[str, str]:
    """The annotations of a pod that is bound to a node; none for a pod that takes no card.

    Raises WaitingError where too few cards have room, RefusedError where a part of a clause cannot
    be evaluated, DeadlineExceededError and ExpensivePolicyError.
    """
    takes: dict[str, Taken] = {}
    found: dict[str, str] = {}
    for clause in clauses:
        if not applies(clause, evaluation):
            continue
        evaluation.time.charge(clause.policy)
        frame = evaluation.frame()
        frame.node = node
        try:
            taken = _taken(clause, frame)
            if taken is None:
                continue
            takes[clause.name] = taken
            if clause.index is not None:
                found[clause.index] = ",".join(map(str, taken.cards))
            for key, text in clause.writes:
                found[key] = str(text(frame))
        except MissingError:
            raise WaitingError(clause.message(evaluation), of_clause=True) from None
        except EvaluationError as error:
            evaluation.report(clause.policy, clause.name, error)
            why = f"{clause.message(evaluation)}: {shown(str(error))}"
            raise RefusedError(why, of_clause=True) from None
        finally:
            evaluation.time.rest()
    if takes:
        found[TAKEN] = annotation(takes)
    return found


def _taken(clause: CardsProgram, frame: Frame) -> Taken | None:
    number, take = demand(clause, frame)
    if not number:
        return None
    chosen = clause.chosen(frame)
    assert isinstance(chosen, list | tuple), "the checker has seen its type"
    return Taken(tuple(sorted(card.index for card in chosen)), dict(take))

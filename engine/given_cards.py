"""Given cards: the part of decisions that gives cards to pods, and answers questions about them.

The choice at bind is made in the same turn of the event loop in which the pod begins to count on
the node, so no two pods are given the same part of a card. GivenCards belong to the engine and live
as long as it does. The arithmetic of cards is that of `engine.cards`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from engine.cache.node_table import NodeWithPods
from engine.cards.fragmentation import MILLI, CardFacts, CardShape, Mix
from engine.cards.node_cards import (
    TAKEN,
    CardPod,
    Cards,
    Claim,
    Demand,
    Taken,
    annotation,
    holders,
    taken,
)
from engine.counting.groups import Headroom
from engine.counting.in_flight_pods import InFlightPod
from engine.decision.moves import BrokenRule
from engine.decision.part import DecisionPart, PartSite, Sums
from engine.decision.plan import Question, SharedMemos
from engine.decision.registry import Selection
from engine.decision.scoring import ScoreMemo, value
from engine.errors import RefusedError, WaitingError
from engine.objects.peer import Peer, placed_pod, values_at
from engine.objects.remembered import Remembered, bytes_of
from engine.program.frame import Evaluation, Frame
from engine.program.pod_shape import Path
from engine.program.program import CardsProgram, Program, applies
from grammar.values.errors import EvaluationError, MissingError
from grammar.values.quantity import Resources
from grammar.values.time import Timestamp

_LOST = "it is on a card that its node does not have"

# ---- what pods take


def demands(clauses: Iterable[CardsProgram], evaluation: Evaluation) -> Mapping[str, Demand]:
    """What the pod takes, by the names of clauses. Raises ExpensivePolicyError."""
    found: dict[str, Demand] = {}
    for clause in clauses:
        if applies(clause, evaluation):
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
        self._known: Remembered[Hashable, tuple[CardsProgram, Claim] | tuple[()]]
        self._known = Remembered(size=lambda key, found: bytes_of(key) + bytes_of(found[1:]))

    def of(self, clause: str, pod: CardPod) -> Claim | None:
        """What a pod on a node takes of the cards of a clause; None if nothing is known of it."""
        read = self._key_of.get(clause)
        if read is None or not isinstance(pod, Peer):
            return None
        if (found := self._known.peek(key := (clause, read(pod)))) is None:
            found = self._known.put(key, self._demand(self._programs[clause], pod))
        if not found or self._exempts(pod):
            return None
        program, claim = found
        if program.index is None:
            return claim
        return claim._replace(numbers=_numbers(pod, program.index, claim.demand.cards))

    def _demand(
        self, programs: Iterable[tuple[Program, CardsProgram]], pod: Peer
    ) -> tuple[CardsProgram, Claim] | tuple[()]:
        for program, clause in programs:
            frame = Frame(placed_pod(pod), Timestamp.ZERO, slots=self._slots)
            try:
                if program.select is not None and program.select(frame) is not True:
                    continue
                if clause.when is not None and clause.when.evaluate(frame) is not True:
                    continue
                return clause, Claim(demand(clause, frame))
            except EvaluationError:
                continue
        return ()


def _numbers(pod: Peer, index: str, wanted: int) -> tuple[int, ...]:
    """The numbers of cards in the index annotation; none if it has not as many as it should."""
    texts = pod.annotations.get(index, "").split(",")
    found = {int(text) for text in texts if text.isascii() and text.isdecimal() and len(text) < 4}
    return tuple(sorted(found)) if len(found) == wanted == len(texts) else ()


# ---- nodes with room


@dataclass(frozen=True, slots=True)
class _AppliedCards:
    """A clause about cards that applies, what pods of the shape take, and the spare part."""

    program: CardsProgram
    demand: Demand
    spare: ScoreMemo

    def times(self, pod: InFlightPod) -> int:
        """How many others that take the same of a card may have no room because of a pod."""
        held = pod.holds.get(self.program.name)
        return held.times(self.demand.take) if isinstance(held, Demand) else 0


class CardRoom:
    """The `cards` clauses of one pod shape, a Room. False if none applies.

    Between two answers of filter nobody knows the node of a pod in flight, let alone its cards. So
    it holds as much as it needs on every offered node. Bind looks at the cards themselves: what is
    held only saves pods from being refused there. A CardRoom belongs to the plan for a pod shape
    and lives as long as it does.
    """

    def __init__(
        self, clauses: Sequence[CardsProgram], evaluation: Evaluation, memos: SharedMemos
    ) -> None:
        """Raises ExpensivePolicyError."""
        self.clauses = clauses
        applying = [clause for clause in clauses if applies(clause, evaluation)]
        found = demands(applying, evaluation)
        self._applied = [
            _AppliedCards(clause, found[clause.name], memos.spare(clause.spare, evaluation))
            for clause in applying
            if clause.name in found and found[clause.name].cards > 0
        ]
        evaluation.time.rest()

    def __len__(self) -> int:
        return len(self._applied)

    @property
    def held(self) -> Mapping[str, Demand]:
        """What a pod of the shape holds while it is in flight, by clause."""
        return {each.program.name: each.demand for each in self._applied}

    def headrooms(self, in_flight: Sequence[InFlightPod], question: Question) -> Sequence[Headroom]:
        """The headroom of each clause beside the pods in flight. Raises as `ScoreMemo.values`."""
        found, table, rows = list[Headroom](), question.table, question.rows
        for clause in self._applied:
            others = np.zeros(len(table.nodes), np.int64)
            for pod in in_flight:
                if times := clause.times(pod):
                    others[pod.rows] += times
            spare = clause.spare.values(table, rows, question.evaluation)
            # A node that is not known here is for bind to refuse.
            left = np.where(np.isnan(spare), np.inf, spare) - others[rows]
            found.append(
                Headroom(
                    rule=clause.program,
                    open=left > 0,
                    hopeful=np.ones(len(rows), np.bool_),
                    groups=rows.astype(np.int32),
                    # The pods of a group would all get the same node. Of others nobody knows how
                    # many wait.
                    roomy=None if question.context.pod.own_group else left > clause.demand.cards,
                    wait=len(rows),
                )
            )
        return found

    def has_room(
        self, node: NodeWithPods, in_flight: Sequence[InFlightPod], evaluation: Evaluation
    ) -> bool:
        """Whether every clause has headroom on one node, which is not as the cache has it.

        The pods in flight are those that may end there. See `headrooms`.
        """
        frame = evaluation.frame()
        frame.node = node
        for each in self._applied:
            if not (others := sum(map(each.times, in_flight))):
                continue
            evaluation.time.charge(each.program.policy)
            spare = value(each.program.spare, frame, evaluation.report)
            evaluation.time.rest()
            if spare <= others:
                return False
        return True

    def annotations(self, evaluation: Evaluation, node: object) -> Mapping[str, str]:
        """The annotations of a pod that is bound to a node; none for a pod that takes no card.

        Raises WaitingError where too few cards have room, RefusedError where a part of a clause
        cannot be evaluated, DeadlineExceededError and ExpensivePolicyError.
        """
        takes: dict[str, Taken] = {}
        found: dict[str, str] = {}
        for clause in self.clauses:
            if not applies(clause, evaluation):
                continue
            evaluation.time.charge(clause.policy)
            frame = evaluation.frame()
            frame.node = node
            try:
                number, take = demand(clause, frame)
                if not number:
                    continue
                chosen = clause.chosen(frame)
                assert isinstance(chosen, list | tuple), "the checker has seen its type"
                numbers = tuple(sorted(card.index for card in chosen))
                takes[clause.name] = Taken(numbers, dict(take))
                if clause.index is not None:
                    found[clause.index] = ",".join(map(str, numbers))
                for key, text in clause.writes:
                    found[key] = str(text(frame))
            except MissingError:
                raise WaitingError(clause.message(evaluation), of_clause=True) from None
            except EvaluationError as error:
                evaluation.report(clause.policy, clause.name, error)
                # Of the error the log has more: it may name what others have on the node.
                raise RefusedError(clause.message(evaluation), of_clause=True) from None
            finally:
                evaluation.time.rest()
        if takes:
            found[TAKEN] = annotation(takes)
        return found


# ---- questions about cards


def shape(clause: CardsProgram, frame: Frame) -> CardShape | None:
    """What the frame's pod needs, by which fragmentation is measured; None if that is not known."""
    requests: Resources = frame.pod.requests  # type: ignore[attr-defined]
    cpu = requests["cpu"].nanos // MILLI
    try:
        number, take = demand(clause, frame)
    except EvaluationError:
        return None
    amount = next(iter(take.values()), 0)
    return CardShape(cpu, number, amount) if number else CardShape(cpu, 0, 0)


def taken_shapes(pod: Peer) -> Iterator[tuple[str, CardShape]]:
    """The same of a pod that has cards, by the names of clauses."""
    for clause, its in taken(pod.annotations.get(TAKEN, "")).items():
        cpu = pod.requests["cpu"].nanos // MILLI
        yield clause, CardShape(cpu, len(its.cards), next(iter(its.take.values()), 0))


@dataclass(frozen=True, slots=True)
class CardUse:
    """The cards of one clause on one node, and the pods on them.

    `placed` is the number of pods on cards. Of `guessed` ones others have bound without a number;
    `lost` ones are on cards that the node does not have.
    """

    cards: Cards
    placed: int
    guessed: Sequence[Peer]
    lost: Sequence[Peer]


class GivenCards(DecisionPart):
    """The cards that policies in force give to pods, a part of decisions.

    It has the usual pods by which fragmentation is measured. `are_used`: a policy has cards.
    """

    def __init__(self, site: PartSite) -> None:
        self._calls, self._pods = site.placing.calls, site.placing.pods
        self._clauses: Mapping[str, CardsProgram] = {}
        self._facts = CardFacts()
        self.adopted()

    @property
    def are_used(self) -> bool:
        return bool(self._clauses)

    def rooms(
        self, selection: Selection, evaluation: Evaluation, memos: SharedMemos
    ) -> Sequence[CardRoom]:
        clauses = selection.of(CardsProgram)
        return [CardRoom(clauses, evaluation, memos)] if clauses else ()

    def adopted(self) -> None:
        were_used, programs = self.are_used, self._calls.registry.programs
        every = [(p, c) for p in programs for c in p.of(CardsProgram)]
        self._clauses = {clause.name: clause for _, clause in every}
        # The policies that decide, by the names of their clauses.
        self._policies = {c.name: c.policy for program, c in every if not program.audit}
        if were_used or self.are_used:
            self._take(self._facts.mixes)

    def _take(self, mixes: Mapping[str, Mix]) -> None:
        """What is known of cards depends on all policies with cards, and on usual pods."""
        calls = self._calls
        programs, exempts = calls.registry.deciding(CardsProgram), calls.exemptions.exempts
        self._facts = CardFacts(mixes, CardClaims(programs, exempts).of)
        calls.take_facts(self._facts)

    def measure_by(self, shapes: Mapping[str, Iterable[CardShape]]) -> None:
        """Measures the fragmentation of the cards of each clause by these pods from now on.

        What was scored by others is forgotten.
        """
        mixes = {clause: Mix(pods) for clause, pods in shapes.items()}
        if mixes != self._facts.mixes:
            self._take(mixes)

    def learn(self, pods: Sequence[bytes]) -> None:
        """Measures fragmentation by what these pods need of cards. Raises BadObjectError."""
        if not self.are_used:
            return
        found: dict[str, list[CardShape]] = {}
        for body in pods:
            call = self._calls.open(self._pods.read(body), (), math.inf)
            for clause in call.plan.selection.of(CardsProgram):
                if (needed := shape(clause, call.evaluation.frame())) is not None:
                    found.setdefault(clause.name, []).append(needed)
        self.measure_by(found)

    def demand(self, pod: bytes) -> Mapping[str, int]:
        """What a pod takes of all its cards, by clause and amount. Raises BadObjectError."""
        if not self.are_used:
            return {}
        call = self._calls.open(self._pods.read(pod), (), math.inf)
        clauses = call.plan.selection.of(CardsProgram)
        return {
            f"{name}/{key}": its.cards * amount
            for name, its in demands(clauses, call.evaluation).items()
            for key, amount in its.take.items()
        }

    def uses(self, node: NodeWithPods) -> Mapping[str, CardUse]:
        """The cards of a node with their pods, by clause; none that cannot be read."""
        frame = Frame(None, self._calls.now(), slots=self._calls.registry.slots)
        frame.cardFacts, frame.node = self._facts, node
        uses: dict[str, CardUse] = {}
        for name, clause in self._clauses.items():
            with suppress(EvaluationError):
                cards = clause.cards(frame)
                assert isinstance(cards, tuple), "the checker has seen its type"
                capacities = [card.capacity for card in cards]
                found = holders(name, capacities, node.pods or (), self._facts.claim)
                guessed = [h.pod for h in found if h.is_guessed and isinstance(h.pod, Peer)]
                beyond = (h.pod for h in found if any(index >= len(cards) for index in h.cards))
                lost = [pod for pod in beyond if isinstance(pod, Peer)]
                uses[name] = CardUse(cards, len(found), guessed, lost)
        return uses

    def sums(self, node: NodeWithPods) -> Mapping[str, Sums]:
        """What the cards of a node have and give, by clause and amount."""
        found: dict[str, Sums] = {}
        for name, its in self.uses(node).items():
            for card in its.cards:
                for key, has in card.capacity.items():
                    total, used = found.get(f"{name}/{key}", (0, 0))
                    found[f"{name}/{key}"] = total + has, used + card.used.get(key, 0)
        return found

    def misplaced(self, node: NodeWithPods) -> Mapping[str, BrokenRule]:
        """The pods on cards that their node does not have any more."""
        found: dict[str, BrokenRule] = {}
        for name, its in self.uses(node).items() if self._policies else ():
            if name in self._policies:
                rule = BrokenRule(self._policies[name], name, "cards", _LOST)
                found.update((pod.uid, rule) for pod in its.lost)
        return found

"""Card questions: what is asked about cards outside of a verb, by reports, metrics and simulations.

CardQuestions belong to the engine and live as long as it does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from engine.cache.node_table import NodeWithPods
from engine.cards.card_functions import CardFacts
from engine.cards.fragmentation import MILLI, CardShape, Mix
from engine.cards.node_cards import TAKEN, Cards, holders, taken
from engine.decision.card_room import demand, demands
from engine.decision.verb_call import CallOpener
from engine.objects.peer import Peer
from engine.objects.request_pod import RequestPodReader
from engine.program.frame import Frame
from engine.program.program import CardsProgram
from grammar.values.errors import EvaluationError
from grammar.values.quantity import Resources
from grammar.values.time import Timestamp


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
    text = pod.annotations.get(TAKEN)
    if text is None:
        return
    cpu = pod.requests["cpu"].nanos // MILLI
    for clause, its in taken(text).items():
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


def use(clause: CardsProgram, frame: Frame) -> CardUse | None:
    """The cards of the frame's node, with their pods; None where they cannot be read."""
    try:
        cards = clause.cards(frame)
    except EvaluationError:
        return None
    assert isinstance(cards, tuple), "the checker has seen its type"
    facts, pods = frame.cardFacts, getattr(frame.node, "pods", None) or ()
    assert isinstance(facts, CardFacts), "a frame has them"
    found = holders(clause.name, [card.capacity for card in cards], pods, facts.claim)
    guessed = [h.pod for h in found if h.is_guessed and isinstance(h.pod, Peer)]
    beyond = (h.pod for h in found if any(index >= len(cards) for index in h.cards))
    lost = [pod for pod in beyond if isinstance(pod, Peer)]
    return CardUse(cards, len(found), guessed, lost)


# What all cards of a node have of an amount, and what pods take of it.
Sums = tuple[int, int]


def sums(uses: Mapping[str, CardUse]) -> Mapping[str, Sums]:
    """What the cards of a node have and give, by clause and amount."""
    found: dict[str, Sums] = {}
    for name, its in uses.items():
        for card in its.cards:
            for key, has in card.capacity.items():
                total, used = found.get(f"{name}/{key}", (0, 0))
                found[f"{name}/{key}"] = total + has, used + card.used.get(key, 0)
    return found


class CardQuestions:
    """Questions about the cards of nodes, and the usual pods by which fragmentation is measured."""

    def __init__(
        self, calls: CallOpener, pods: RequestPodReader, now: Callable[[], Timestamp]
    ) -> None:
        self._calls = calls
        self._pods = pods
        self._now = now

    @property
    def are_used(self) -> bool:
        """Whether a policy has cards."""
        return self._calls.registry.cards

    def measure_by(self, shapes: Mapping[str, Iterable[CardShape]]) -> None:
        """Measures the fragmentation of the cards of each clause by these pods from now on.

        What was scored by others is forgotten.
        """
        mixes = {clause: Mix(pods) for clause, pods in shapes.items()}
        if mixes != self._calls.facts.mixes:
            self._calls.measure_by(mixes)

    def shapes(self, pods: Iterable[bytes]) -> Mapping[str, Sequence[CardShape]]:
        """What pods need of the cards of each clause. Raises BadObjectError."""
        found: dict[str, list[CardShape]] = {}
        for body in pods:
            call = self._calls.open(self._pods.read(body), (), math.inf)
            for clause in call.plan.selection.of(CardsProgram):
                needed = shape(clause, call.evaluation.frame())
                if needed is not None:
                    found.setdefault(clause.name, []).append(needed)
        return found

    def demand(self, pod: bytes) -> Mapping[str, int]:
        """What a pod takes of all its cards, by clause and amount. Raises BadObjectError."""
        call = self._calls.open(self._pods.read(pod), (), math.inf)
        clauses = call.plan.selection.of(CardsProgram)
        return {
            f"{name}/{key}": its.cards * amount
            for name, its in demands(clauses, call.evaluation).items()
            for key, amount in its.take.items()
        }

    def uses(self, nodes: Iterable[NodeWithPods]) -> Sequence[Mapping[str, CardUse]]:
        """The cards of each node with their pods, by clause; none that cannot be read."""
        registry = self._calls.registry
        frame = Frame(None, self._now(), slots=registry.slots)
        frame.cardFacts = self._calls.facts
        clauses = {c.name: c for p in registry.programs for c in p.of(CardsProgram)}
        found = []
        for node in nodes:
            frame.node = node
            its = ((name, use(clause, frame)) for name, clause in clauses.items())
            found.append({name: each for name, each in its if each is not None})
        return found

    def sums(self, nodes: Iterable[NodeWithPods]) -> Sequence[Mapping[str, Sums]]:
        """What the cards of each node have and give, by clause and amount."""
        return [sums(uses) for uses in self.uses(nodes)]

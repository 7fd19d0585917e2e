"""Card choice: the cards of a node that a pod takes when it is bound, and how its Binding says so.

The choice is made in the same turn of the event loop in which the pod begins to count on the node,
so no two pods are given the same part of a card.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from engine.errors import RefusedError, WaitingError
from engine.objects.peer import Peer
from engine.objects.resources import Resources
from engine.program.frame import Evaluation, Frame
from engine.program.program import CardsProgram, applies
from grammar.messages.texts import shown
from grammar.values.cards import (
    TAKEN,
    CardFacts,
    Cards,
    CardShape,
    Demand,
    Taken,
    annotation,
    holders,
    taken,
)
from grammar.values.errors import EvaluationError, MissingError


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
            raise WaitingError(clause.message(evaluation)) from None
        except EvaluationError as error:
            evaluation.report(clause.policy, clause.name, error)
            raise RefusedError(f"{clause.message(evaluation)}: {shown(str(error))}") from None
        finally:
            evaluation.time.rest()
    if takes:
        found[TAKEN] = annotation(takes)
    return found


def shape(clause: CardsProgram, frame: Frame) -> CardShape | None:
    """What the frame's pod needs, by which fragmentation is measured; None if that is not known."""
    requests: Resources = frame.pod.requests  # type: ignore[attr-defined]
    cpu = requests["cpu"].nanos // _MILLI
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
    cpu = pod.requests["cpu"].nanos // _MILLI
    for clause, its in taken(text).items():
        yield clause, CardShape(cpu, len(its.cards), next(iter(its.take.values()), 0))


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
    return Demand(number, take)


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


_MILLI = 10**6


def _taken(clause: CardsProgram, frame: Frame) -> Taken | None:
    number, take = demand(clause, frame)
    if not number:
        return None
    chosen = clause.chosen(frame)
    assert isinstance(chosen, list | tuple), "the checker has seen its type"
    return Taken(tuple(sorted(card.index for card in chosen)), dict(take))

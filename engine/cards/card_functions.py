"""Functions of cards: the values of `cards.*`, which policies with a `cards` clause have.

The language declares these functions (`grammar.meaning.card_forms`), and checks and prints policies
with them. Whoever evaluates a policy takes its environment `with_cards`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from engine.cards.fragmentation import MILLI, Mix, Need, need
from engine.cards.node_cards import (
    MOST_CARDS,
    Amounts,
    CardPod,
    Cards,
    Claim,
    alike,
    cards_with,
    first,
    fitting,
    holders,
    no_claim,
    spare,
)
from grammar.meaning.card_forms import DECLARED
from grammar.meaning.environment import FUNCTIONS_OF_CARDS, Environment, Functions
from grammar.values.errors import EvaluationError
from grammar.values.quantity import Quantity

# More amounts of one card are a mistake.
_MOST_AMOUNTS = 8


@dataclass(frozen=True, slots=True, eq=False)
class CardFacts:
    """What is known of cards beside the nodes, by the names of clauses.

    `mixes` are the usual pods, and `claim` says what a pod takes that others have bound.
    """

    mixes: Mapping[str, Mix] = field(default_factory=dict)
    claim: Callable[[str, CardPod], Claim | None] = no_claim


NO_FACTS = CardFacts()


def cards_of(
    name: str, capacities: Sequence[Amounts], pods: Sequence[CardPod], facts: CardFacts
) -> Cards:
    """The cards of a node; pods on cards that the node does not have any more count nowhere.

    Raises EvaluationError.
    """
    if len(capacities) > MOST_CARDS:
        raise EvaluationError(f"a node has {len(capacities)} cards, more than {MOST_CARDS}")
    if any(len(capacity) > _MOST_AMOUNTS for capacity in capacities):
        raise EvaluationError(f"a card has more than {_MOST_AMOUNTS} amounts")
    return cards_with(capacities, holders(name, capacities, pods, facts.claim))


def by_fragmentation(
    cards: Cards, needs: Need, free: Quantity, facts: CardFacts, name: str
) -> Cards:
    """The cards that a pod takes by `fragmentation` with each of them, the greatest first.

    They are what `first` of `sortBy` with that gives, with the work for the node done once.
    Raises as `fitting` and `first`.
    """
    mix = facts.mixes.get(name)
    if not cards or mix is None:
        return tuple(first(fitting(cards, needs.take), needs.cards))
    chosen, _ = mix.best(cards, needs, free.nanos // MILLI)
    return tuple([cards[index] for index in chosen])


def best_fragmentation(
    cards: Cards, needs: Need, free: Quantity, facts: CardFacts, name: str
) -> float:
    """`fragmentation` with the cards of `by_fragmentation`. Raises as it."""
    mix = facts.mixes.get(name)
    if not cards or mix is None:
        first(fitting(cards, needs.take), needs.cards)
        return 0.0
    return mix.best(cards, needs, free.nanos // MILLI)[1]


def fragmentation(
    cards: Cards, chosen: Cards, needs: Need, free: Quantity, facts: CardFacts, name: str
) -> float:
    """By how much the idle cards of a node are less fragmented once a pod takes some of them.

    In the unit of the first amount.
    """
    mix = facts.mixes.get(name)
    if not cards or mix is None:
        return 0.0
    return mix.gain_of([card.index for card in chosen], cards, needs, free.nanos // MILLI)


_CALLS: Mapping[str, Callable[..., object]] = {
    "cards.of": cards_of,
    "cards.alike": alike,
    "cards.fitting": fitting,
    "cards.first": first,
    "cards.spare": spare,
    "cards.byFragmentation": by_fragmentation,
    "cards.bestFragmentation": best_fragmentation,
    "cards.need": need,
    "cards.fragmentation": fragmentation,
}
# Each of them has one overload.
_FUNCTIONS: Functions = MappingProxyType(
    {**FUNCTIONS_OF_CARDS, **{o.name: (replace(o, call=_CALLS[o.name]),) for o in DECLARED}}
)


def with_cards(environment: Environment) -> Environment:
    """The environment in which the functions of cards have values, if it has these functions."""
    if environment.functions is not FUNCTIONS_OF_CARDS:
        return environment
    return replace(environment, functions=_FUNCTIONS)

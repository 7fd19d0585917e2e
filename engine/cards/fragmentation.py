"""Fragmentation: how much of the idle cards of nodes the usual pods could not use.

A Mix of usual pods belongs to the engine, which replaces it now and then. It keeps what these pods
could use, in tables that nodes with the same amounts share.

The functions `cards.*` ask it. The language declares them (`grammar.meaning.card_forms`): whoever
evaluates a policy takes its environment `with_cards`.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from types import MappingProxyType
from typing import NamedTuple

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
    require_possible,
    spare,
)
from grammar.meaning.card_forms import DECLARED
from grammar.meaning.environment import FUNCTIONS_OF_CARDS, Environment, Functions
from grammar.values.errors import EvaluationError
from grammar.values.quantity import Quantity

# The tables that are kept, and their rows.
_MOST_TABLES, _MOST_KEPT = 256, 1024
# The nanos of a thousandth of a CPU.
MILLI = 10**6


class CardShape(NamedTuple):
    """Card shape of a pod: thousandths of a CPU, and an amount of so many cards."""

    cpu: int
    cards: int
    amount: int


class Need(NamedTuple):
    """What a pod needs: of so many cards, these amounts each, and thousandths of a CPU.

    Fragmentation is measured by the first `amount`, of which it takes so much; None without any.
    """

    cards: int
    take: Amounts
    cpu: int
    amount: str | None
    taken: int


def need(count: int, amounts: Amounts, cpu: Quantity) -> Need:
    """What a pod needs. Raises EvaluationError for an impossible amount."""
    require_possible(amounts)
    first_amount = next(iter(amounts), None)
    taken = 0 if first_amount is None else amounts[first_amount]
    return Need(count, amounts, cpu.nanos // MILLI, first_amount, taken)


class _Usable:
    """Usable amounts of idle cards for usual pods, where a node has enough of a CPU for them.

    An amount counts once for each such pod, so that all of it is in whole numbers.

    A pod of one card can use each card that is large enough, whatever the others have left. So what
    such pods can use is a sum over the cards. For pods of several cards it also depends on how many
    cards are large enough.
    """

    __slots__ = ("_amounts", "_pods", "several")

    def __init__(self, shapes: Iterable[tuple[CardShape, int]]) -> None:
        ones, several = Counter[int](), dict[int, Counter[int]]()
        for shape, count in shapes:
            if shape.cards == 1:
                ones[shape.amount] += count
            elif 1 < shape.cards <= MOST_CARDS:
                several.setdefault(shape.amount, Counter())[shape.cards] += count
        # The amounts of pods of one card, and the number of pods with one of the first n amounts.
        self._amounts = sorted(ones)
        self._pods = [0, *accumulate(map(ones.__getitem__, self._amounts))]
        # By their amount, the number of pods that need at most n cards, for all n that differ.
        self.several = [
            (amount, [*accumulate(map(each.__getitem__, range(max(each) + 1)))])
            for amount, each in several.items()
        ]

    def of_card(self, left: int) -> int:
        """What pods of one card could use of a card with so much left."""
        return left * self._pods[bisect_right(self._amounts, left)]

    def of(self, left: Sequence[int]) -> int:
        """What all of them could use of cards with so much left each."""
        found = sum(map(self.of_card, left))
        for amount, pods in self.several:
            large = [each for each in left if each >= amount]
            found += sum(large) * pods[min(len(large), len(pods) - 1)]
        return found


# What is gained with a card that has no room.
_NO_ROOM = -math.inf


class _Gains(dict[int, float]):
    """Gains of usual pods of one card, once a pod takes so much, by what the card has left.

    Fragmentation is what is idle without what is usable: less is idle beside the pod, and less
    usable. `pods` is the number of all usual pods.
    """

    def __init__(self, usable: _Usable, pods: int, taken: int) -> None:
        super().__init__()
        self._usable = usable
        self._pods = pods
        self._taken = taken

    def __missing__(self, left: int) -> float:
        if len(self) >= _MOST_KEPT:
            self.clear()
        taken, of_card = self._taken, self._usable.of_card
        gain: float = _NO_ROOM
        if left >= taken or not taken:
            gain = taken * self._pods + of_card(left - taken) - of_card(left)
        self[left] = gain
        return gain

    def of(self, left: Sequence[int]) -> list[float]:
        """What all usual pods gain with each card of a node."""
        found = list(map(self.__getitem__, left))
        for amount, pods in self._usable.several:
            large = [each for each in left if each >= amount]
            if not large:
                continue
            # A card that stays large enough loses what is taken, another one all.
            most = len(pods) - 1
            many, fewer = pods[min(len(large), most)], pods[min(len(large) - 1, most)]
            less, taken = sum(large) * (many - fewer), self._taken
            found = [
                gain
                if has < amount
                else gain - taken * many
                if has - taken >= amount
                else gain - less - has * fewer
                for gain, has in zip(found, left, strict=True)
            ]
        return found


class Mix:
    """Mix of usual pods, by which the fragmentation of cards is measured; it does not change.

    Weng et al., Beware of Fragmentation, USENIX ATC 2023: a node is as fragmented as the idle
    amounts of its cards that a usual pod could not use.
    """

    def __init__(self, pods: Iterable[CardShape], part: float = 0.95) -> None:
        """The shapes of which the most frequent make up this part of the pods."""
        counts = Counter(pods)
        ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        wanted = part * sum(counts.values())
        usual: list[tuple[CardShape, int]] = []
        total = 0
        for shape, count in ordered:
            if total >= wanted:
                break
            usual.append((shape, count))
            total += count
        self.shapes = [(shape, count / total) for shape, count in usual]
        self._usual, self._pods = usual, total
        self._cpus = sorted({shape.cpu for shape, _ in usual})
        # By how many of these CPUs a node has enough for; and by that and what a pod takes.
        self._usable: dict[int, _Usable] = {}
        self._gains: dict[tuple[int, int], _Gains] = {}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mix) and self.shapes == other.shapes

    __hash__ = None  # type: ignore[assignment]

    def gain_of(self, chosen: Sequence[int], cards: Cards, needs: Need, cpu: int) -> float:
        """By how much fragmentation falls once a pod takes these cards of a node.

        The node has so many thousandths of a CPU left.
        """
        left = _left_of(needs.amount, cards)
        after = list(left)
        for index in chosen:
            after[index] -= needs.taken
        usable = self._usable_with(bisect_right(self._cpus, cpu - needs.cpu)).of(after)
        usable -= self._usable_with(bisect_right(self._cpus, cpu)).of(left)
        return (len(chosen) * needs.taken * self._pods + usable) / max(self._pods, 1)

    def best(self, cards: Cards, needs: Need, cpu: int) -> tuple[Sequence[int], float]:
        """The numbers of the cards with room that each gain the most, and the gain of all.

        Raises as `fitting` and `first`.
        """
        # For how many of the CPUs of usual pods it has enough, without the pod and beside it.
        now, beside = bisect_right(self._cpus, cpu), bisect_right(self._cpus, cpu - needs.cpu)
        table = self._gains.get((beside, needs.taken))
        if table is None:
            table = self._gains_with(beside, needs.taken)
        gains = table.of(_left_of(needs.amount, cards))
        if len(needs.take) != 1:
            room = {card.index for card in fitting(cards, needs.take)}
            gains = [gain if i in room else _NO_ROOM for i, gain in enumerate(gains)]
        if needs.cards == 1 and now == beside and (most := max(gains)) != _NO_ROOM:
            # The usual case.
            return (gains.index(most),), most / max(self._pods, 1)
        fits = [index for index, gain in enumerate(gains) if gain != _NO_ROOM]
        chosen = first(sorted(fits, key=gains.__getitem__, reverse=True), needs.cards)
        return chosen, self.gain_of(chosen, cards, needs, cpu)

    def _usable_with(self, enough: int) -> _Usable:
        """The table of the usual pods that need one of so many smallest CPUs."""
        found = self._usable.get(enough)
        if found is None:
            if len(self._usable) >= _MOST_TABLES:
                self._usable.clear()
            cpus = set(self._cpus[:enough])
            found = _Usable((shape, count) for shape, count in self._usual if shape.cpu in cpus)
            self._usable[enough] = found
        return found

    def _gains_with(self, enough: int, taken: int) -> _Gains:
        if len(self._gains) >= _MOST_TABLES:
            self._gains.clear()
        found = _Gains(self._usable_with(enough), self._pods, taken)
        self._gains[enough, taken] = found
        return found


def _left_of(amount: str | None, cards: Cards) -> list[int]:
    """What is left of an amount on each card of a node, or of the first one that they have."""
    if amount is None:
        amount = next(iter(cards[0].capacity), "")
    try:
        return [card.free[amount] for card in cards]
    except KeyError:
        return [card.free.get(amount, 0) for card in cards]


# More amounts of one card are a mistake.
_MOST_AMOUNTS = 8


@dataclass(frozen=True, slots=True, eq=False)
class CardFacts:
    """What is known of cards beside the nodes, by the names of clauses.

    `mixes` are the usual pods, and `claim` says what a pod takes that others have bound.
    """

    mixes: Mapping[str, Mix] = field(default_factory=dict)
    claim: Callable[[str, CardPod], Claim | None] = lambda *_: None


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

"""Cards: numbered devices of a node, such as GPUs, what pods take of them, and their fragmentation.

A pod that takes cards has their numbers and its amounts in an annotation, which its Binding sets:
see `engine.program.card_choice`. What a node offers comes from the `cards` clause of a policy.
"""

from __future__ import annotations

import hashlib
import json
import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate
from typing import Any, NamedTuple, Protocol, TypeVar

from grammar.tree.types import (
    DOUBLE,
    INT,
    QUANTITY,
    STRING,
    Overload,
    Type,
    function,
    list_of,
    map_of,
)
from grammar.values.errors import EvaluationError, MissingError
from grammar.values.quantity import Quantity
from grammar.values.sizes import Size

# The annotation with the cards of a pod, by the names of clauses.
TAKEN = "placet.dev/cards"
# More cards of one node are a mistake.
MOST_CARDS = 256
_MOST_AMOUNTS = 8
# The tables that are kept, and their rows.
_MOST_TABLES, _MOST_KEPT = 256, 1024

Amounts = Mapping[str, int]


# Not frozen, which takes three times as long to make; nobody writes to one.
@dataclass(slots=True)
class Card:
    """A card of a node: what it has, what the pods there take of it, and what they leave `free`.

    That is below 0 where pods take more than it has.
    """

    index: int
    capacity: Amounts
    used: Amounts
    pods: int
    free: Amounts = field(init=False)

    def __post_init__(self) -> None:
        # Worked out once, because it is asked for each kind of pod.
        used, has = self.used, self.capacity
        self.free = {name: all_ - used.get(name, 0) for name, all_ in has.items()} if used else has

    def fits(self, amounts: Amounts) -> bool:
        """Whether so much is left. An amount that the card does not have is 0."""
        # A loop, because this is asked of all cards for each kind of pod.
        for name, need in amounts.items():  # noqa: SIM110
            if 0 < need > self.free.get(name, 0):
                return False
        return True


Cards = tuple[Card, ...]


@dataclass(frozen=True, slots=True)
class Taken:
    """What a pod takes: the numbers of its cards, and of each of them these amounts."""

    cards: tuple[int, ...]
    take: Amounts


class Demand(NamedTuple):
    """What a pod takes: of so many cards, these amounts each."""

    cards: int
    take: Amounts

    def times(self, amounts: Amounts) -> int:
        """How often others with these amounts have no room any more because of this pod."""
        each = (-(-self.take.get(name, 0) // need) for name, need in amounts.items() if need > 0)
        return self.cards * max(each, default=0)


_NOTHING: Mapping[str, Taken] = {}


@lru_cache(maxsize=4096)
def taken(annotation: str) -> Mapping[str, Taken]:
    """What a pod takes, by the names of clauses; nothing for a text that cannot be read."""
    try:
        found = json.loads(annotation)
        takes = {name: Taken(tuple(its["cards"]), dict(its["take"])) for name, its in found.items()}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return _NOTHING
    numbers = (n for its in takes.values() for n in (*its.cards, *its.take.values()))
    return takes if all(type(n) is int and 0 <= n < 2**62 for n in numbers) else _NOTHING


def annotation(takes: Mapping[str, Taken]) -> str:
    """The text from which `taken` reads the same."""
    found = {name: {"cards": its.cards, "take": dict(its.take)} for name, its in takes.items()}
    return json.dumps(found, separators=(",", ":"))


class CardPod(Protocol):
    """A pod on a node, with its annotations."""

    @property
    def annotations(self) -> Mapping[str, str]: ...


class Claim(NamedTuple):
    """What a pod takes that others have bound, without Placet's annotation.

    `numbers` are those in the annotation of the clause's `index`, none where it says nothing.
    """

    demand: Demand
    numbers: tuple[int, ...] = ()


def no_claim(_name: str, _pod: object) -> Claim | None:
    """What a pod takes that others have bound, where that is not known."""
    return None


class Holder(NamedTuple):
    """A pod on cards of a node. `is_guessed` says that others have bound it without a number."""

    pod: CardPod
    cards: tuple[int, ...]
    take: Amounts
    is_guessed: bool = False


def holders(
    name: str,
    capacities: Sequence[Amounts],
    pods: Iterable[CardPod],
    claim: Callable[[str, CardPod], Claim | None],
) -> list[Holder]:
    """The pods on the cards of a clause, also on those that the node does not have any more.

    A pod that others have bound is on the cards of its index annotation, else on the fullest ones
    that could hold it, else on those with the most left.
    """
    found, others = list[Holder](), list[tuple[CardPod, Claim]]()
    for pod in pods:
        text = pod.annotations.get(TAKEN)
        if text is None:
            if (its := claim(name, pod)) is not None:
                others.append((pod, its))
        elif (has := taken(text).get(name)) is not None:
            found.append(Holder(pod, has.cards, has.take))
    if not others:
        return found
    for pod, (demand, numbers) in others:
        if numbers:
            found.append(Holder(pod, numbers, demand.take))
    for pod, (demand, numbers) in others:
        if not numbers and demand.cards:
            cards = _cards(capacities, found)
            fits = sorted(fitting(cards, demand.take), key=_left)
            rest = sorted((c for c in cards if not c.fits(demand.take)), key=_left, reverse=True)
            chosen = tuple(card.index for card in [*fits, *rest][: demand.cards])
            found.append(Holder(pod, chosen, demand.take, is_guessed=True))
    return found


def _left(card: Card) -> int:
    """What is left of the first amount."""
    return next(iter(card.free.values()), 0)


def _cards(capacities: Sequence[Amounts], found: Iterable[Holder]) -> Cards:
    used: list[dict[str, int]] = [{} for _ in capacities]
    number = [0] * len(capacities)
    for _, cards, take, _ in found:
        for index in cards:
            if 0 <= index < len(used):
                here = used[index]
                number[index] += 1
                for key, amount in take.items():
                    here[key] = here.get(key, 0) + amount
    return tuple([Card(i, has, used[i], number[i]) for i, has in enumerate(capacities)])


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
    return _cards(capacities, holders(name, capacities, pods, facts.claim))


def alike(count: int, amounts: Amounts) -> tuple[Amounts, ...]:
    """So many cards with the same amounts. Raises EvaluationError."""
    if not 0 <= count <= MOST_CARDS:
        raise EvaluationError(f"a node has {count} cards: it can have from 0 to {MOST_CARDS}")
    return (amounts,) * count


def fitting(cards: Cards, amounts: Amounts) -> Cards:
    """The cards that have so much left. Raises EvaluationError for an amount below 0."""
    _check(amounts)
    if len(amounts) == 1:
        # The usual case.
        ((name, need),) = amounts.items()
        return tuple([card for card in cards if not need or need <= card.free.get(name, 0)])
    return tuple([card for card in cards if card.fits(amounts)])


def _check(amounts: Amounts) -> None:
    for amount in amounts.values():
        if amount < 0:
            raise EvaluationError("a pod cannot take less than nothing of a card")


# Where a pod takes nothing, it always fits.
_ENDLESS = 2**31


def spare(cards: Cards, amounts: Amounts, count: int) -> int:
    """The number of times that others must take such amounts until fewer cards have room.

    `count` is the number of cards that must have room. It is 0 where fewer have room now, else what
    is left on those with the least room, until too few are left.
    """
    times = sorted(number for card in cards if (number := _times(card, amounts)) > 0)
    if count <= 0:
        return _ENDLESS
    return sum(times[: max(0, len(times) - count + 1)])


def _times(card: Card, amounts: Amounts) -> int:
    """How often a card has these amounts."""
    found = _ENDLESS
    for name, need in amounts.items():
        if need > 0:
            found = min(found, card.free.get(name, 0) // need)
    return found


_Each = TypeVar("_Each")


def first(cards: Sequence[_Each], count: int) -> Sequence[_Each]:
    """So many cards. Raises EvaluationError for less than none, MissingError if there are fewer."""
    if count < 0:
        raise EvaluationError("a pod cannot take less than no card")
    if count > len(cards):
        raise MissingError("too few cards have room")
    return cards[:count]


def number(value: str, other: str) -> int:
    """The hash of two texts: the same everywhere and always, from 0 to 2**32 - 1."""
    digest = hashlib.blake2b(f"{value}\0{other}".encode(), digest_size=4)
    return int.from_bytes(digest.digest())


# ---- fragmentation


class CardShape(NamedTuple):
    """What a pod needs: thousandths of a CPU, and of so many cards an amount."""

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
    """What a pod needs. Raises EvaluationError for an amount below 0."""
    _check(amounts)
    first_amount = next(iter(amounts), None)
    taken = 0 if first_amount is None else amounts[first_amount]
    return Need(count, amounts, cpu.nanos // _MILLI, first_amount, taken)


class _Usable:
    """What usual pods could use of idle cards, where a node has enough of a CPU for them.

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
    """By what a card has left, what usual pods of one card gain once a pod takes so much of it.

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
    """The usual pods, by which the fragmentation of cards is measured; these do not change.

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
        """What those of the usual pods could use that need one of the so many smallest CPUs."""
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


@dataclass(frozen=True, slots=True, eq=False)
class CardFacts:
    """What is known of cards beside the nodes, by the names of clauses.

    `mixes` are the usual pods, and `claim` says what a pod takes that others have bound.
    """

    mixes: Mapping[str, Mix] = field(default_factory=dict)
    claim: Callable[[str, CardPod], Claim | None] = no_claim


NO_FACTS = CardFacts()


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
    chosen, _ = mix.best(cards, needs, free.nanos // _MILLI)
    return tuple([cards[index] for index in chosen])


def best_fragmentation(
    cards: Cards, needs: Need, free: Quantity, facts: CardFacts, name: str
) -> float:
    """`fragmentation` with the cards of `by_fragmentation`. Raises as it."""
    mix = facts.mixes.get(name)
    if not cards or mix is None:
        first(fitting(cards, needs.take), needs.cards)
        return 0.0
    return mix.best(cards, needs, free.nanos // _MILLI)[1]


def fragmentation(
    cards: Cards, chosen: Cards, needs: Need, free: Quantity, facts: CardFacts, name: str
) -> float:
    """By how much the idle cards of a node are less fragmented once a pod takes some of them.

    In the unit of the first amount.
    """
    mix = facts.mixes.get(name)
    if not cards or mix is None:
        return 0.0
    return mix.gain_of([card.index for card in chosen], cards, needs, free.nanos // _MILLI)


_MILLI = 10**6


def _read(value: str | Size, other: str | Size) -> int:
    return (len(value) + len(other)) // 4


def _each(cards: Cards | Size, *_: Any) -> int:
    return 8 * len(cards)


def _all(
    _name: str | Size,
    capacities: Sequence[Amounts] | Size,
    pods: Sequence[Any] | Size,
    _facts: CardFacts | Size,
) -> int:
    return 16 * (len(capacities) + len(pods))


def _weighed(cards: Cards | Size, *_: Any) -> int:
    return 32 * len(cards)


CARD, FACTS, NEED = Type("Card"), Type("CardFacts"), Type("CardNeed")
_CARDS = list_of(CARD)
_AMOUNTS = map_of(STRING, INT)
_BEST = (_CARDS, NEED, QUANTITY, FACTS, STRING)
# Only policies with a `cards` clause have these, which the clause is written out with.
WRITTEN_OUT: tuple[Overload, ...] = (
    function(
        "cards.of",
        (STRING, list_of(_AMOUNTS), list_of(Type("Peer")), FACTS),
        _CARDS,
        cards_of,
        _all,
    ),
    function("cards.alike", (INT, _AMOUNTS), list_of(_AMOUNTS), alike),
    function("cards.fitting", (_CARDS, _AMOUNTS), _CARDS, fitting, _each),
    function("cards.first", (_CARDS, INT), _CARDS, first),
    function("cards.spare", (_CARDS, _AMOUNTS, INT), INT, spare, _each),
    function("cards.byFragmentation", _BEST, _CARDS, by_fragmentation, _each),
    function("cards.bestFragmentation", _BEST, DOUBLE, best_fragmentation, _each),
    function("cards.need", (INT, _AMOUNTS, QUANTITY), NEED, need),
    function(
        "cards.fragmentation",
        (_CARDS, _CARDS, NEED, QUANTITY, FACTS, STRING),
        DOUBLE,
        fragmentation,
        _weighed,
    ),
)
OVERLOADS: tuple[Overload, ...] = (function("hash", (STRING, STRING), INT, number, _read),)

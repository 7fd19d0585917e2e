"""Cards: numbered devices of a node, such as GPUs, what pods take of them, and their fragmentation.

A pod that takes cards has their numbers and its amounts in an annotation, which its Binding sets:
see `engine.program.cards`. What a node offers comes from the `cards` clause of a policy.
"""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

from grammar.errors import EvaluationError, MissingError
from grammar.types import (
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
from grammar.values.quantity import Quantity
from grammar.values.sizes import Size

# The annotation with the cards of a pod, by the names of clauses.
TAKEN = "placet.dev/cards"
# More cards of one node are a mistake.
MOST_CARDS = 256
_MOST_AMOUNTS = 8
_MOST_KEPT = 65_536

Amounts = Mapping[str, int]


# Not frozen, which takes three times as long to make; nobody writes to one.
@dataclass(slots=True)
class Card:
    """A card of a node: what it has, and what the pods there take of it.

    `free` is below 0 where pods take more than it has.
    """

    index: int
    capacity: Amounts
    used: Amounts
    pods: int

    @property
    def free(self) -> Amounts:
        used = self.used
        return {name: has - used.get(name, 0) for name, has in self.capacity.items()}

    def fits(self, amounts: Amounts) -> bool:
        """Whether so much is left. An amount that the card does not have is 0."""
        # A loop, because this is asked of all cards for each kind of pod.
        for name, need in amounts.items():
            if 0 < need > self.capacity.get(name, 0) - self.used.get(name, 0):
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
    return tuple(
        [Card(i, has, used[i], number[i]) for i, has in enumerate(capacities)],
    )


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
    for amount in amounts.values():
        if amount < 0:
            raise EvaluationError("a pod cannot take less than nothing of a card")
    if len(amounts) == 1:
        # The usual case.
        ((name, need),) = amounts.items()
        return tuple(
            [c for c in cards if not need or need <= c.capacity.get(name, 0) - c.used.get(name, 0)]
        )
    return tuple([card for card in cards if card.fits(amounts)])


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
    capacity, used = card.capacity, card.used
    found = _ENDLESS
    for name, need in amounts.items():
        if need > 0:
            found = min(found, (capacity.get(name, 0) - used.get(name, 0)) // need)
    return found


def first(cards: Cards, count: int) -> Cards:
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


class _Idle:
    """What is left of an amount on each card of a node, and what a pod takes of one card.

    Nodes with the same are alike, and so are cards with as much left. `cpus` are what the node has
    left of CPUs, without the pod and beside it.
    """

    __slots__ = ("_before", "_cpu_left", "_gains", "_mix", "_taken", "left")

    def __init__(self, mix: Mix, left: tuple[int, ...], taken: int, cpus: tuple[int, int]) -> None:
        self.left = left
        self._mix = mix
        self._taken = taken
        self._cpu_left = cpus[1]
        self._before = mix.fragments(left, cpus[0])
        self._gains: dict[int, float] = {}

    def gain(self, left: int) -> float:
        """By how much fragmentation falls with a card that has so much left."""
        if (found := self._gains.get(left)) is None:
            after = [*self.left, left - self._taken]
            after.remove(left)
            found = self._gains[left] = self._before - self._mix.fragments(after, self._cpu_left)
        return found

    def gain_of(self, cards: Cards) -> float:
        """The same with several cards at once."""
        after = list(self.left)
        for card in cards:
            after[card.index] -= self._taken
        return self._before - self._mix.fragments(after, self._cpu_left)


class Mix:
    """The usual pods, by which the fragmentation of cards is measured; these do not change.

    Weng et al., Beware of Fragmentation, USENIX ATC 2023: a node is as fragmented as the idle
    amounts of its cards that a usual pod could not use.
    """

    def __init__(self, pods: Iterable[CardShape], part: float = 0.95) -> None:
        """The shapes of which the most frequent make up this part of the pods."""
        counts = Counter(pods)
        ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        wanted, total = part * sum(counts.values()), 0
        self.shapes: list[tuple[CardShape, float]] = []
        for shape, count in ordered:
            if total >= wanted:
                break
            self.shapes.append((shape, count))
            total += count
        self.shapes = [(shape, count / total) for shape, count in self.shapes]
        self._cpus = sorted({shape.cpu for shape, _ in self.shapes})
        self._known: dict[tuple[int, ...], float] = {}
        self._idle: dict[tuple[int, ...], _Idle] = {}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mix) and self.shapes == other.shapes

    __hash__ = None  # type: ignore[assignment]

    def idle(self, cards: Cards, amounts: Amounts, needed: Quantity, free: Quantity) -> _Idle:
        """What is left on the cards of a node, for a pod that takes these amounts of one."""
        amount = next(iter(amounts or cards[0].capacity))
        taken, cpu = amounts.get(amount, 0), free.nanos // _MILLI
        cpu_left = cpu - needed.nanos // _MILLI
        left = [card.capacity.get(amount, 0) - card.used.get(amount, 0) for card in cards]
        # No shape lies between the next number and the given one.
        key = (taken, bisect_right(self._cpus, cpu), bisect_right(self._cpus, cpu_left), *left)
        found = self._idle.get(key)
        if found is None:
            if len(self._idle) >= _MOST_KEPT:
                self._idle.clear()
            found = self._idle[key] = _Idle(self, tuple(left), taken, (cpu, cpu_left))
        return found

    def fragments(self, free: Sequence[int], cpu: int) -> float:
        """What the usual pods could not use of idle cards, beside so much of a CPU."""
        enough = bisect_right(self._cpus, cpu)
        key = (enough, *sorted(free))
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _MOST_KEPT:
                self._known.clear()
            found = self._known[key] = self._fragments(free, cpu)
        return found

    def _fragments(self, free: Sequence[int], cpu: int) -> float:
        idle, fragments = sum(free), 0.0
        for shape, part in self.shapes:
            large = [left for left in free if left >= shape.amount]
            fits = shape.cards and shape.cpu <= cpu and len(large) >= shape.cards
            fragments += part * (idle - sum(large) if fits else idle)
        return fragments


@dataclass(frozen=True, slots=True, eq=False)
class CardFacts:
    """What is known of cards beside the nodes, by the names of clauses.

    `mixes` are the usual pods, and `claim` says what a pod takes that others have bound.
    """

    mixes: Mapping[str, Mix] = field(default_factory=dict)
    claim: Callable[[str, CardPod], Claim | None] = no_claim


NO_FACTS = CardFacts()


def by_fragmentation(
    fitting: Cards,
    cards: Cards,
    amounts: Amounts,
    needed: Quantity,
    free: Quantity,
    facts: CardFacts,
    name: str,
) -> Cards:
    """The fitting cards of a node by `fragmentation` with each of them, the greatest first.

    It is what `sortBy` with that would give, with the work for the node done once.
    """
    mix = facts.mixes.get(name)
    if mix is None or not fitting:
        return fitting
    idle = mix.idle(cards, amounts, needed, free)
    left = idle.left
    alike = {left[card.index] for card in fitting}
    if len(alike) == 1:
        return fitting
    gains = {each: -idle.gain(each) for each in alike}
    return tuple(sorted(fitting, key=lambda card: gains[left[card.index]]))


def fragmentation(
    cards: Cards,
    chosen: Cards,
    amounts: Amounts,
    needed: Quantity,
    free: Quantity,
    facts: CardFacts,
    name: str,
) -> float:
    """By how much the idle cards of a node are less fragmented once a pod takes some of them.

    In the unit of the first amount.
    """
    mix = facts.mixes.get(name)
    if not cards or mix is None:
        return 0.0
    idle = mix.idle(cards, amounts, needed, free)
    if len(chosen) == 1:
        return idle.gain(idle.left[chosen[0].index])
    return idle.gain_of(chosen)


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


def _weighed_each(fitting: Cards | Size, cards: Cards | Size, *_: Any) -> int:
    return 32 * len(cards) * (1 + len(fitting))


CARD, FACTS = Type("Card"), Type("CardFacts")
_CARDS = list_of(CARD)
_AMOUNTS = map_of(STRING, INT)
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
    function(
        "cards.byFragmentation",
        (_CARDS, _CARDS, _AMOUNTS, QUANTITY, QUANTITY, FACTS, STRING),
        _CARDS,
        by_fragmentation,
        _weighed_each,
    ),
    function(
        *(
            "cards.fragmentation",
            (_CARDS, _CARDS, _AMOUNTS, QUANTITY, QUANTITY, FACTS, STRING),
            DOUBLE,
        ),
        fragmentation,
        _weighed,
    ),
)
OVERLOADS: tuple[Overload, ...] = (function("hash", (STRING, STRING), INT, number, _read),)

"""Cards of a node: numbered devices such as GPUs, the pods on them, and what these leave.

A pod that takes cards has their numbers and its amounts in an annotation, which its Binding sets:
see `engine.given_cards`. What a node offers comes from the `cards` clause of a policy.
"""

from __future__ import annotations

import json
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple, Protocol, TypeVar

from grammar.values.errors import EvaluationError, MissingError

# The annotation with the cards of a pod, by the names of clauses.
TAKEN = "placet.dev/cards"
# More cards of one node are a mistake, and so is more of one card. What thousands of pods take of a
# card then still is an int of the language.
MOST_CARDS = 256
MOST_AMOUNT = 2**50

Amounts = Mapping[str, int]


# Not frozen, which takes three times as long to make; nobody writes to one.
@dataclass(slots=True)
class Card:
    """A card of a node: the capacity, the amounts that pods there take, and the rest, `free`.

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


def covers(free: Amounts, amounts: Amounts) -> bool:
    """Whether so much is free of a card. An amount that it does not have is 0."""
    # A loop, because this is asked of all cards for each kind of pod.
    for name, need in amounts.items():  # noqa: SIM110
        if 0 < need > free.get(name, 0):
            return False
    return True


Cards = tuple[Card, ...]


@dataclass(frozen=True, slots=True)
class Taken:
    """What a pod takes: the numbers of its cards, and of each of them these amounts."""

    cards: tuple[int, ...]
    take: Amounts


class Demand(NamedTuple):
    """Demand of a pod: so many cards, and these amounts of each.

    It is made by `checked`, because users write the numbers.
    """

    cards: int
    take: Amounts

    @staticmethod
    def checked(cards: int, take: Amounts) -> Demand:
        """The demand. Raises EvaluationError for what no pod can take of a node."""
        require_possible(take)
        if not 0 <= cards <= MOST_CARDS:
            raise EvaluationError(f"a pod takes from 0 to {MOST_CARDS} cards, not {cards}")
        return Demand(cards, take)

    def times(self, amounts: Amounts) -> int:
        """How often others with these amounts have no room any more because of this pod."""
        each = (-(-self.take.get(name, 0) // need) for name, need in amounts.items() if need > 0)
        return min(self.cards * max(each, default=0), MOST_AMOUNT)


_NOTHING: Mapping[str, Taken] = {}
# The longest text that is remembered with what it says, which takes ten times as much.
_KEPT_TEXT = 512


def taken(annotation: str) -> Mapping[str, Taken]:
    """What a pod takes, by the names of clauses; nothing for a text that cannot be read."""
    return _taken_short(annotation) if len(annotation) <= _KEPT_TEXT else _taken(annotation)


@lru_cache(maxsize=4096)
def _taken_short(annotation: str) -> Mapping[str, Taken]:
    return _taken(annotation)


def _taken(annotation: str) -> Mapping[str, Taken]:
    try:
        found = json.loads(annotation)
        takes = {name: Taken(tuple(its["cards"]), dict(its["take"])) for name, its in found.items()}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return _NOTHING
    for its in takes.values():
        numbers = (*its.cards, *its.take.values())
        are_possible = all(type(n) is int and 0 <= n <= MOST_AMOUNT for n in numbers)
        if len(its.cards) > MOST_CARDS or not are_possible:
            return _NOTHING
    return takes


def annotation(takes: Mapping[str, Taken]) -> str:
    """The text from which `taken` reads the same."""
    found = {name: {"cards": its.cards, "take": dict(its.take)} for name, its in takes.items()}
    return json.dumps(found, separators=(",", ":"))


class CardPod(Protocol):
    """A pod on a node, with its annotations."""

    @property
    def annotations(self) -> Mapping[str, str]: ...


class Claim(NamedTuple):
    """Claim of a pod that others have bound, without Placet's annotation.

    `numbers` are those in the annotation of the clause's `index`, none where it says nothing.
    """

    demand: Demand
    numbers: tuple[int, ...] = ()


class Holder(NamedTuple):
    """Holder of cards: a pod. `is_guessed` says that others have bound it without a number."""

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

    A pod that others have bound is on the cards of its index annotation. Without that, it is on the
    fullest cards with room for it, or else on the cards with the most left.
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
    found += [Holder(pod, its.numbers, its.demand.take) for pod, its in others if its.numbers]
    free = [dict(card.free) for card in cards_with(capacities, found)]
    # What is left of the first amount of each card: the fullest card comes first.
    order = sorted([(next(iter(each.values()), 0), index) for index, each in enumerate(free)])
    names = {key for each in free for key in each}
    for pod, ((number, take), numbers) in others:
        if numbers or not number:
            continue
        if len(names) == 1 and take.keys() == names and (need := next(iter(take.values()))) > 0:
            # The usual case.
            at = bisect_left(order, (need,))
            chosen = order[at : at + number]
        else:
            chosen = [each for each in order if covers(free[each[1]], take)][:number]
        if len(chosen) < number:
            rest = [each for each in order if each not in chosen]
            chosen += sorted(rest, key=lambda each: (-each[0], each[1]))[: number - len(chosen)]
        found.append(Holder(pod, tuple([index for _, index in chosen]), take, is_guessed=True))
        for each in chosen:
            order.remove(each)
            here = free[each[1]]
            for key, amount in take.items():
                if key in here:
                    here[key] -= amount
            insort(order, (next(iter(here.values()), 0), each[1]))
    return found


def cards_with(capacities: Sequence[Amounts], found: Iterable[Holder]) -> Cards:
    """The cards of a node with what their pods take."""
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


def alike(count: int, amounts: Amounts) -> tuple[Amounts, ...]:
    """So many cards with the same amounts. Raises EvaluationError."""
    if not 0 <= count <= MOST_CARDS:
        raise EvaluationError(f"a node has {count} cards: it can have from 0 to {MOST_CARDS}")
    return (amounts,) * count


def fitting(cards: Cards, amounts: Amounts) -> Cards:
    """The cards that have so much left. Raises EvaluationError for an impossible amount."""
    require_possible(amounts)
    if len(amounts) == 1:
        # The usual case.
        ((name, need),) = amounts.items()
        return tuple([card for card in cards if not need or need <= card.free.get(name, 0)])
    return tuple([card for card in cards if covers(card.free, amounts)])


def require_possible(amounts: Amounts) -> None:
    """Raises EvaluationError for an amount that no pod can take of a card."""
    for amount in amounts.values():
        if amount < 0:
            raise EvaluationError("a pod cannot take less than nothing of a card")
        if amount > MOST_AMOUNT:
            raise EvaluationError(f"a pod cannot take more than {MOST_AMOUNT} of a card")


# Where a pod takes nothing, it always fits.
_ENDLESS = 2**31


def spare(cards: Cards, amounts: Amounts, count: int) -> int:
    """The number of times that others must take such amounts until fewer cards have room.

    `count` is the number of cards that must have room. The number is 0 where fewer have room now.
    Else the cards with the least room count, until too few are left.
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

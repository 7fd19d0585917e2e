"""The fragmentation of what pods leave of cards, and the cards that mend it the most."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.cards.card_functions import (
    NO_FACTS,
    CardFacts,
    best_fragmentation,
    by_fragmentation,
    cards_of,
    fragmentation,
)
from engine.cards.fragmentation import CardShape, Mix, need
from engine.cards.node_cards import (
    TAKEN,
    Card,
    Taken,
    alike,
    annotation,
)
from grammar.values.errors import MissingError
from grammar.values.quantity import Quantity

WHOLE = {"milli": 1000}


@dataclass(frozen=True)
class OnNode:
    annotations: dict[str, str] = field(default_factory=dict)


def on(*cards: int, milli: int = 500, name: str = "gpu") -> OnNode:
    return OnNode({TAKEN: annotation({name: Taken(cards, {"milli": milli})})})


# As in Weng et al., ATC 2023.
SHAPES = [
    CardShape(4000, 1, 500),
    CardShape(8000, 2, 1000),
    CardShape(2000, 0, 0),
    CardShape(16000, 1, 1000),
    CardShape(1000, 3, 400),
]


def lost(free: list[int], cpu: int, shape: CardShape) -> int:
    """As the paper says it: what a usual pod could not use of the idle cards."""
    fits = cpu >= shape.cpu and sum(f >= shape.amount for f in free) >= shape.cards > 0
    return sum(f for f in free if f < shape.amount) if fits else sum(free)


@given(
    st.lists(st.integers(-100, 1000), min_size=1, max_size=8),
    st.integers(0, 1000),
    st.integers(0, 3),
    st.tuples(st.integers(0, 20_000), st.integers(0, 20_000)),
    st.lists(st.sampled_from(SHAPES), max_size=60),
)
def test_the_best_cards_are_those_that_mend_the_most(
    free: list[int], milli: int, count: int, cpus: tuple[int, int], pods: list[CardShape]
) -> None:
    """Each by itself; the first of equal ones, and all of them at once count."""
    facts = CardFacts({"gpu": Mix(pods, part=1)})
    cards = tuple(Card(i, WHOLE, {"milli": 1000 - left}, 0) for i, left in enumerate(free))
    needed, has = (Quantity.parse(f"{cpu}m") for cpu in cpus)
    needs = need(count, {"milli": milli}, needed)
    given = (needs, has, facts, "gpu")

    def gain(*chosen: int) -> Fraction:
        after = [left - milli * (i in chosen) for i, left in enumerate(free)]
        less = [lost(free, cpus[1], p) - lost(after, cpus[1] - cpus[0], p) for p in pods]
        return Fraction(sum(less), max(len(pods), 1))

    room = [i for i, left in enumerate(free) if left >= milli or not milli]
    wanted = sorted(room, key=lambda i: -gain(i))[:count]
    for _ in range(2):
        if len(room) < count:
            with pytest.raises(MissingError, match="too few"):
                by_fragmentation(cards, *given)
            continue
        chosen = by_fragmentation(cards, *given)
        assert [card.index for card in chosen] == wanted
        assert best_fragmentation(cards, *given) == float(gain(*wanted))
        assert fragmentation(cards, chosen, *given) == float(gain(*wanted))


def test_the_usual_pods_are_the_most_frequent_ones() -> None:
    pods = [SHAPES[0]] * 60 + [SHAPES[1]] * 36 + [SHAPES[2]] * 4
    assert Mix(pods).shapes == [(SHAPES[0], 60 / 96), (SHAPES[1], 36 / 96)]
    assert Mix([]).shapes == []


def test_a_pod_that_fills_a_card_mends_fragmentation() -> None:
    facts = CardFacts({"gpu": Mix([CardShape(1000, 1, 1000)])})
    cards = cards_of("gpu", alike(2, WHOLE), [on(0)], NO_FACTS)
    half, free = need(1, {"milli": 500}, Quantity.parse("1")), Quantity.parse("8")
    assert fragmentation(cards, (cards[0],), half, free, facts, "gpu") == 500
    assert fragmentation(cards, (cards[1],), half, free, facts, "gpu") == -500
    # Without CPUs for a usual pod, all that is idle is lost.
    nothing = need(0, {}, Quantity.parse("8"))
    assert fragmentation(cards, (), nothing, free, facts, "gpu") == -1000
    assert fragmentation((), (), half, free, facts, "gpu") == 0
    assert fragmentation(cards, (cards[0],), half, free, facts, "nic") == 0

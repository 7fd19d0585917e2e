"""The cards of a node, and what pods take of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.cards.fragmentation import (
    NO_FACTS,
    CardFacts,
    cards_of,
    need,
)
from engine.cards.node_cards import (
    MOST_CARDS,
    TAKEN,
    Card,
    CardPod,
    Claim,
    Demand,
    Taken,
    alike,
    annotation,
    first,
    fitting,
    holders,
    spare,
    taken,
)
from grammar.values.errors import EvaluationError, MissingError
from grammar.values.quantity import Quantity
from tests.support.books import examples

WHOLE = {"milli": 1000}


@dataclass(frozen=True)
class OnNode:
    annotations: dict[str, str] = field(default_factory=dict)


def on(*cards: int, milli: int = 500, name: str = "gpu") -> OnNode:
    return OnNode({TAKEN: annotation({name: Taken(cards, {"milli": milli})})})


# ---- what pods take


def test_cards_have_what_the_pods_on_them_leave() -> None:
    found = cards_of(
        "gpu", alike(3, WHOLE), [on(0), on(0, 2, milli=300), on(1, name="other")], NO_FACTS
    )
    assert [(c.index, dict(c.free), c.pods) for c in found] == [
        (0, {"milli": 200}, 2),
        (1, {"milli": 1000}, 0),
        (2, {"milli": 700}, 1),
    ]


def test_a_card_that_is_gone_keeps_its_pods_and_offers_nothing() -> None:
    found = cards_of("gpu", alike(1, WHOLE), [on(0), on(3)], NO_FACTS)
    assert [(c.index, dict(c.free)) for c in found] == [(0, {"milli": 500})]


def test_pods_may_take_more_than_a_card_has_left() -> None:
    (card,) = cards_of("gpu", alike(1, {"milli": 400}), [on(0)], NO_FACTS)
    assert card.free == {"milli": -100}
    assert fitting((card,), {"milli": 1}) == ()
    assert fitting((card,), {"milli": 0}) == (card,)


def test_an_amount_that_a_card_does_not_have_is_none() -> None:
    (card,) = cards_of("gpu", alike(1, WHOLE), [], NO_FACTS)
    assert fitting((card,), {"memory": 1}) == ()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"gpu": 1}',
        '{"gpu": {"cards": [0]}}',
        '{"gpu": {"cards": ["0"], "take": {"milli": 1}}}',
        '{"gpu": {"cards": [0], "take": {"milli": -1}}}',
        '{"gpu": {"cards": [true], "take": {"milli": 1}}}',
        '{"gpu": {"cards": [0], "take": {"milli": 1e400}}}',
        "[" * 1_000_000,
    ],
)
def test_a_text_that_cannot_be_read_takes_nothing(text: str) -> None:
    assert taken(text) == {}
    assert cards_of("gpu", alike(1, WHOLE), [OnNode({TAKEN: text})], NO_FACTS)[0].pods == 0


@given(
    st.dictionaries(
        st.text(max_size=5),
        st.builds(
            Taken,
            st.lists(st.integers(0, 300), max_size=4).map(tuple),
            st.dictionaries(st.text(max_size=5), st.integers(0, 10**9), max_size=3),
        ),
        max_size=3,
    )
)
def test_what_is_written_is_read(takes: dict[str, Taken]) -> None:
    assert taken(annotation(takes)) == takes


@pytest.mark.parametrize("count", [-1, MOST_CARDS + 1])
def test_a_number_of_cards_that_cannot_be_is_an_error(count: int) -> None:
    with pytest.raises(EvaluationError, match=f"{count} cards"):
        alike(count, WHOLE)


def test_too_few_cards_are_missing() -> None:
    cards = cards_of("gpu", alike(2, WHOLE), [], NO_FACTS)
    assert [c.index for c in first(cards, 1)] == [0]
    with pytest.raises(MissingError, match="too few"):
        first(cards, 3)
    with pytest.raises(EvaluationError, match="less than no"):
        first(cards, -1)
    with pytest.raises(EvaluationError, match="less than nothing"):
        fitting(cards, {"milli": -1})
    with pytest.raises(EvaluationError, match="less than nothing"):
        need(1, {"milli": -1}, Quantity.parse("1"))


# ---- what others may take


@given(
    st.lists(st.integers(0, 1000), min_size=1, max_size=5),
    st.integers(1, 1000),
    st.integers(1, 4),
    st.lists(st.tuples(st.integers(1, 3), st.integers(1, 1000)), max_size=4),
    st.randoms(use_true_random=False),
)
def test_with_spare_room_others_are_never_in_the_way(
    free: list[int], milli: int, count: int, others: list[tuple[int, int]], dice: Random
) -> None:
    """Whatever cards they take."""
    found = tuple(Card(i, WHOLE, {"milli": 1000 - left}, 0) for i, left in enumerate(free))
    left, takes = spare(found, {"milli": milli}, count), {"milli": milli}
    assert (left > 0) == (len(fitting(found, takes)) >= count)
    demands = [Demand(number, {"milli": taken}) for number, taken in others]
    if sum(demand.times(takes) for demand in demands) >= left:
        return
    now = list(free)
    for demand in demands:
        room = [i for i, milli in enumerate(now) if milli >= demand.take["milli"]]
        for i in dice.sample(room, min(len(room), demand.cards)):
            now[i] -= demand.take["milli"]
    assert sum(left >= milli for left in now) >= count


def test_spare_room_is_what_it_takes_to_fill_the_fullest_cards() -> None:
    found = tuple(Card(i, WHOLE, {"milli": used}, 0) for i, used in enumerate((0, 500, 900)))
    takes = {"milli": 250, "memory": 0}
    assert [spare(found, takes, count) for count in (1, 2, 3)] == [6, 2, 0]
    assert spare(found, takes, 0) > 1000
    assert Demand(2, {"milli": 300}).times(takes) == 4
    assert Demand(2, {"other": 300}).times(takes) == 0


# ---- pods that others have bound


def test_pods_of_others_are_where_their_annotation_says_or_on_the_fullest_card() -> None:
    """They come after the pods that Placet has bound."""
    numbered, guessed, plain = OnNode({"who": "a"}), OnNode({"who": "b"}), OnNode()
    claims = {
        "a": Claim(Demand(1, {"milli": 300}), (2,)),
        "b": Claim(Demand(1, {"milli": 400})),
    }

    def claim(name: str, pod: CardPod) -> Claim | None:
        return claims.get(pod.annotations.get("who", "")) if name == "gpu" else None

    pods = [guessed, plain, numbered, on(1, milli=100)]
    found = cards_of("gpu", alike(3, WHOLE), pods, CardFacts({}, claim))
    assert [(card.free["milli"], card.pods) for card in found] == [(1000, 0), (900, 1), (300, 2)]
    assert cards_of("nic", alike(1, WHOLE), pods, CardFacts({}, claim))[0].pods == 0
    known = [
        (holder.cards, holder.is_guessed) for holder in holders("gpu", [WHOLE] * 3, pods, claim)
    ]
    assert known == [((1,), False), ((2,), False), ((2,), True)]


@pytest.mark.parametrize(
    ("count", "milli", "wanted"), [(2, 500, (1, 2)), (2, 800, (0, 2)), (4, 100, (0, 1, 2))]
)
def test_where_no_card_could_hold_it_a_pod_of_others_is_on_those_with_the_most_left(
    count: int, milli: int, wanted: tuple[int, ...]
) -> None:
    pods = [on(1, milli=500), on(2, milli=300), OnNode({"who": "a"})]
    its = Claim(Demand(count, {"milli": milli}))

    def claim(_: str, pod: CardPod) -> Claim | None:
        return its if "who" in pod.annotations else None

    assert sorted(holders("gpu", [WHOLE] * 3, pods, claim)[-1].cards) == list(wanted)


def plainly_guessed(
    capacities: list[dict[str, int]], claims: list[Demand]
) -> list[tuple[int, ...]]:
    """The cards of each pod of others: on the fullest with room, else on those with the most."""
    free, found = [dict(each) for each in capacities], list[tuple[int, ...]]()

    def left(card: int) -> int:
        return next(iter(free[card].values()), 0)

    for number, take in claims:
        fits = [
            card
            for card, has in enumerate(free)
            if all(amount <= 0 or amount <= has.get(name, 0) for name, amount in take.items())
        ]
        rest = [card for card in range(len(free)) if card not in fits]
        chosen = [*sorted(fits, key=left), *sorted(rest, key=left, reverse=True)][:number]
        for card in chosen:
            for name in free[card].keys() & take.keys():
                free[card][name] -= take[name]
        found.append(tuple(chosen))
    return found


@pytest.mark.parametrize("seed", range(examples(2000)))
def test_pods_of_others_are_where_a_plain_guess_has_them(seed: int) -> None:
    random = Random(seed)
    names = ["milli", "memory", "slots"][: random.randint(1, 3)]
    capacities = [
        {name: random.choice((0, 5, 10, 1000)) for name in names}
        for _ in range(random.randint(0, 6))
    ]
    claims = [
        Demand(
            random.randint(1, 4),
            {
                name: random.choice((0, 1, 3, 5, 7, 10, 2000))
                for name in random.sample([*names, "other"], random.randint(0, len(names)))
            },
        )
        for _ in range(random.randint(0, 9))
    ]
    pods = [OnNode({"who": str(number)}) for number in range(len(claims))]
    found = holders(
        "gpu", capacities, pods, lambda _, pod: Claim(claims[int(pod.annotations["who"])])
    )
    assert [holder.cards for holder in found] == plainly_guessed(capacities, claims)

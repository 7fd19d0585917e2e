"""The functions of cards, and the fragmentation that they read."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.cards.fragmentation import (
    NO_FACTS,
    CardFacts,
    CardShape,
    Mix,
    best_fragmentation,
    by_fragmentation,
    cards_of,
    fragmentation,
    need,
    with_cards,
)
from engine.cards.node_cards import (
    Card,
    alike,
)
from engine.program.compiler import Compiler
from engine.program.frame import Frame
from grammar.checker.expression_checker import Checker
from grammar.checker.policy_checker import environment_of
from grammar.clauses.cards import Cards
from grammar.meaning import card_forms
from grammar.meaning.environment import Environment
from grammar.meaning.evaluator import evaluate
from grammar.tree.ast import Expr, Ident
from grammar.values.errors import EvaluationError, MissingError
from grammar.values.quantity import Quantity
from tests.engine.cards.test_node_cards import WHOLE, on
from tests.support.builders import node, pod
from tests.support.engines import NOW, SCHEMA, checked, frame_of, snapshot_of

(GIVEN,) = checked(
    """policy p { for pods where true
    cards "gpu" {
      on node 2 of {"milli": 1000}
      take 1 of {"milli": 300}
      pick most fragmentation("gpu")
    } }"""
)
(CLAUSE,) = (clause for clause in GIVEN.policy.clauses if isinstance(clause, Cards))
DECLARED = environment_of(GIVEN.policy, SCHEMA, [])
FACTS = CardFacts({"gpu": Mix([CardShape(1000, 1, 500)])})
NODE, SPAN = Ident("node", False, span=CLAUSE.span), CLAUSE.span
FORMS = {
    "cards": card_forms.cards(CLAUSE, NODE, SPAN),
    "room": card_forms.room(CLAUSE, NODE, SPAN),
    "spare": card_forms.spare(CLAUSE, NODE, SPAN),
    "chosen": card_forms.chosen(CLAUSE, NODE, SPAN),
    "fragmentation": card_forms.fragmentation(CLAUSE, NODE, None, SPAN),
}


def read() -> Frame:
    frame = frame_of(pod("new", cpu="1"))
    frame.node = snapshot_of([node("n1", cpu="8")]).table.node("n1")
    frame.cardFacts = FACTS
    return frame


def evaluated(expr: Expr, environment: Environment) -> object:
    frame = read()
    variables = {"pod": frame.pod, "node": frame.node, "now": NOW, "cardFacts": FACTS}
    return evaluate(expr, variables, environment)


@pytest.mark.parametrize("name", FORMS)
def test_evaluator_and_program_give_a_form_the_same_value(name: str) -> None:
    expr = Checker(DECLARED).check(FORMS[name])
    program = Compiler(DECLARED).compile(expr)
    assert evaluated(expr, with_cards(DECLARED)) == program(read())


@pytest.mark.parametrize("name", FORMS)
def test_without_an_engine_a_form_has_no_value(name: str) -> None:
    expr = Checker(DECLARED).check(FORMS[name])
    with pytest.raises(EvaluationError, match="cards of nodes are not known here"):
        evaluated(expr, DECLARED)


def test_each_function_keeps_what_the_language_says_of_it() -> None:
    given = with_cards(DECLARED)
    for declared in card_forms.DECLARED:
        (overload,) = given.functions[declared.name]
        assert overload.call is not declared.call
        assert (overload.params, overload.result) == (declared.params, declared.result)
        assert overload.work is declared.work


def test_only_policies_with_cards_have_the_functions() -> None:
    plain = Environment(variables={}, schema=SCHEMA)
    assert with_cards(plain) is plain
    assert not any(name.startswith("cards.") for name in plain.functions)
    given = with_cards(DECLARED)
    assert with_cards(given) is given


# ---- the fragmentation of what pods leave of cards, and the cards that mend it the most


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

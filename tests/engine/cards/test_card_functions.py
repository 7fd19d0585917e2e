"""The functions of cards: the language declares them, and the engine gives them values."""

from __future__ import annotations

import pytest

from engine.cards.card_functions import CardFacts, with_cards
from engine.cards.fragmentation import CardShape, Mix
from engine.program.compiler import Compiler
from engine.program.frame import Frame
from grammar.checker.expression_checker import Checker
from grammar.checker.policy_checker import environment_of
from grammar.meaning import card_forms
from grammar.meaning.environment import Environment
from grammar.meaning.evaluator import evaluate
from grammar.tree.ast import Expr, Ident
from grammar.tree.clauses import Cards
from grammar.values.errors import EvaluationError
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
NODE, POD, SPAN = Ident("node", False, CLAUSE.span), Ident("pod", False, CLAUSE.span), CLAUSE.span
FORMS = {
    "cards": card_forms.cards(CLAUSE, NODE, SPAN),
    "room": card_forms.room(CLAUSE, NODE, SPAN),
    "spare": card_forms.spare(CLAUSE, NODE, SPAN),
    "chosen": card_forms.chosen(CLAUSE, NODE, SPAN),
    "fragmentation": card_forms.fragmentation(CLAUSE, NODE, POD, None, SPAN),
}


def read() -> Frame:
    frame = frame_of(pod("new", cpu="1"))
    frame.node = snapshot_of([node("n1", cpu="8")]).table.node("n1")
    frame.cardFacts = FACTS
    return frame


def evaluated(expr: Expr, environment: Environment) -> object:
    frame = read()
    variables = {"pod": frame.pod, "node": frame.node, "now": NOW, card_forms.FACTS: FACTS}
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

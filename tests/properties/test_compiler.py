"""Compiled programs equal the plain evaluator: value by value, error by error."""

from __future__ import annotations

from functools import partial
from typing import Any

from hypothesis import given, settings

from engine.program.compiler import Compiler
from engine.program.frame import Frame
from grammar.checker.expression_checker import Checker
from grammar.checker.policy_checker import VARIABLES
from grammar.meaning.constants import fold
from grammar.meaning.environment import Environment
from grammar.meaning.evaluator import evaluate
from grammar.syntax.parser import parse_expression
from grammar.tree.printer import print_expression
from grammar.tree.source import Source
from grammar.values.errors import EvaluationError
from grammar.values.time import Timestamp
from tests.properties import strategies
from tests.support.builders import raw
from tests.support.engines import CODEC, SCHEMA, snapshot_of
from tests.support.examples import examples

ENVIRONMENT = Environment(variables=VARIABLES, schema=SCHEMA)
NOW = Timestamp.parse("2026-11-21T12:00:00Z")
Cluster = tuple[list[dict[str, Any]], list[dict[str, Any]]]


def outcome(run: Any) -> tuple[str, object]:
    """The value, or which kind of error."""
    try:
        return "value", run()
    except EvaluationError as error:
        return type(error).__name__, None


@settings(max_examples=examples(300), deadline=None)
@given(strategies.values, strategies.pods(), strategies.clusters())
def test_compiled_equals_plain(text: str, pod: dict[str, Any], cluster: Cluster) -> None:
    """On every node, with and without folding."""
    expr, found = parse_expression(Source("t", text))
    assert expr is not None, found
    checker = Checker(ENVIRONMENT)
    checked = checker.check(expr)
    if checker.found:
        return
    folded = fold(checked, ENVIRONMENT)
    programs = []
    for tree in (checked, folded):
        compiler = Compiler(ENVIRONMENT)
        programs.append((compiler.compile(tree), compiler))
    decoded = CODEC.pod(raw(pod))
    snapshot = snapshot_of(*cluster)
    for view in snapshot.nodes.values():
        variables = {"pod": decoded, "node": view, "now": NOW}
        plain = outcome(partial(evaluate, checked, variables, ENVIRONMENT))
        for run, compiler in programs:
            frame = Frame(decoded, NOW, slots=compiler.slots)
            frame.node = view
            assert outcome(partial(run, frame)) == plain


@settings(max_examples=examples(300), deadline=None)
@given(strategies.values)
def test_printed_text_parses_to_the_same_tree(text: str) -> None:
    """parse(print(t)) == t, and printing that again gives the same text."""
    expr, _ = parse_expression(Source("t", text))
    assert expr is not None
    printed = print_expression(expr)
    again, found = parse_expression(Source("t", printed))
    assert not found
    assert again == expr
    assert print_expression(again) == printed

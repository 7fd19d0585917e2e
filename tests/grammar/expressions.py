"""Evaluating an expression's text with the plain evaluator."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from grammar.meaning.environment import Environment
from grammar.meaning.evaluator import evaluate
from grammar.syntax.parser import parse_expression
from grammar.tree.source import Source
from grammar.tree.types import DYN

NOTHING: Mapping[str, object] = MappingProxyType({})


def value(text: str, variables: Mapping[str, object] = NOTHING) -> object:
    """The value of an unchecked expression; raises EvaluationError where it has none."""
    expr, found = parse_expression(Source("test", text))
    assert expr is not None, found
    return evaluate(expr, variables, Environment(dict.fromkeys(variables, DYN)))

"""Extents hold: on every node, an expression is within what is known of it."""

from __future__ import annotations

from functools import partial
from math import isnan
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from grammar.checker.expression_checker import Checker
from grammar.meaning.evaluator import evaluate
from grammar.rules.ranges import extent, value_of
from grammar.syntax.parser import parse_expression
from grammar.tree import ast
from grammar.tree.source import Source
from tests.properties import strategies
from tests.properties.test_compiler import ENVIRONMENT, NOW, Cluster, outcome
from tests.support.books import examples
from tests.support.builders import raw
from tests.support.engines import CODEC, snapshot_of

_ATOMS = st.sampled_from(
    (
        "size(node.pods)",
        "size(node.name)",
        "pod.priority",
        'node.name.indexOf("n")',
        'int(node.free["pods"])',
        'int(node.allocatable["cpu"])',
        "now.getHours()",
        "now.getDayOfMonth()",
        'hash(node.name, "a")',
        "node.pods.map(p, p.priority).sum()",
        "(node.ready ? 3 : -2)",
        '{"a": 1, "b": 7}[?node.name].orValue(2)',
        "2",
        "-3",
        "0",
    )
)
_PARTS = st.sampled_from(
    (
        'node.usage["cpu"]',
        '(node.free["cpu"] - pod.requests["cpu"]) / node.allocatable["cpu"]',
        'node.requested["memory"] / node.allocatable["memory"]',
        "0.5",
        "-1.5",
        "double(size(node.pods))",
    )
)


def _larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    pairs = st.tuples(inner, st.sampled_from((" + ", " - ", " * ", " / ")), inner)
    calls = st.tuples(st.sampled_from(("math.least", "math.greatest")), inner, inner)
    return st.one_of(
        pairs.map(lambda p: f"({p[0]}{p[1]}{p[2]})"),
        calls.map(lambda c: f"{c[0]}({c[1]}, {c[2]})"),
        inner.map(lambda x: f"-{x}"),
        st.tuples(inner, inner).map(lambda p: f"(node.ready ? {p[0]} : {p[1]})"),
        st.tuples(inner, inner).map(lambda p: f"[{p[0]}, {p[1]}].max()"),
    )


_numbers = st.one_of(
    st.recursive(_ATOMS, _larger, max_leaves=5),
    st.recursive(_PARTS, _larger, max_leaves=5),
    st.recursive(_PARTS, _larger, max_leaves=4).map(lambda x: f"int({x})"),
)


@settings(max_examples=examples(400), deadline=None)
@given(_numbers, strategies.pods(), strategies.clusters())
def test_a_value_is_within_its_extent(text: str, pod: dict[str, Any], cluster: Cluster) -> None:
    expr, found = parse_expression(Source("t", text))
    assert expr is not None, found
    checker = Checker(ENVIRONMENT)
    checked = checker.check(expr)
    if checker.found or (ends := extent(checked)) is None:
        return
    decoded = CODEC.pod(raw(pod))
    for view in snapshot_of(*cluster).nodes.values():
        variables = {"pod": decoded, "node": view, "now": NOW}
        kind, value = outcome(partial(evaluate, checked, variables, ENVIRONMENT))
        if kind == "value":
            number = value_of(ast.Literal(value, checked.type))
            assert isinstance(number, float)
            # What divides 0 by 0 is no number.
            assert isnan(number) or ends[0] <= number <= ends[1], (text, number, ends)

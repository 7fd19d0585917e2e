"""Macros over the pods of nodes whose tests are kept by kind: they mean what a loop means."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.program.compiler import Compiler
from engine.program.frame import Frame
from engine.program.item_kinds import LOOPED
from grammar.checker.expression_checker import Checker
from grammar.meaning.evaluator import evaluate
from grammar.syntax.parser import parse_expression
from grammar.tree.source import Source
from tests.properties import strategies
from tests.properties.test_common_expressions import ENVIRONMENT, NOW, outcome
from tests.support.builders import raw
from tests.support.engines import CODEC, snapshot_of
from tests.support.examples import examples

_TIER = 'p.labels["tier"] == pod.labels["tier"]'
TEXTS = (
    f"node.pods.exists(p, {_TIER})",
    f"node.pods.all(p, {_TIER})",
    f"node.pods.all(p, !({_TIER}))",
    f"node.pods.filter(p, {_TIER}).size()",
    f"node.pods.filter(p, !({_TIER})).map(p, p.name)",
    f'node.pods.filter(p, {_TIER}).map(p, p.requests["cpu"]).sum() <= "1"',
    'node.pods.exists(p, pod.labels["tier"] == p.labels["tier"] && p.namespace == pod.namespace)',
    'node.pods.exists(p, p.priority > 0 && p.labels["tier"] == pod.labels["tier"])',
    'node.pods.exists(p, "tier" in p.labels && p.labels["tier"] == pod.labels["tier"])',
    'node.pods.exists(p, p.labels["tier"] == pod.labels["tier"] || p.priority > pod.priority)',
    'node.pods.all(p, p.labels["tier"] != pod.labels["tier"] || p.phase == "Running")',
    'node.pods.all(p, p.labels["tier"] != pod.labels["tier"] || p.labels["zone"] == "a")',
    (
        'node.pods.exists(p, p.labels["tier"] + "/" + p.labels["zone"]'
        ' == pod.labels["tier"] + "/" + pod.labels["zone"])'
    ),
    'node.pods.exists(p, p.labels[?"tier"].orValue("") == pod.labels[?"tier"].orValue(""))',
    'node.pods.exists(p, pod.labels["tier"] == pod.name && p.labels["tier"] == pod.labels["tier"])',
    'node.pods.all(p, !(pod.labels["tier"] == p.labels["tier"] && p.priority > 0))',
    'node.pods.exists(p, p.labels["tier"] + pod.name == pod.labels["tier"])',
    'node.pods.exists(p, p.labels["tier"] == "a" && p.namespace == pod.namespace)',
    'node.pods.exists(p, p.requests["cpu"] == pod.requests["cpu"])',
    'node.pods.exists(p, string(p.requests["memory"]) == string(pod.requests["memory"]))',
    'node.pods.exists(p, p.labels["tier"].startsWith(pod.labels["tier"]))',
    'node.pods.exists(p, p.labels["tier"] in [pod.labels["tier"], pod.name])',
    'node.pods.exists(p, p.created == timestamp("2026-01-01T00:00:00Z") && pod.priority > 0)',
    "node.pods.all(p, 10 / p.priority > pod.priority)",
    "node.pods.exists(p, 10 / p.priority > pod.priority)",
    "node.pods.filter(p, 10 / p.priority > pod.priority).size()",
    "node.pods.exists(p, lists.range(p.priority).exists(i, i > pod.priority))",
    'node.pods.exists(p, p.name.replace("q", pod.name).size() > pod.priority)',
    'node.pods.exists(p, p.labels["tier"] == pod.labels["tier"] && p.labels["zone"] == node.zone)',
    f'node.pods.filter(p, {_TIER}).exists(p, p.labels["zone"] == pod.labels["zone"])',
    'node.pods.exists(p, node.pods.exists(q, q.labels["tier"] == pod.labels["tier"] && q != p))',
)


@pytest.mark.parametrize("text", TEXTS)
@settings(max_examples=examples(12), deadline=None)
@given(
    asked=st.lists(strategies.pods(), min_size=2, max_size=3),
    clusters=st.lists(strategies.clusters(most=3, most_pods=8), min_size=2, max_size=2),
)
def test_means_the_same(text: str, asked: list[Any], clusters: list[Any]) -> None:
    """In requests about several pods, before and after the nodes have changed."""
    expr, found = parse_expression(Source("t", text))
    assert expr is not None, found
    checker = Checker(ENVIRONMENT)
    checked = checker.check(expr)
    assert not checker.found, checker.found
    compiler = Compiler(ENVIRONMENT)
    run = compiler.compile(checked)
    for cluster in clusters:
        views = list(snapshot_of(*cluster).nodes.values())
        for pod in asked:
            decoded = CODEC.pod(raw(pod))
            frame = Frame(decoded, NOW, slots=compiler.slots)
            frame.node = views[0]
            for _ in range(LOOPED):
                outcome(partial(run, frame))
            for view in [*views, *views]:
                frame.node = view
                variables = {"pod": decoded, "node": view, "now": NOW}
                assert outcome(partial(run, frame)) == outcome(
                    partial(evaluate, checked, variables, ENVIRONMENT)
                )

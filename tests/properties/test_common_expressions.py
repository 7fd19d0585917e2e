"""Common expressions: what is compiled means what the plain evaluator says."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.program.compiler import Compiler
from engine.program.frame import Frame
from grammar.checker.expression_checker import Checker
from grammar.checker.policy_checker import VARIABLES
from grammar.meaning.environment import Environment
from grammar.meaning.evaluator import evaluate
from grammar.syntax.parser import parse_expression
from grammar.tree.source import Source
from grammar.values.errors import EvaluationError
from grammar.values.time import Timestamp
from tests.properties import strategies
from tests.support.builders import raw
from tests.support.engines import CODEC, SCHEMA, node_of, snapshot_of
from tests.support.examples import examples

ENVIRONMENT = Environment(variables=VARIABLES, schema=SCHEMA)
NOW = Timestamp.parse("2026-11-21T12:00:00Z")

TEXTS = (
    'node.labels["tier"] == "a"',
    'node.labels["tier"] != "a"',
    '"" == node.labels["zone"]',
    'node.labels["zone"] in ["a", "b", "", "spot", "web"]',
    'node.labels["zone"] in []',
    'node.labels["zone"] == node.labels["tier"]',
    'node.labels[?"zone"].orValue("a") == "a"',
    'pod.annotations[?"zone"].orValue(pod.name)',
    'node.labels[?"zone"]',
    '"zone" in node.labels',
    '"cpu" in node.free || has(node.free["cpu"])',
    '"a" in victim.labels',
    'victim.labels[?"a"].orValue("b") == "b"',
    'node.free[?"cpu"].orValue("1") > "1"',
    'node.spec.providerID == ""',
    'node.spec.providerID != "a"',
    'node.spec.providerID in ["", "a"]',
    "node.status.nodeInfo.architecture",
    'node.status.nodeInfo.architecture == ""',
    'pod.spec.affinity.nodeAffinity == pod.spec.affinity.nodeAffinity && pod.name == "p-1"',
    'pod.spec.runtimeClassName == "a"',
    'pod.spec.runtimeClassName != "a" || pod.name == "p-1"',
    'victim.name == "a"',
    'victim.labels["a"] == "a"',
    'dyn(node.labels["zone"]) in ["a", 1]',
    'dyn(node.labels["zone"]) == "a"',
)
AMOUNTS = (
    'node.free["cpu"] >= "1"',
    'node.free["cpu"] > "1"',
    'node.allocatable["cpu"] <= "500m"',
    '"1" < node.allocatable["cpu"]',
    'node.allocatable["memory"] == "1Gi"',
    '"1Gi" != node.allocatable["memory"]',
    'pod.limits["cpu"] < "1"',
    'node.requested["cpu"] < node.allocatable["cpu"]',
    'node.requested["cpu"] <= node.allocatable["cpu"]',
    'node.requested["cpu"] > pod.limits["cpu"]',
    'node.free["memory"] == node.allocatable["memory"]',
    'node.metadata.creationTimestamp > timestamp("2026-06-01T12:30:00.5Z")',
    'node.age >= "1d"',
)
LOOPS = (
    "pod.spec.?priority.orValue(dyn('a')) < 2",
    'node.status.conditions.exists(c, c.type == "Ready" && c.status == "True")',
    'node.status.conditions.exists(c, c.type == "Ready")',
    'node.status.conditions.exists(c, c.type != "Ready" && c.status == "True")',
    'node.status.conditions.exists(c, c.reason == "" && c.status == "True")',
    'node.status.conditions.exists(c, c.type == "Ready" && 1 / size(node.pods) > 0)',
    'node.status.conditions.exists(c, c.type == "Ready" || c.status == "True")',
    'node.status.conditions.all(c, c.type != "Ready" || c.status == "True")',
    'node.status.conditions.all(c, c.type in ["Ready", "b"] || c.status == "True" || 1 / 0 > 0)',
    'node.status.conditions.all(c, c.type == "Ready")',
    'node.status.conditions.all(c, c.type == "Ready" && c.status == "True")',
    'node.status.conditions.all(c, dyn(c.type) == "Ready" || dyn(c.status) == "True")',
    'node.pods.exists(p, p.labels["tier"] == "web")',
    'node.pods.all(p, p.labels["tier"] == "web" || p.requests["cpu"] > "1")',
    'node.pods.exists(p, p.phase == "Running" && node.pods.exists(q, q.name != p.name))',
    "node.pods.exists(p, node.pods.all(p, p.priority > 0))",
    'node.pods.filter(p, p.labels[?"tier"].orValue("a") == "a").map(p, p.name)',
    'node.pods.filter(p, p.labels["tier"] == "a").size()',
    'node.pods.map(p, p.requests["cpu"])',
    "node.pods.map(p, p.priority > 0, p.name)",
    "node.pods.exists(i, p, i == 1 && p.priority > 0)",
    "node.labels.exists(k, k == 'tier')",
    "dyn(node.labels).exists(k, k == 'tier')",
    "[[1, 2], [3]].exists(x, x.exists(y, y == 3))",
    '["a", node.labels["tier"]].exists(x, x == "a")',
    "cel.bind(c, node.status.conditions, c.exists(d, d.type == 'Ready'))",
)


def outcome(run: Any) -> tuple[str, object]:
    """The value, or which kind of error and what it says."""
    try:
        return "value", run()
    except EvaluationError as error:
        return type(error).__name__, str(error)


@pytest.mark.parametrize("text", [*TEXTS, *AMOUNTS, *LOOPS])
@settings(max_examples=examples(15), deadline=None)
@given(pod=strategies.pods(), cluster=strategies.clusters(most=2), known=st.booleans())
def test_means_the_same(text: str, pod: Any, cluster: Any, known: bool) -> None:
    """With the cluster's pods known or not, and each node seen twice."""
    expr, found = parse_expression(Source("t", text))
    assert expr is not None, found
    checker = Checker(ENVIRONMENT)
    checked = checker.check(expr)
    assert not checker.found
    compiler = Compiler(ENVIRONMENT)
    run = compiler.compile(checked)
    decoded = CODEC.pod(raw(pod))
    views = snapshot_of(*cluster).nodes.values() if known else list(map(node_of, cluster[0]))
    frame = Frame(decoded, NOW, slots=compiler.slots)
    for view in [*views, *views]:
        frame.node = view
        variables = {"pod": decoded, "node": view, "now": NOW, "victim": None}
        assert outcome(partial(run, frame)) == outcome(
            partial(evaluate, checked, variables, ENVIRONMENT)
        )

"""Compiled programs equal the plain evaluator: value by value, error by error."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.program import item_kinds
from engine.program.compiler import Compiler
from engine.program.frame import Frame
from engine.program.item_kinds import LOOPED
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
from tests.support.books import examples
from tests.support.builders import raw
from tests.support.engines import CODEC, SCHEMA, compiled, node_of, snapshot_of

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


# ---- common expressions: what is compiled means what the plain evaluator says


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


def outcome_of_common_expressions(run: Any) -> tuple[str, object]:
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
    checked, run, slots = compiled(text, ENVIRONMENT)
    decoded = CODEC.pod(raw(pod))
    views = snapshot_of(*cluster).nodes.values() if known else list(map(node_of, cluster[0]))
    frame = Frame(decoded, NOW, slots=slots)
    for view in [*views, *views]:
        frame.node = view
        variables = {"pod": decoded, "node": view, "now": NOW, "victim": None}
        assert outcome_of_common_expressions(partial(run, frame)) == outcome_of_common_expressions(
            partial(evaluate, checked, variables, ENVIRONMENT)
        )


# ---- macros over the pods of nodes whose tests are kept by kind: they mean what a loop means


_TIER = 'p.labels["tier"] == pod.labels["tier"]'
ITEM_KINDS_TEXTS = (
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
    "node.pods.exists(p, p.labels == pod.labels && p.uid != pod.uid)",
    f"node.pods.filter(p, p.name != pod.name && {_TIER}).size()",
    f"node.pods.exists(p, 10 / p.priority > p.name.size() && {_TIER})",
    "node.pods.all(p, p.name == pod.name || p.labels == pod.labels || 10 / p.priority > 1)",
    'node.pods.exists(p, p.labels[pod.labels["tier"]] == pod.name || p.priority > pod.priority)',
    'node.pods.exists(p, p.labels.exists(k, pod.labels[k] == p.labels[k]) && p.name > "p")',
    f'node.pods.filter(p, {_TIER} && p.age > duration("1h") && p.labels["zone"] == node.zone)',
)


@pytest.mark.parametrize("text", ITEM_KINDS_TEXTS)
@settings(max_examples=examples(12), deadline=None)
@given(
    asked=st.lists(strategies.pods(), min_size=2, max_size=3),
    clusters=st.lists(strategies.clusters(most=3, most_pods=8), min_size=2, max_size=2),
    most=st.sampled_from([1, 3, item_kinds.MOST_KINDS]),
    least=st.sampled_from([0, 4]),
)
def test_means_the_same_item_kinds(
    text: str, asked: list[Any], clusters: list[Any], most: int, least: int
) -> None:
    """In requests about several pods, before and after the nodes have changed.

    Kinds that are too many are forgotten in the middle of a request.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(item_kinds, "MOST_KINDS", most)
        patch.setattr(item_kinds, "_LEAST_ITEMS", least)
        _mean_the_same(text, asked, clusters)


def _mean_the_same(text: str, asked: list[Any], clusters: list[Any]) -> None:
    checked, run, slots = compiled(text, ENVIRONMENT)
    for cluster in clusters:
        views = list(snapshot_of(*cluster).nodes.values())
        for pod in asked:
            decoded = CODEC.pod(raw(pod))
            frame = Frame(decoded, NOW, slots=slots)
            frame.node = views[0]
            for _ in range(LOOPED):
                outcome(partial(run, frame))
            for view in [*views, *views]:
                frame.node = view
                variables = {"pod": decoded, "node": view, "now": NOW}
                assert outcome(partial(run, frame)) == outcome(
                    partial(evaluate, checked, variables, ENVIRONMENT)
                )

"""Checks of names and constants: unused definitions, bad patterns, labels that no node has."""

from __future__ import annotations

import pytest

from grammar.meaning.environment import ClusterFacts
from grammar.rules import run_in_cluster
from grammar.tree.source import Source
from policies.validation import check_source
from tests.grammar.rules.helpers import SCHEMA, found

CLUSTER = ClusterFacts({"disk": 1}, 3)

USES_NONE = 'filter "f" { require node.ready }'


# ---- P0303: definitions that nothing uses


@pytest.mark.parametrize(
    ("items", "wanted"),
    [
        pytest.param(f"let a = 1 {USES_NONE}", ["P0303 a"], id="a `let`"),
        pytest.param(f"def a(x: int): int = x {USES_NONE}", ["P0303 a"], id="a `def`"),
        pytest.param(
            f"let a = 1 let b = a {USES_NONE}", ["P0303 b"], id="one that only uses another"
        ),
        pytest.param(
            'let a = 1 filter "f" { require [1].exists(a, a == node.pods.size()) }',
            ["P0303 a"],
            id="one whose name a macro's variable has",
        ),
        # near misses
        pytest.param(
            'let a = 1 filter "f" { require node.pods.size() > a }', [], id="not one of a clause"
        ),
        pytest.param(
            'let a = 1 let b = a filter "f" { require node.pods.size() > b }',
            [],
            id="not one that another one uses",
        ),
        pytest.param(
            'def a(x: int): bool = x > 1 filter "f" { require a(node.pods.size()) }',
            [],
            id="not a `def` that is called",
        ),
        pytest.param(
            'let a = pod.name filter "f" { require node.ready message "{a}" }',
            [],
            id="not one of a message",
        ),
        pytest.param(
            f'let a = pod.name for pods where a == "x" {USES_NONE}', [], id="not one of `for`"
        ),
    ],
)
def test_unused_definitions(items: str, wanted: list[str]) -> None:
    assert found(items, ["P0303"]) == wanted


# ---- P0119: patterns that can never match


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        pytest.param('node.name.matches("(")', ['P0119 "("'], id="an open bracket"),
        pytest.param('node.name.matches("a(?=b)")', ['P0119 "a(?=b)"'], id="a lookahead"),
        pytest.param(r'node.name.matches(r"(a)\1")', [r'P0119 r"(a)\1"'], id="a backreference"),
        pytest.param('node.name.find("[") == ""', ['P0119 "["'], id="of `find`"),
        pytest.param('node.name.findAll("*") == []', ['P0119 "*"'], id="of `findAll`"),
        # near misses
        pytest.param('node.name.matches("a+")', [], id="not a pattern of RE2"),
        pytest.param('"(".matches("[(]")', [], id="not the text that is looked at"),
        pytest.param('node.name.startsWith("(")', [], id="not the text of another function"),
        pytest.param("node.name.matches(pod.name)", [], id="not a pattern that is not constant"),
    ],
)
def test_bad_patterns(expression: str, wanted: list[str]) -> None:
    assert found(f'filter "f" {{ require {expression} }}', ["P0119"]) == wanted


# ---- P0320: labels that no node of a cluster has


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        pytest.param('node.labels["dsik"] == "ssd"', ['"dsik"'], id="an index"),
        pytest.param('node.labels[?"dsik"].orValue("") == ""', ['"dsik"'], id="an optional index"),
        pytest.param('"dsik" in node.labels', ['"dsik"'], id="an `in`"),
        pytest.param('node.labels.dsik == "ssd"', ["dsik"], id="a field"),
        pytest.param(
            'node.metadata.labels["dsik"] == "ssd"', ['"dsik"'], id="by the object's own path"
        ),
        # near misses
        pytest.param('node.labels["disk"] == "ssd"', [], id="not a label that one node has"),
        pytest.param('pod.labels["dsik"] == "ssd"', [], id="not a label of the pod"),
        pytest.param('node.annotations["dsik"] == "ssd"', [], id="not an annotation"),
        pytest.param("node.labels[pod.name] == 'ssd'", [], id="not a key that is not constant"),
    ],
)
def test_labels_that_no_node_has(expression: str, wanted: list[str]) -> None:
    text = f'cluster policy p {{ filter "f" {{ require {expression} }} }}'
    (checked,) = check_source(Source("p.policy", text), SCHEMA).policies
    diagnostics = run_in_cluster(checked, CLUSTER)
    assert [text[d.span.start : d.span.end] for d in diagnostics] == wanted
    assert {d.code for d in diagnostics} <= {"P0320"}


def test_a_label_is_reported_once_for_each_place() -> None:
    text = """cluster policy p {
      let fast = node.labels["dsik"] == "ssd"
      filter "f" { require fast require fast || node.labels["dsik"] == "nvme" }
    }"""
    (checked,) = check_source(Source("p.policy", text), SCHEMA).policies
    assert len(run_in_cluster(checked, CLUSTER)) == 2

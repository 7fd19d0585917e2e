"""Checks of names and constants: unused definitions, bad patterns, labels that no node has."""

from __future__ import annotations

from grammar.meaning.environment import ClusterFacts
from grammar.rules import run_in_cluster
from grammar.tree.source import Source
from policies.validation import check_source
from tests.grammar.rules.helpers import SCHEMA, found
from tests.support.rows import rows

CLUSTER = ClusterFacts({"disk": 1}, 3)

USES_NONE = 'filter "f" { require node.ready }'


# ---- P0303: definitions that nothing uses


@rows(
    ("items", "wanted"),
    {
        "a `let`": (f"let a = 1 {USES_NONE}", ["P0303 a"]),
        "a `def`": (f"def a(x: int): int = x {USES_NONE}", ["P0303 a"]),
        "one that only uses another": (f"let a = 1 let b = a {USES_NONE}", ["P0303 b"]),
        "one whose name a macro's variable has": (
            'let a = 1 filter "f" { require [1].exists(a, a == node.pods.size()) }',
            ["P0303 a"],
        ),
        # near misses
        "not one of a clause": ('let a = 1 filter "f" { require node.pods.size() > a }', []),
        "not one that another one uses": (
            'let a = 1 let b = a filter "f" { require node.pods.size() > b }',
            [],
        ),
        "not a `def` that is called": (
            'def a(x: int): bool = x > 1 filter "f" { require a(node.pods.size()) }',
            [],
        ),
        "not one of a message": (
            'let a = pod.name filter "f" { require node.ready message "{a}" }',
            [],
        ),
        "not one of `for`": (f'let a = pod.name for pods where a == "x" {USES_NONE}', []),
    },
)
def test_unused_definitions(items: str, wanted: list[str]) -> None:
    assert found(items, ["P0303"]) == wanted


# ---- P0119: patterns that can never match


@rows(
    ("expression", "wanted"),
    {
        "an open bracket": ('node.name.matches("(")', ['P0119 "("']),
        "a lookahead": ('node.name.matches("a(?=b)")', ['P0119 "a(?=b)"']),
        "a backreference": (r'node.name.matches(r"(a)\1")', [r'P0119 r"(a)\1"']),
        "of `find`": ('node.name.find("[") == ""', ['P0119 "["']),
        "of `findAll`": ('node.name.findAll("*") == []', ['P0119 "*"']),
        # near misses
        "not a pattern of RE2": ('node.name.matches("a+")', []),
        "not the text that is looked at": ('"(".matches("[(]")', []),
        "not the text of another function": ('node.name.startsWith("(")', []),
        "not a pattern that is not constant": ("node.name.matches(pod.name)", []),
    },
)
def test_bad_patterns(expression: str, wanted: list[str]) -> None:
    assert found(f'filter "f" {{ require {expression} }}', ["P0119"]) == wanted


# ---- P0320: labels that no node of a cluster has


@rows(
    ("expression", "wanted"),
    {
        "an index": ('node.labels["dsik"] == "ssd"', ['"dsik"']),
        "an optional index": ('node.labels[?"dsik"].orValue("") == ""', ['"dsik"']),
        "an `in`": ('"dsik" in node.labels', ['"dsik"']),
        "a field": ('node.labels.dsik == "ssd"', ["dsik"]),
        "by the object's own path": ('node.metadata.labels["dsik"] == "ssd"', ['"dsik"']),
        # near misses
        "not a label that one node has": ('node.labels["disk"] == "ssd"', []),
        "not a label of the pod": ('pod.labels["dsik"] == "ssd"', []),
        "not an annotation": ('node.annotations["dsik"] == "ssd"', []),
        "not a key that is not constant": ("node.labels[pod.name] == 'ssd'", []),
    },
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

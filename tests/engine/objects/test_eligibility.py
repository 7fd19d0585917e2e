"""Eligibility: node affinity and tolerations where they are easily misread.

The answers are those of kube-scheduler's plugins; tests/differential compares more of them.
"""

from __future__ import annotations

from typing import Any

import pytest

from engine.objects.eligibility import matches_affinity, tolerates
from tests.support.builders import Object, node, pod, raw
from tests.support.engines import CODEC, node_of


def requirement(operator: str, *values: str, key: str = "k") -> Object:
    return {"key": key, "operator": operator, "values": list(values)}


def matches(terms: list[Object], label: str | None) -> bool:
    """Whether a node with the label `k`, or without it, matches one of the terms."""
    selector = {"nodeSelectorTerms": terms}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": selector}
    asked = pod("p", spec={"affinity": {"nodeAffinity": required}})
    labels = {} if label is None else {"k": label}
    return matches_affinity(CODEC.pod(raw(asked)), node_of(node("n", labels=labels)))


@pytest.mark.parametrize(
    ("operator", "values", "label", "wanted"),
    [
        ("Gt", ["5"], "10", True),
        ("Gt", ["5"], "5", False),
        ("Lt", ["5"], "-10", True),
        ("Gt", ["5"], "+10", True),
        ("Gt", ["5"], "1_0", False),
        ("Gt", ["5"], " 10", False),
        ("Gt", ["5"], "\u0661\u0660", False),
        ("Gt", ["5"], "9223372036854775808", False),
        ("Gt", ["5"], None, False),
        ("Gt", ["-10"], "10", False),
        ("Gt", ["1_0"], "100", False),
        ("Gt", ["1", "2"], "3", False),
        ("NotIn", ["-a"], "b", False),
        ("NotIn", ["a" * 64], "b", False),
        ("NotIn", [], "b", False),
        ("NotIn", [""], "b", True),
        ("In", ["a_b.c-d"], "a_b.c-d", True),
        ("Exists", ["a"], "a", False),
        ("DoesNotExist", [], None, True),
    ],
)
def test_requirement(operator: str, values: list[str], label: str | None, wanted: Any) -> None:
    assert matches([{"matchExpressions": [requirement(operator, *values)]}], label) is wanted


def test_a_requirement_that_is_not_valid_drops_its_term_alone() -> None:
    broken = {"matchExpressions": [requirement("NotIn", "-1"), requirement("Exists")]}
    assert not matches([broken], "a")
    assert matches([broken, {"matchExpressions": [requirement("Exists")]}], "a")


def test_a_field_has_one_value() -> None:
    def fields(*values: str) -> list[Object]:
        return [{"matchFields": [requirement("In", *values, key="metadata.name")]}]

    assert matches(fields("n"), None)
    assert not matches(fields("n", "m"), None)


@pytest.mark.parametrize(
    ("toleration", "wanted"),
    [
        ({"key": "k", "value": "5"}, True),
        ({"key": "k", "operator": "Exists"}, True),
        ({"operator": "Exists"}, True),
        ({"operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "k", "operator": "Gt", "value": "5"}, False),
        ({"key": "k", "operator": "Lt", "value": "6"}, False),
    ],
)
def test_toleration(toleration: Object, wanted: Any) -> None:
    """Gt and Lt are behind a feature gate that is off."""
    made = node("n")
    made["spec"]["taints"] = [{"key": "k", "value": "5", "effect": "NoSchedule"}]
    asked = pod("p", spec={"tolerations": [toleration]})
    assert tolerates(CODEC.pod(raw(asked)), node_of(made)) is wanted


@pytest.mark.parametrize("operator", [{}, {"operator": "Equal"}, {"operator": ""}])
@pytest.mark.parametrize("tolerated", [{}, {"value": ""}])
@pytest.mark.parametrize(
    ("there", "wanted"), [({}, True), ({"value": ""}, True), ({"value": "a"}, False)]
)
def test_a_toleration_without_a_value_is_for_a_taint_without_one(
    operator: Object, tolerated: Object, there: Object, wanted: Any
) -> None:
    """An empty value is one like others, and no `Exists`."""
    made = node("n")
    made["spec"]["taints"] = [{"key": "k", "effect": "NoSchedule", **there}]
    asked = pod("p", spec={"tolerations": [{"key": "k", **operator, **tolerated}]})
    assert tolerates(CODEC.pod(raw(asked)), node_of(made)) is wanted

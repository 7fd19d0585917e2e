"""Clauses that do the opposite of what makes sense, and those that are left alone."""

from __future__ import annotations

import pytest

from grammar.meaning.schema import Schema, load_schema
from grammar.tree.source import Source
from policies.validation import check_source
from tests.support.seeds import edited

SPOT = 'node.labels["karpenter.sh/capacity-type"]'
# The items of a policy, the code of the warning, and what its hint says to write.
WARNED = [
    (
        'score "x" weight 5 { value node.free["cpu"] + node.free["memory"] range 0 .. 1000000 }',
        "P0352",
        "parts of a whole",
    ),
    (
        'filter "x" { require node.free["cpu"] < pod.requests["cpu"] }',
        "P0352",
        'node.free["cpu"] >= pod.requests["cpu"]',
    ),
    (
        'filter "x" { require pod.requests["cpu"] > node.free["cpu"] }',
        "P0352",
        'pod.requests["cpu"] <= node.free["cpu"]',
    ),
    ('filter "x" { require node.spec.taints.all(t, t.key == "gpu") }', "P0352", "exists(t"),
    ('filter "x" { require node.free["cpu"] > pod.requests["memory"] }', "P0352", "same resource"),
    ('limit "x" { per node at most 1000 strict }', "P0353", "per cluster"),
    (
        'share "x" { of replicas on nodes where node.zone == "a" at most 100% strict }',
        "P0353",
        "another number",
    ),
]
QUIET = [
    # No name and no message is compared with what the clause does.
    'limit "machine learning" { per domain node.zone at most 9 strict }',
    'filter "x" { require node.zone == "a" message "must not run in zone a" }',
    'filter "x" { require node.usage["cpu"] > 0.9 message "usage must be below 90" }',
    'limit "one per zone" { per node at most 1 strict }',
    'limit "two a host" { per domain node.zone at most 2 strict }',
    'limit "max per rack" { per node at most 4 strict }',
    'spread "zones" { over node.name skew at most 1 strict }',
    'filter "no spot" { require node.labels["karpenter.sh/capacity-type"] == "spot" }',
    'score "avoid spot" weight 5 { value node.labels["karpenter.sh/capacity-type"] == "spot" }',
    'score "prefer spot" weight -5 { value node.labels["karpenter.sh/capacity-type"] == "spot" }',
    'score "least loaded" weight 5 { value node.usage["cpu"] range 0 .. 1 }',
    'filter "below 80% cpu" { require node.usage["cpu"] > 0.8 }',
    'filter "x" { require node.zone == "a" message "the node is not in zone a" }',
    'filter "x" { require node.zone == "a" message "pods must run in zone a" }',
    'filter "x" { require node.usage["cpu"] < 0.9 message "usage is above 90%" }',
    'filter "x" { require node.labels["pool"] == "a" message "pods of a must not leave it" }',
    'limit "one per zone" { per domain node.zone at most 1 strict }',
    'limit "two a node in the gpu zone" { per node at most 2 strict }',
    'limit "zone budget" { all pods where true per cluster at most 20 strict }',
    'spread "racks" { over node.annotations["rack"] skew at most 1 strict }',
    f'filter "no spot" {{ require {SPOT} != "spot" missing pass }}',
    f'filter "no important pods on spot" when {SPOT} == "spot" {{ require pod.priority < 100 }}',
    f'filter "only spot" {{ require {SPOT} == "spot" }}',
    f'score "avoid spot" weight -5 {{ value {SPOT} == "spot" }}',
    'score "least loaded" weight 5 { value node.usage["cpu"] range 1 .. 0 }',
    'score "least loaded" weight -5 { value node.usage["cpu"] range 0 .. 1 }',
    'score "pack cpu" weight 5 { value node.usage["cpu"] range 0 .. 1 }',
    'score "most free memory" weight 5 { value node.free["memory"] range "0Gi" .. "64Gi" }',
    'filter "at least 10% free" { require node.usage["cpu"] <= 0.9 }',
    'filter "below 80% cpu" { require node.usage["cpu"] < 0.8 }',
    'filter "x" { require node.free["cpu"] >= pod.requests["cpu"] }',
    'filter "x" { require pod.spec.containers.all(c, c.imagePullPolicy == "Always") }',
    'filter "x" { require node.spec.taints.all(t, t.effect != "NoExecute") }',
    'limit "x" { per node at most 110 strict }',
    'limit "x" { sum peer.requests["memory"] of pods where true per node at most "9Gi" strict }',
    # What admission asks about, with a message for the owners of the pods.
    'filter "team" { require pod.labels["team"] == "ads" message "label the pod" }',
    'filter "host" { require !pod.spec.hostNetwork }',
    'filter "named" { require has(pod.labels["team"]) }',
]


@pytest.fixture(scope="module")
def schema() -> Schema:
    return load_schema()


def codes(items: str, schema: Schema) -> list[tuple[str, str]]:
    text = f"cluster policy example {{\n  {items}\n}}\n"
    found = check_source(Source("example.policy", text), schema).diagnostics
    assert not any(d.severity == "error" for d in found), found
    return [(d.code, d.hint or "") for d in found if d.code in ("P0340", "P0351", "P0352", "P0353")]


@pytest.mark.parametrize(("items", "code", "written"), WARNED)
def test_the_opposite_is_warned_of(items: str, code: str, written: str, schema: Schema) -> None:
    ((found, hint),) = codes(items, schema)
    assert found == code
    assert written in hint


@pytest.mark.parametrize("items", QUIET)
def test_what_is_meant_is_left_alone(items: str, schema: Schema) -> None:
    assert codes(items, schema) == []


@pytest.mark.parametrize("items", [items for items, _, _ in WARNED])
def test_what_the_hint_writes_has_no_warning(items: str, schema: Schema) -> None:
    text = f"cluster policy example {{\n  {items}\n}}\n"
    for each in check_source(Source("example.policy", text), schema).diagnostics:
        if each.remedy is not None:
            after = edited(text, each.remedy)
            left = check_source(Source("example.policy", after), schema).diagnostics
            assert not any(d.severity == "error" or d.code == each.code for d in left)

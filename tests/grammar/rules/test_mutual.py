"""Checks of mutual limits, and of limits that count nodes."""

from __future__ import annotations

import pytest

from grammar.meaning.schema import load_schema
from grammar.tree.source import Source
from policies.validation import Validator, check_source

OTHERS = "all pods where peer.name != pod.name"


def said(text: str) -> list[str]:
    """The errors of a text: code, and what stands at its place."""
    source = Source("p.policy", text)
    found = check_source(source, load_schema()).diagnostics
    return [f"{d.code} {source.slice(d.span)}" for d in found if d.severity == "error"]


def limit(parts: str, *, where: str = OTHERS, selector: str = "", when: str = "") -> str:
    body = f'limit "l" {when} {{ {where} {parts} mutual }}'
    return f"cluster policy p {{ {selector} {body} }}"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (limit("per node at most 0 strict"), []),
        (limit("per cluster at most 3 - 1 strict"), []),
        (limit("per node at least 1 strict"), ["P0130 at least 1"]),
        (limit("per node exactly 1 strict"), ["P0130 exactly 1"]),
        (
            limit('per node at most int(node.labels["n"]) strict'),
            ['P0130 at most int(node.labels["n"])'],
        ),
        (limit("per node at most 1 weight 2"), ["P0130 weight 2"]),
        (limit("used node at most 1 strict"), ['P0130 "l"']),
        (limit("per node at most 1 strict", where=""), ['P0130 "l"']),
        (
            limit('per node at most "8" strict', where=f'sum peer.requests["a"] of {OTHERS}'),
            ['P0130 peer.requests["a"]'],
        ),
    ],
)
def test_parts_of_a_mutual_limit(text: str, wanted: list[str]) -> None:
    assert said(text) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("used node at most 3", []),
        ('used node where "pool" in node.labels at most 3', []),
        ('empty node at least int(pod.labels["n"])', []),
        ("used node at least 3", ["P0130 at least 3"]),
        ("used node exactly 3", ["P0130 exactly 3"]),
        ("empty node at most 3", ["P0130 at most 3"]),
        ("used node at most 40%", ["P0122 at most 40%"]),
        ("used node where node.name at most 3", ["P0105 node.name"]),
        ("used node where now > node.metadata.creationTimestamp at most 3", []),
        ('empty node at least int(node.labels["n"])', ["P0111 node.labels"]),
    ],
)
def test_bounds_of_nodes(text: str, wanted: list[str]) -> None:
    assert said(f'cluster policy p {{ limit "l" {{ {OTHERS} {text} strict }} }}') == wanted


@pytest.mark.parametrize("text", ["used node at most 3", "empty node at least 3"])
def test_nodes_have_no_sum(text: str) -> None:
    body = f'sum peer.requests["a"] of {OTHERS} {text} strict'
    wanted = ['P0130 peer.requests["a"]']
    assert said(f'cluster policy p {{ limit "l" {{ {body} }} }}') == wanted


def test_a_parameter_is_a_constant() -> None:
    text = limit("per node at most most strict").replace(" p {", " p (most: int = 2) {")
    assert said(text) == []


@pytest.mark.parametrize(
    ("where", "wanted"),
    [
        ('peer.labels["a"] == pod.labels["a"]', []),
        ("pod.priority > peer.priority && pod.uid != peer.uid", []),
        ('pod.workload.kind == peer.workload.name && "cpu" in pod.limits', []),
        ("peer.containers.exists(c, c.name == namespaceObject.name)", []),
        ("size(pod.spec.containers) > 1", ["pod.spec.containers"]),
        ("pod.workload.replicas > 1", ["pod.workload.replicas"]),
        ("pod.age > peer.age", ["pod.age", "pod.age", "peer.age"]),
        ("host", ["host"]),
        ("busy(pod.spec.priority)", []),
        ("pod.hostPorts.exists(p, p in peer.hostPorts)", []),
        ('"a" in peer.namespaceLabels', []),
        ('peer.nodeName != ""', ["peer.nodeName"]),
        ('peer.phase == "Running"', ["peer.phase"]),
        ('dyn(peer).name == ""', ["peer"]),
    ],
)
def test_reads_of_pods_that_are_there(where: str, wanted: list[str]) -> None:
    """In `for`, `when` and `pods where`, also through a name."""
    names = "let host = pod.spec.hostNetwork def busy(pod: int): bool = pod > 1"
    expected = [f"P0131 {text}" for text in wanted]
    found = said(
        f'cluster policy p {{ {names} limit "l" {{ all pods where {where}'
        " per node at most 0 strict mutual } }"
    )
    assert found == expected
    if "peer" not in where:
        for part in ({"selector": f"{names} for pods where {where}"},):
            assert said(limit("per node at most 0 strict", **part)) == expected
        text = limit("per node at most 0 strict", selector=names, when=f"when {where}")
        assert said(text) == expected
    free = limit("per node at most 0 strict", where=f"{OTHERS} && {where}", selector=names)
    assert said(free.replace(" mutual", "")) == []


def test_the_selector_of_a_policy_that_uses_a_mutual_limit() -> None:
    used = Source("a.policy", limit("per node at most 0 strict", selector="for pods where false"))
    for selector, wanted in (("pod.priority > 1", []), ("pod.spec.hostNetwork", ["P0131"])):
        user = f'cluster policy u {{ for pods where {selector} use "p" }}'
        found = Validator(load_schema()).validate([used, Source("u.policy", user)]).findings()
        assert [d.code for d, _ in found if d.severity == "error"] == wanted

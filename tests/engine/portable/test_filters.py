"""Tests of portable filters: the node affinity selects the nodes that the engine passes."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.portable.portable_clauses import Left, parts_of
from engine.selectors.terms import ALWAYS, NEVER, Frozen, Part, Terms
from grammar.values.nodes import all_hold
from policies.resource import NodeRequirement
from tests.support.builders import node, pod, raw
from tests.support.engines import CODEC, checked, engine_of

POD = pod("web", namespace="shop", labels={"team": "x", "other": "y"})
FROZEN = Frozen(labels=frozenset({"team"}))
KEYS = ("a", "example.com/b")
VALUES = ("", "x", "y", "7", "007", "9223372036854775808")


def part(items: str) -> Part | Left:
    (policy,) = checked(f"cluster policy p {{ {items} }}")
    (found,) = parts_of(policy, CODEC.pod(raw(POD)), FROZEN, ())
    return found


def terms(items: str) -> Terms:
    found = part(items)
    assert isinstance(found, Part), found
    return found.nodes


def condition() -> st.SearchStrategy[str]:
    key = st.sampled_from(KEYS).map('node.labels["{}"]'.format)
    optional = st.sampled_from(KEYS).map('node.labels[?"{}"]'.format)
    written = st.sampled_from((*VALUES, "not valid")).map('"{}"'.format)
    fixed = st.sampled_from(('pod.labels["team"]', "pod.namespace", 'pod.labels["none"]'))
    text = st.one_of(written, written, fixed.filter(lambda t: "none" not in t))
    number = st.integers(-2, 8).map(str) | st.sampled_from((str(2**63 - 1), str(-(2**63))))
    relation = st.sampled_from((">", ">=", "<", "<=", "==", "!="))
    leaf = st.one_of(
        st.builds("{} == {}".format, key, text),
        st.builds("{} != {}".format, text, key),
        st.builds("{} in [{}, {}]".format, key, text, text),
        st.builds("{} == optional.of({})".format, optional, text),
        optional.map("{} != optional.none()".format),
        st.builds("{}.orValue({}) == {}".format, optional, text, text),
        st.builds("int({}) {} {}".format, key, relation, number),
        st.builds("{} < int({})".format, number, key),
        key.map("has({})".format),
        st.builds("{} in node.labels".format, st.sampled_from(KEYS).map('"{}"'.format)),
        st.builds('["x", "y"].{}(v, {} == v)'.format, st.sampled_from(("all", "exists")), key),
        st.builds("is({})".format, text),
        st.sampled_from(("true", "false", "named", 'pod.namespace == "shop"')),
    )
    return st.recursive(
        leaf,
        lambda inner: st.one_of(
            st.builds("({} && {})".format, inner, inner),
            st.builds("({} || {})".format, inner, inner),
            st.builds("({} ? {} : {})".format, inner, inner, inner),
            st.builds("!({})".format, inner),
        ),
        max_leaves=6,
    )


WORLDS = [
    {k: v for k, v in zip(KEYS, (first, second), strict=True) if v is not None}
    for first in (None, *VALUES)
    for second in (None, *VALUES)
]
NODES = [node(f"n{i}", labels=labels) for i, labels in enumerate(WORLDS)]
NAMES = [f"n{i}" for i in range(len(WORLDS))]


@given(
    st.one_of(st.none(), condition()),
    st.lists(condition(), min_size=1, max_size=2),
    st.sampled_from(("", "missing pass")),
    st.sampled_from(("fail", "pass")),
)
def test_node_affinity_is_never_stronger_and_equal_where_exact(
    when: str | None, requires: list[str], missing: str, rule: str
) -> None:
    head = f"when {when} " if when else ""
    body = " ".join(f"require {r}" for r in requires)
    items = (
        f'missing {rule} let named = node.labels["a"] == "x"'
        f' def is(v: string): bool = node.labels["a"] == v filter "f" {head}{{ {body} {missing} }}'
    )
    decided = engine_of(f"cluster policy p {{ {items} }}", NODES).filter(
        raw(POD), NAMES, None, math.inf
    )
    passes = [not code for code in decided.codes]
    found = part(items)
    if isinstance(found, Left):
        assert any(word in found.reason for word in ("terms", "pass", "number", "large"))
        return
    selected = [any(all_hold(term, labels) for term in found.nodes) for labels in WORLDS]
    if found.exact:
        assert selected == passes
    else:
        assert all(chosen for chosen, passed in zip(selected, passes, strict=True) if passed)


@pytest.mark.parametrize(
    ("items", "wanted"),
    [
        ('filter "f" { require true }', ALWAYS),
        ('filter "f" { require node.labels["a"] == "not valid" }', NEVER),
        (
            'filter "f" { require node.labels["a"] != "x" }',
            {frozenset({NodeRequirement("a", "Exists"), NodeRequirement("a", "NotIn", ("x",))})},
        ),
        (
            'filter "f" when "a" in node.labels { require false }',
            {frozenset({NodeRequirement("a", "DoesNotExist")})},
        ),
        (
            'filter "f" { require node.labels["pool"] == pod.namespace }',
            {frozenset({NodeRequirement("pool", "In", ("shop",))})},
        ),
        (
            'filter "f" when pod.labels["team"] == "x" { require node.zone in ["b", "a"] }',
            {frozenset({NodeRequirement("topology.kubernetes.io/zone", "In", ("a", "b"))})},
        ),
        ('filter "f" when pod.labels["team"] == "y" { require node.zone == "a" }', ALWAYS),
        (
            'filter "f" { require int(node.labels["size"]) >= 3 }',
            {frozenset({NodeRequirement("size", "Gt", ("2",))})},
        ),
    ],
)
def test_the_terms_of_a_filter(items: str, wanted: Terms) -> None:
    assert terms(items) == wanted


@pytest.mark.parametrize(
    ("items", "reason"),
    [
        ('mode audit filter "f" { require false }', "the policy is in `mode audit`"),
        (
            'filter "f" { require node.labels["a"] == pod.labels["other"] }',
            '`pod.labels["other"]` can change',
        ),
        (
            'filter "f" { require node.labels["a"] == pod.name }',
            "`pod.name` can change",
        ),
        ('filter "f" { require pod.requests["cpu"] > 1 }', '`pod.requests["cpu"]` can change'),
        (
            'filter "f" { require node.free["cpu"] > 1 }',
            "`node.free` is no label of the node",
        ),
        (
            'filter "f" { require node.age > "10m" }',
            "it reads the time",
        ),
        (
            'filter "f" { require namespaceObject.labels["a"] == node.labels["a"] }',
            "the labels of a namespace can change",
        ),
        (
            'filter "f" { require node.labels["a"].startsWith("x") }',
            '`node.metadata.labels["a"].startsWith("x")` has no equivalent in a selector',
        ),
        ('filter "f" { require has(node.labels["-"]) }', "`-` is no key of a label"),
        (
            'missing pass filter "f" { require int(node.labels["a"]) > 3 }',
            "`missing pass` passes nodes for which it may fail",
        ),
        (
            'filter "f" { require lists.range(99).all(n, n < 100) && node.zone == "a" }',
            "`lists.range(99).all(n, n < 100)` takes more than 100 steps",
        ),
    ],
)
def test_what_stays_in_placet(items: str, reason: str) -> None:
    found = part(items)
    assert isinstance(found, Left)
    assert found.reason == reason


def test_too_many_terms() -> None:
    pairs = " && ".join(f'(node.labels["k{i}"] == "v" || "l{i}" in node.labels)' for i in range(7))
    found = part(f'filter "f" {{ require {pairs} }}')
    assert isinstance(found, Left)
    assert found.reason in (
        "it would take more than 64 terms",
        "it takes too many terms on the way",
    )

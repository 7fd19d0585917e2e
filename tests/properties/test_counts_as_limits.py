"""A limit that `check` writes in the place of a count of pods means the same, on every node.

Pods have some of a few labels, so that conditions are true, false and missing. Then a burst: of
pods on their way, no more find room than the filter would let in one by one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.decision.verdict import Feasible
from engine.errors import WaitingError
from grammar.messages.diagnostics import mend
from grammar.tree.source import Source
from policies.validation import check_source
from tests.support.builders import Object, node, pod, raw
from tests.support.engines import SCHEMA, engine_of

CONDITIONS = (
    "true",
    'p.labels["app"] == "web"',
    'p.labels[?"app"] == optional.of("web")',
    'p.labels[?"app"].orValue("") == "db"',
    '"db" == p.labels[?"app"].orValue("db")',
    '"app" in p.labels && p.labels["app"] != "web"',
    '!("app" in p.labels)',
    'p.labels[?"app"] == pod.labels[?"app"]',
    "p.namespace == pod.namespace",
    'p.namespace == "shop" || p.priority > pod.priority',
    'p.requests["cpu"] >= "1"',
    'p.labels[?"app"].orValue("").startsWith("w")',
)
SHAPES = (
    "!node.pods.exists(p, W)",
    "node.pods.all(p, !(W))",
    "size(node.pods.filter(p, W)) < 2",
    "node.pods.filter(p, W).size() <= 2",
    "2 > size(node.pods.filter(p, W))",
    "size(node.pods.filter(p, W)) == 0",
    "0 == size(node.pods.filter(p, W))",
    "!(size(node.pods.filter(p, W)) > 1)",
    "size(node.pods.filter(p, W)) + 1 <= 2",
    "size(node.pods.filter(p, W).map(p, p.name)) < 2",
    "size(node.pods.filter(p, p.priority >= 0).filter(p, W)) < 2",
)
FORS = ("", 'for pods where pod.labels["app"] == "web"', 'for pods where pod.labels["app"] == "db"')
RULES = ("", " missing pass")


@st.composite
def pods(draw: st.DrawFn, name: str, on: str | None = None) -> Object:
    app = draw(st.sampled_from([None, "web", "db"]))
    return pod(
        name,
        draw(st.sampled_from(["shop", "far"])),
        cpu=draw(st.sampled_from([None, "1", "500m"])),
        labels={} if app is None else {"app": app},
        priority=draw(st.sampled_from([None, 0, 5])),
        on=on,
    )


@st.composite
def worlds(draw: st.DrawFn) -> tuple[list[Object], Object]:
    there = [
        draw(pods(f"{name}-{number}", name))
        for name in ("n1", "n2", "n3")
        for number in range(draw(st.integers(0, 3)))
    ]
    return there, draw(pods("asked"))


def mended(text: str) -> str | None:
    """The policy with the limit in the place of the filter; None if nothing is certain."""
    source = Source("p.policy", text)
    found = mend(
        source,
        lambda each: [d for d in check_source(each, SCHEMA).diagnostics if d.code == "P0319"],
    )
    return found.source.text if found.applied else None


@pytest.mark.parametrize("shape", SHAPES)
@given(st.data())
def test_the_limit_means_what_the_filter_does(shape: str, data: st.DataObject) -> None:
    condition = data.draw(st.sampled_from(CONDITIONS))
    head, rule = data.draw(st.sampled_from(FORS)), data.draw(st.sampled_from(RULES))
    require = shape.replace("W", condition)
    text = f'cluster policy p {{ {head} filter "f" {{ require {require}{rule} }} }}'
    limit = mended(text)
    if limit is None:
        assert '["app"] ==' in condition, "every other condition has a value for each pod"
        return
    assert "limit" in limit
    there, asked = data.draw(worlds())
    wanted = one_by_one(text, there, asked)
    assert one_by_one(limit, there, asked) == wanted, limit


def one_by_one(text: str, there: Sequence[Object], asked: Object) -> list[bool]:
    """Of each node whether it passes, asked about it alone: more than one is held back."""
    found = []
    for name in ("n1", "n2", "n3"):
        engine = engine_of(text, [node(each) for each in ("n1", "n2", "n3")], there)
        (verdict,) = engine.filter(raw(asked), [name], None, math.inf)
        found.append(isinstance(verdict, Feasible))
    return found


@pytest.mark.parametrize(
    ("shape", "room"),
    [
        ("!node.pods.exists(p, W)", 1),
        ("node.pods.all(p, !(W))", 1),
        ("size(node.pods.filter(p, W)) == 0", 1),
        ("2 > size(node.pods.filter(p, W))", 2),
        ("node.pods.filter(p, W).size() <= 2", 3),
    ],
)
def test_a_burst_finds_no_more_room(shape: str, room: int) -> None:
    """The filter lets all five pods of a burst onto one node."""
    require = shape.replace("W", 'p.labels[?"app"] == optional.of("web")')
    text = f'cluster policy p {{ {FORS[1]} filter "f" {{ require {require} }} }}'
    limit = mended(text)
    assert limit is not None
    assert (burst(text), burst(limit)) == (5, room)


def burst(text: str) -> int:
    """How many of five pods find room on one node before any of them is bound."""
    engine = engine_of(text, [node("n1")])
    passed = 0
    for number in range(5):
        asked = raw(pod(f"web-{number}", labels={"app": "web"}))
        with suppress(WaitingError):
            (verdict,) = engine.filter(asked, ["n1"], None, math.inf)
            passed += isinstance(verdict, Feasible)
    return passed

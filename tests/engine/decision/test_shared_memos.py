"""Memos that plans share: pods that are alike to the clauses, whatever else they are."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from engine.decision.plan import Plan
from engine.decision.verb_call import CallOpener
from engine.engine import Engine
from engine.program.pod_shape import pod_values
from tests.support.builders import Object, node, pod, raw
from tests.support.engines import engine_of, frame_of

NODES = [node("n0", labels={"pool": "a"}), node("n1", labels={"pool": "b"})]
NAMES = ["n0", "n1"]


def plans(policies: str, pods: Sequence[Object]) -> list[Plan]:
    engine = engine_of(policies, NODES)
    opener: CallOpener = engine._calls  # noqa: SLF001 - a plan has no other face
    return [opener.open(engine.looks.read(raw(each)), NAMES, math.inf).plan for each in pods]


def offered(engine: Engine, asked: Object) -> list[str]:
    decided = engine.filter(raw(asked), NAMES, None, math.inf)
    return [name for name, code in zip(NAMES, decided.codes, strict=True) if not code]


@pytest.mark.parametrize(
    "condition",
    [
        pytest.param('pod.name != "zz"', id="a comparison with a name"),
        pytest.param('!pod.name.startsWith("z")', id="a function of a name"),
        pytest.param("pod.name.size() == 2", id="a number"),
        pytest.param("f(pod.name, node.name)", id="a def"),
    ],
)
def test_pods_of_other_names_share_what_is_known_of_nodes(condition: str) -> None:
    text = (
        "cluster policy p { "
        'def f(a: string, b: string): bool = pod.name != "zz" && b != "n9" '
        f'filter "f" {{ require node.labels["pool"] == "a" && {condition} }} '
        f'score "s" weight 1 {{ value node.labels["pool"] == "a" && {condition} ? 100 : 0 }} }}'
    )
    first, second, other = plans(text, [pod("p0"), pod("p1"), pod("zz1")])
    assert first is not second
    if condition.startswith("f("):
        # What a parameter stands for is not known.
        assert first.filters is not second.filters
        return
    assert first.filters is second.filters
    assert first.scorer is second.scorer
    shares = condition == 'pod.name != "zz"'
    assert (other.filters is first.filters) is shares


def test_pods_that_are_not_alike_do_not_share() -> None:
    engine = engine_of(
        'cluster policy p { filter "f" { require node.labels["pool"] == pod.labels["pool"] } }',
        NODES,
    )
    for pool, node_name in (("a", ["n0"]), ("b", ["n1"]), ("a", ["n0"]), ("c", [])):
        assert offered(engine, pod(f"p-{pool}", labels={"pool": pool})) == node_name


def test_amounts_that_are_written_differently_are_not_alike() -> None:
    engine = engine_of(
        'cluster policy p { filter "f" { require '
        'string(pod.requests["cpu"] + node.free["cpu"] - node.free["cpu"]) == "1" } }',
        NODES,
    )
    for amount in ("1", "1000m", "1"):
        alone = engine_of(
            'cluster policy p { filter "f" { require '
            'string(pod.requests["cpu"] + node.free["cpu"] - node.free["cpu"]) == "1" } }',
            NODES,
        )
        asked = pod(f"p-{amount}", cpu=amount)
        assert offered(engine, asked) == offered(alone, asked)


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        pytest.param(1, 1, True, id="equal"),
        pytest.param(1, True, False, id="of two types"),
        pytest.param(0.0, -0.0, False, id="written differently"),
        pytest.param({"a": ["b"]}, {"a": ["b"]}, True, id="maps and lists"),
        pytest.param({"a": 1}, {"a": 1.0}, False, id="maps of two types"),
    ],
)
def test_which_values_are_alike(one: object, other: object, *, alike: bool) -> None:
    frame = frame_of(pod("p"))
    assert (pod_values([lambda _: one], frame) == pod_values([lambda _: other], frame)) is alike


@pytest.mark.parametrize("value", [object(), ["a"] * 300, [object()]])
def test_objects_and_large_values_are_not_compared(value: object) -> None:
    assert pod_values([lambda _: value], frame_of(pod("p"))) is None

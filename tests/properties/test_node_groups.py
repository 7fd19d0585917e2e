"""Groups of nodes: equal to groups that are worked out anew, whatever has happened before."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.cache.cache import Cache
from engine.decision.registry import Registry
from engine.decision.verdict import Failed, Feasible, Rejected
from engine.engine import Engine
from engine.program.policy_compiler import compile_policy
from engine.program.policy_time import DecisionTime
from tests.properties import strategies
from tests.properties.test_engine import NOW, checked
from tests.support.builders import raw
from tests.support.engines import CODEC, Known, Silent, cache_of, node_of, peer_of
from tests.support.examples import examples
from tests.support.oracle import Oracle

texts = st.tuples(strategies.grouped_policies("p1"), strategies.policies("p2"))
Cluster = tuple[list[dict[str, Any]], list[dict[str, Any]]]


@st.composite
def changes(draw: st.DrawFn) -> list[tuple[str, Any]]:
    """What happens in a cluster of at most four nodes and four pods."""
    found: list[tuple[str, Any]] = []
    for _ in range(draw(st.integers(0, 4))):
        kind = draw(st.sampled_from(("node", "pod", "node goes", "pod goes")))
        name = f"n-{draw(st.integers(0, 3))}"
        key = f"q-{draw(st.integers(0, 3))}"
        match kind:
            case "node":
                found.append((kind, draw(strategies.nodes(name))))
            case "pod":
                found.append((kind, draw(strategies.pods(key, node=name))))
            case "node goes":
                found.append((kind, name))
            case _:
                found.append((kind, f"shop/{key}"))
    return found


def follow(cache: Cache, change: tuple[str, Any]) -> None:
    match change:
        case ("node", node):
            cache.put_node(node_of(node))
        case ("pod", pod):
            cache.put_pod(peer_of(pod))
        case ("node goes", name):
            cache.remove_node(name)
        case (_, key):
            cache.remove_pod(key)


def compare(engine: Engine, oracle: Oracle, cache: Cache, pod: dict[str, Any]) -> None:
    """Verdict by verdict and score by score."""
    views = list(cache.snapshot().nodes.values())
    names, body = [view.name for view in views], raw(pod)
    groups = oracle.groups(views)
    asked: dict[str, Any] = {
        "pod": CODEC.pod(body),
        "now": NOW,
        "namespaceObject": None,
        "groups": groups,
    }
    verdicts = engine.filter(body, names, None, math.inf)
    engine.in_flight.forget(asked["pod"].uid)
    for view, verdict in zip(views, verdicts, strict=True):
        wanted = oracle.verdict({**asked, "node": view, **groups[view.name]})
        if isinstance(verdict, Feasible):
            assert wanted is None
        else:
            assert isinstance(verdict, Rejected | Failed)
            assert wanted is not None
    scores = engine.prioritize(body, names, None, math.inf)
    assert (scores and list(scores)) == (oracle.scores(asked, views) if views else None)


@settings(max_examples=examples(200), deadline=None)
@given(
    texts,
    st.tuples(strategies.pods("p-1"), strategies.pods("p-2")),
    strategies.clusters(),
    st.lists(changes(), max_size=3),
)
def test_groups_equal_the_oracle_after_each_change(
    policies: tuple[str, ...],
    pods: tuple[dict[str, Any], ...],
    cluster: Cluster,
    happens: list[list[tuple[str, Any]]],
) -> None:
    known, cache = checked(policies), cache_of(*cluster)
    registry = Registry([compile_policy(each) for each in known])
    engine = Engine(registry, Known(cache), CODEC, Silent(), time=DecisionTime(now=lambda: NOW))
    oracle = Oracle(known)
    for at, step in enumerate([[], *happens]):
        for change in step:
            follow(cache, change)
        for number, pod in enumerate((*pods, *pods)):
            # A pod that is rejected again and again is answered otherwise.
            asked = {**pod, "metadata": {**pod["metadata"], "uid": f"{at}-{number}"}}
            compare(engine, oracle, cache, asked)

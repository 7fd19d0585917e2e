"""Engine events: after any of them the engine equals the oracle, which keeps no state."""

from __future__ import annotations

import json
import math
from itertools import count
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.cache.cache import Cache
from engine.decision.registry import Registry
from engine.decision.verdict import Failed, Feasible
from engine.engine import Engine
from engine.objects.peer import key_of
from engine.program.policy_compiler import compile_policy
from engine.program.policy_time import DecisionTime
from grammar.checker.policy_checker import Checked
from grammar.values.time import Timestamp
from tests.properties import strategies
from tests.properties.test_engine import checked, texts
from tests.support.engines import CODEC, Known, Silent
from tests.support.examples import examples
from tests.support.oracle import Oracle

Cluster = tuple[list[dict[str, Any]], list[dict[str, Any]]]
CLOCK = (Timestamp.parse("2026-11-21T12:00:00Z"), Timestamp.parse("2026-11-21T12:00:07Z"))


def change(cache: Cache, cluster: Cluster, *, all_of_it: bool) -> None:
    """Events that lead to this cluster, or only put its objects beside those that are there."""
    nodes = [CODEC.node(json.dumps(n).encode()) for n in cluster[0]]
    pods = [CODEC.peer(json.dumps(p).encode()) for p in cluster[1]]
    if all_of_it:
        for name in set(cache.nodes.names()) - {n.name for n in nodes}:
            cache.remove_node(name)
        for key in cache.snapshot().pods().keys() - {key_of(p) for p in pods}:
            cache.remove_pod(key)
    for node in nodes:
        cache.put_node(node)
    for pod in pods:
        cache.put_pod(pod)


@settings(max_examples=examples(60), deadline=None)
@given(
    texts,
    st.lists(strategies.pods(), min_size=1, max_size=3),
    st.lists(st.tuples(strategies.clusters(), st.booleans()), min_size=2, max_size=4),
)
def test_engine_equals_oracle_after_any_events(
    policies: tuple[str, ...],
    pods: list[dict[str, Any]],
    clusters: list[tuple[Cluster, bool]],
) -> None:
    known = checked(policies)
    cache, times = Cache(), iter(CLOCK * 100)
    now = CLOCK[0]

    def tick() -> Timestamp:
        nonlocal now
        now = next(times)
        return now

    seconds = count(step=100)

    def later() -> float:
        """Too late for the damper to remember anything."""
        return float(next(seconds))

    registry = Registry([compile_policy(c) for c in known])
    engine = Engine(registry, Known(cache), CODEC, Silent(), time=DecisionTime(later, tick))
    for cluster, all_of_it in clusters:
        change(cache, cluster, all_of_it=all_of_it)
        views = cache.snapshot().nodes
        for pod in pods:
            body = json.dumps(pod | {"metadata": pod.get("metadata", {}) | {"uid": ""}}).encode()
            check_filter(engine, known, body, views, lambda: now)


def check_filter(engine: Engine, known: list[Checked], body: bytes, views: Any, now: Any) -> None:
    oracle = Oracle(known)
    names = list(views)
    verdicts = engine.filter(body, names, None, math.inf)
    variables = {"pod": CODEC.pod(body), "now": now(), "namespaceObject": None}
    for view, verdict in zip(views.values(), verdicts, strict=True):
        wanted = oracle.verdict({**variables, "node": view})
        if isinstance(verdict, Feasible):
            assert wanted is None
        else:
            kind = "failed" if isinstance(verdict, Failed) else "rejected"
            assert wanted == (kind, verdict.policy, verdict.clause)
    scores = engine.prioritize(body, names, None, math.inf)
    variables["now"] = now()
    given = None if scores is None else list(scores)
    assert given == oracle.scores(variables, list(views.values()))

"""Named counts: equal to counts that are worked out anew, whatever has happened before."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.cache.cache import Cache
from engine.decision.registry import Registry
from engine.decision.verdict import Failed, Feasible, Rejected
from engine.engine import Engine
from engine.objects.peer import ENDED, Peer, key_of
from engine.program.policy_compiler import compile_policy
from engine.program.policy_time import DecisionTime
from grammar.values.time import SECOND, Timestamp
from tests.properties import strategies
from tests.properties.test_engine import NOW, checked
from tests.support.builders import raw
from tests.support.engines import CODEC, Known, Silent, cache_of, peer_of
from tests.support.examples import examples
from tests.support.oracle import Oracle

Body = dict[str, Any]


@st.composite
def counted_pods(draw: st.DrawFn, name: str) -> Body:
    """A pod in some state: pending, gated, on a node, ready, or ended a while ago."""
    node = draw(st.sampled_from((None, "n-0", "n-1", "n-2")))
    made = draw(strategies.pods(name, node=node))
    made["metadata"]["namespace"] = draw(st.sampled_from(("shop", "b")))
    since = str(Timestamp.of(NOW.nanos - draw(st.integers(0, 90)) * 60 * SECOND))
    phase = draw(st.sampled_from(("", "", "", "Failed", "Succeeded")))
    if node is None:
        if draw(st.booleans()):
            made["spec"]["schedulingGates"] = [{"name": "wait"}]
    else:
        is_ready = not phase and draw(st.booleans())
        condition = {"type": "Ready", "status": str(is_ready), "lastTransitionTime": since}
        made["status"] = {"phase": phase or "Running", "conditions": [condition]}
        if draw(st.integers(0, 9)) == 0:
            made["metadata"]["deletionTimestamp"] = str(NOW)
    return made


changes = st.lists(
    st.one_of(
        st.sampled_from(("q-0", "q-1", "q-2", "q-3")).flatmap(counted_pods),
        st.sampled_from(("shop/q-0", "shop/q-1", "b/q-0", "b/q-1")),
    ),
    max_size=4,
)


class World:
    """A cache, and the pods that it has been told of."""

    def __init__(self, nodes: list[Body]) -> None:
        self.cache: Cache = cache_of(nodes)
        self._there: dict[str, Peer] = {}
        self._ended: dict[str, Peer] = {}

    def follow(self, change: Body | str) -> None:
        if isinstance(change, str):
            self.cache.remove_pod(change)
            self._there.pop(change, None)
            return
        self.cache.put_pod(pod := peer_of(change))
        if pod.phase in ENDED:
            self._there.pop(key_of(pod), None)
            self._ended[pod.uid] = pod
        else:
            self._there[key_of(pod)] = pod

    @property
    def peers(self) -> list[Peer]:
        return [*self._there.values(), *self._ended.values()]


def compare(engine: Engine, oracle: Oracle, world: World, pod: Body) -> None:
    """Verdict by verdict and score by score."""
    views = list(world.cache.snapshot().nodes.values())
    names, body = [view.name for view in views], raw(pod)
    groups = oracle.groups(views)
    asked: dict[str, Any] = {"pod": CODEC.pod(body), "now": NOW, "namespaceObject": None}
    read = {
        view.name: {
            **groups[view.name],
            **oracle.counts(asked, world.peers, view, groups),
        }
        for view in views
    }
    verdicts = engine.filter(body, names, None, math.inf)
    engine.in_flight.forget(asked["pod"].uid)
    for view, verdict in zip(views, verdicts, strict=True):
        wanted = oracle.verdict({**asked, "node": view, **read[view.name]})
        assert isinstance(verdict, Feasible | Rejected | Failed)
        assert isinstance(verdict, Feasible) == (wanted is None), verdict
    scores = engine.prioritize(body, names, None, math.inf)
    assert (scores and list(scores)) == oracle.scores({**asked, "groups": read}, views)


@settings(max_examples=examples(100), deadline=None)
@given(
    st.tuples(strategies.counting_policies("p1"), strategies.counting_policies("p2")),
    st.tuples(strategies.pods("p-1"), strategies.pods("p-2")),
    st.tuples(*(strategies.nodes(f"n-{i}") for i in range(3))),
    st.lists(changes, min_size=1, max_size=3),
)
def test_counts_equal_the_oracle_after_each_change(
    policies: tuple[str, ...],
    pods: tuple[Body, ...],
    nodes: tuple[Body, ...],
    happens: list[list[Body | str]],
) -> None:
    known, world = checked(policies), World(list(nodes))
    registry = Registry([compile_policy(each) for each in known])
    time = DecisionTime(now=lambda: NOW)
    engine = Engine(registry, Known(world.cache), CODEC, Silent(), time=time)
    oracle = Oracle(known)
    for at, step in enumerate(happens):
        for change in step:
            world.follow(change)
        for number, pod in enumerate((*pods, *pods)):
            # A pod that is rejected again and again is answered otherwise.
            asked = {**pod, "metadata": {**pod["metadata"], "uid": f"{at}-{number}"}}
            compare(engine, oracle, world, asked)

"""Engine events: after any of them the engine equals the oracle, which keeps no state.

Policies are of all kinds: about nodes one by one, about groups of nodes, and about counts of pods
in every state.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from itertools import count, cycle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.decision.registry import Registry
from engine.decision.verdict import Failed, Feasible, Rejected
from engine.engine import Engine
from engine.objects.peer import ENDED, Peer, key_of
from engine.program.policy_compiler import compile_policy
from engine.program.policy_time import DecisionTime
from grammar.values.time import SECOND, Timestamp
from tests.properties import strategies
from tests.properties.test_engine import NOW, checked, texts
from tests.support.builders import raw
from tests.support.engines import CODEC, Known, Silent, cache_of, node_of, peer_of
from tests.support.examples import examples
from tests.support.oracle import Oracle

Body = dict[str, Any]
# An object that is there or changes, or the key of a pod or the name of a node that goes.
Change = tuple[str, Any]
LATER = Timestamp.of(NOW.nanos + 7 * SECOND)


@st.composite
def pods_in_a_state(draw: st.DrawFn, name: str) -> Body:
    """A pod: pending, gated, on a node, ready, or ended a while ago."""
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


def changes_of(pods: Callable[[str], st.SearchStrategy[Body]]) -> st.SearchStrategy[Change]:
    """The events about at most four pods of two namespaces."""
    names = st.sampled_from(("q-0", "q-1", "q-2", "q-3"))
    keys = st.sampled_from(("shop/q-0", "shop/q-1", "b/q-0", "b/q-1"))
    there = names.flatmap(pods).map(lambda pod: ("pod", pod))
    return st.one_of(there, keys.map(lambda key: ("pod goes", key)))


OF_NODES = st.sampled_from(("n-0", "n-1", "n-2", "n-3")).flatmap(
    lambda name: st.one_of(
        strategies.nodes(name).map(lambda node: ("node", node)), st.just(("node goes", name))
    )
)
BOUND = st.one_of(
    OF_NODES,
    st.sampled_from(("n-0", "n-1", "n-2", "n-3")).flatmap(
        lambda node: changes_of(lambda name: strategies.pods(name, node=node))
    ),
)
THREE_NODES: st.SearchStrategy[Any] = st.tuples(
    *(strategies.nodes(f"n-{number}") for number in range(3))
).map(lambda nodes: ([*nodes], []))
# Policies, a cluster, and what happens there.
KINDS: Mapping[str, tuple[st.SearchStrategy[Any], ...]] = {
    "nodes": (texts, strategies.clusters(), BOUND),
    "groups": (
        st.tuples(strategies.grouped_policies("p1"), strategies.policies("p2")),
        strategies.clusters(),
        BOUND,
    ),
    "counts": (
        st.tuples(strategies.counting_policies("p1"), strategies.counting_policies("p2")),
        THREE_NODES,
        changes_of(pods_in_a_state),
    ),
}


class World:
    """A cache, and the pods that it has been told of."""

    def __init__(self, nodes: list[Body], pods: list[Body]) -> None:
        self.cache = cache_of(nodes, pods)
        self._there = {key_of(pod): pod for pod in map(peer_of, pods)}
        self._ended: dict[str, Peer] = {}

    def follow(self, change: Change) -> None:
        match change:
            case ("node", node):
                self.cache.put_node(node_of(node))
            case ("node goes", name):
                self.cache.remove_node(name)
            case ("pod goes", key):
                self.cache.remove_pod(key)
                self._there.pop(key, None)
            case (_, made):
                self.cache.put_pod(pod := peer_of(made))
                if pod.phase in ENDED:
                    self._there.pop(key_of(pod), None)
                    self._ended[pod.uid] = pod
                else:
                    self._there[key_of(pod)] = pod

    @property
    def peers(self) -> list[Peer]:
        return [*self._there.values(), *self._ended.values()]


def compare(
    engine: Engine, oracle: Oracle, world: World, pod: Body, now: Timestamp, *, by_clause: bool
) -> None:
    """Verdict by verdict and score by score.

    Of clauses that are about groups or counts, another one of those that reject may come first.
    """
    views = list(world.cache.snapshot().nodes.values())
    names, body = [view.name for view in views], raw(pod)
    asked: Body = {"pod": CODEC.pod(body), "now": now, "namespaceObject": None}
    groups = oracle.groups(views)
    read = {
        view.name: {**groups[view.name], **oracle.counts(asked, world.peers, view, groups)}
        for view in views
    }
    verdicts = engine.filter(body, names, None, math.inf)
    engine.in_flight.forget(asked["pod"].uid)
    for view, verdict in zip(views, verdicts, strict=True):
        wanted = oracle.verdict({**asked, "node": view, **read[view.name]})
        match verdict:
            case Feasible():
                assert wanted is None
            case Rejected() | Failed():
                kind = "failed" if isinstance(verdict, Failed) else "rejected"
                assert wanted is not None
                assert not by_clause or wanted == (kind, verdict.policy, verdict.clause)
            case _:
                pytest.fail("nothing is held back here")
    scores = engine.prioritize(body, names, None, math.inf)
    wanted_scores = oracle.scores({**asked, "groups": read}, views) if views else None
    assert (scores if scores is None else list(scores)) == wanted_scores


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=examples(150), deadline=None)
@given(
    pods=st.tuples(strategies.pods("p-1"), strategies.pods("p-2")),
    data=st.data(),
)
def test_engine_equals_oracle_after_any_events(
    kind: str, pods: tuple[Body, ...], data: st.DataObject
) -> None:
    policies, clusters, changes = KINDS[kind]
    known, world = checked(data.draw(policies)), World(*data.draw(clusters))
    # The damper remembers nothing for so long, and what is kept of a moment is not right later.
    seconds: Iterator[int] = count(step=100)
    moments, moment = cycle((NOW, LATER)), [NOW]
    time = DecisionTime(lambda: float(next(seconds)), lambda: moment[0])
    registry = Registry([compile_policy(each) for each in known])
    engine = Engine(registry, Known(world.cache), CODEC, Silent(), time=time)
    oracle = Oracle(known)
    for step in data.draw(st.lists(st.lists(changes, max_size=4), min_size=1, max_size=3)):
        for change in step:
            world.follow(change)
        for pod in (*pods, *pods):
            moment[0] = next(moments) if kind != "counts" else NOW
            compare(engine, oracle, world, pod, moment[0], by_clause=kind == "nodes")

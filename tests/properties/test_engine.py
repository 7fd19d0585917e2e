"""The engine over arbitrary policies, pods and nodes: equal to the oracle."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count, cycle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.cache.node_table import ListedNames, Snapshot
from engine.clauses.programs import compile_policy
from engine.decision.registry import Registry
from engine.decision.verdict import Feasible, HeldBack, Rejected, Verdict
from engine.engine import Engine
from engine.errors import EngineError
from engine.objects.peer import ENDED, Peer, key_of
from engine.program.policy_time import DecisionTime
from grammar.checker.policy_checker import Checked, check_policy
from grammar.syntax.parser import parse_file
from grammar.tree.source import Source
from grammar.values.time import SECOND, Timestamp
from tests.properties import strategies
from tests.support.books import examples
from tests.support.builders import raw
from tests.support.engines import (
    CODEC,
    SCHEMA,
    Fixed,
    Known,
    Silent,
    cache_of,
    node_of,
    peer_of,
    snapshot_of,
)
from tests.support.oracle import Oracle

NOW = Timestamp.parse("2026-11-21T12:00:00Z")
Cluster = tuple[list[dict[str, Any]], list[dict[str, Any]]]

texts = st.lists(st.integers(0, 9), min_size=1, max_size=3, unique=True).flatmap(
    lambda numbers: st.tuples(*(strategies.policies(f"p{n}") for n in numbers))
)


def checked(policies: tuple[str, ...]) -> list[Checked]:
    """The policies of the texts that type-check: a `range` of a bool does not."""
    found: list[Checked] = []
    for text in policies:
        file, mistakes = parse_file(Source("t", text))
        assert not mistakes, (text, mistakes)
        found.extend(check_policy(p, SCHEMA) for p in file.policies)
    return [c for c in found if not c.broken]


def engine_for(policies: list[Checked], snapshot: Snapshot) -> Engine:
    registry = Registry([compile_policy(c) for c in policies])
    return Engine(registry, Fixed(snapshot), CODEC, Silent(), time=DecisionTime(now=lambda: NOW))


def filtered(engine: Engine, pod: bytes, names: Sequence[str]) -> list[Verdict] | str:
    try:
        return list(engine.filter(pod, names, None, math.inf))
    except EngineError as error:
        return str(error)


def scored(
    engine: Engine, pod: bytes, names: Sequence[str], nodes: list[bytes] | None = None
) -> list[int] | None:
    scores = engine.prioritize(pod, names, nodes, math.inf)
    return None if scores is None else list(scores)


@settings(max_examples=examples(200), deadline=None)
@given(
    texts,
    st.tuples(*(strategies.pods(f"p-{number}") for number in range(3))),
    strategies.clusters(),
)
def test_engine_equals_oracle(
    policies: tuple[str, ...], pods: tuple[dict[str, Any], ...], cluster: Cluster
) -> None:
    """Verdict by verdict and score by score; asked twice, so that what is kept is used too.

    Several pods, because those that are alike to a clause share what is kept.
    """
    known, snapshot = checked(policies), snapshot_of(*cluster)
    engine, oracle = engine_for(known, snapshot), Oracle(known)
    names, views = list(snapshot.nodes), list(snapshot.nodes.values())
    for pod in [*pods, *pods]:
        body = raw(pod)
        variables = {"pod": CODEC.pod(body), "now": NOW, "namespaceObject": None}
        verdicts = engine.filter(body, names, None, math.inf)
        assert len(verdicts) == len(names)
        for view, verdict in zip(views, verdicts, strict=True):
            wanted = oracle.verdict({**variables, "node": view})
            match verdict:
                case HeldBack():
                    pytest.fail("nothing is counted here")
                case Feasible():
                    assert wanted is None
                case Rejected():
                    kind = "failed" if verdict.error else "rejected"
                    assert wanted == (kind, verdict.policy, verdict.clause)
        assert scored(engine, body, names) == oracle.scores(variables, views)


@settings(max_examples=examples(100), deadline=None)
@given(texts, strategies.pods(), strategies.clusters(), st.data())
def test_full_nodes_and_names_agree(
    policies: tuple[str, ...], pod: dict[str, Any], cluster: Cluster, data: st.DataObject
) -> None:
    """The same nodes by name and by body, in any order, get the same answers."""
    snapshot = snapshot_of(*cluster)
    engine = engine_for(checked(policies), snapshot)
    body = raw(pod)
    order = data.draw(st.permutations(cluster[0]))
    names = [n["metadata"]["name"] for n in order]
    bodies = [raw(n) for n in order]
    by_body = engine.filter(body, names, bodies, math.inf)
    assert list(by_body) == list(engine.filter(body, names, None, math.inf))
    by_name = scored(engine, body, names)
    assert scored(engine, body, names, bodies) == by_name
    assert by_name is None or all(type(s) is int and 0 <= s <= 10 for s in by_name)


@settings(max_examples=examples(100), deadline=None)
@given(texts, strategies.pods(), strategies.clusters(), st.data())
def test_names_in_json_are_names(
    policies: tuple[str, ...], pod: dict[str, Any], cluster: Cluster, data: st.DataObject
) -> None:
    """Known or not, once or twice: as the same strings have it."""
    snapshot = snapshot_of(*cluster)
    body, known = raw(pod), st.sampled_from([*snapshot.nodes, "gone"])
    names = data.draw(st.lists(known, min_size=1))
    listed = ListedNames.of(json.dumps(names, separators=(",", ":")).encode())
    assert listed is not None
    one, other = (engine_for(checked(policies), snapshot) for _ in range(2))
    for _ in range(2):
        assert filtered(one, body, listed) == filtered(other, body, names)
        assert scored(one, body, listed) == scored(other, body, names)


@settings(max_examples=examples(50), deadline=None)
@given(texts, strategies.pods(), strategies.clusters())
def test_reasons_do_not_change_between_calls(
    policies: tuple[str, ...], pod: dict[str, Any], cluster: Cluster
) -> None:
    """C47: the same texts, then one text for all nodes, and then the same error."""
    snapshot = snapshot_of(*cluster)
    engine = engine_for(checked(policies), snapshot)
    body, names = raw(pod), list(snapshot.nodes)
    answers = set()
    for _ in range(10):
        try:
            verdicts = engine.filter(body, names, None, math.inf)
            answers.add(tuple("" if isinstance(v, Feasible) else v.reason for v in verdicts))
        except EngineError as error:
            answers.add((str(error),))
    assert len({a for a in answers if len(a) == len(names)}) <= 2 or len(names) == 1
    assert len(answers) <= 3


# ---- engine events: after any of them the engine equals the oracle, which keeps no state


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
            case Rejected():
                kind = "failed" if verdict.error else "rejected"
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

"""Simulated calls: pods that nobody places, and nodes that no cluster has, leave nothing behind."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest

from engine.cache.cache import Cache
from engine.decision.verdict import Feasible
from engine.engine import Engine
from engine.errors import BriefWaitError, EngineError, WaitingError
from tests.support.builders import Object, node, pod, raw
from tests.support.engines import (
    CODEC,
    Known,
    Silent,
    cache_of,
    node_of,
    peer_of,
    registry_of,
)

NODES = {"a-1": "a", "a-2": "a", "b-1": "b"}
WEB = 'pods where peer.labels["app"] == "web"'
ONE = f'limit "one" {{ {WEB} per node at most 1 strict }}'
FILTER = 'filter "zone a" { require node.zone == "a" && node.pods.size() == 0 }'
RULES = {
    "filter": FILTER,
    "limit": f'{ONE} filter "zone" {{ require node.zone == "a" }}',
    "share": f'share "s" {{ of {WEB} on nodes where node.zone == "a" at most 9 strict }} {FILTER}',
    "spread": f'spread "z" {{ {WEB} over node.zone skew at most 1 strict }} {FILTER}',
    "group": f"""group zone by node.zone count here per zone = {WEB}
        filter "x" {{ require here == 0 && zone.value == "a" }}""",
    "cards": f'cards "gpu" {{ on node 2 of {{"m": 1}} take {{"m": 1}} }} {FILTER}',
    "mutual": f'limit "m" {{ {WEB} per node at most 1 strict mutual }} {FILTER}',
}


def engine_of(rules: str, cache: Cache) -> Engine:
    text = f'cluster policy p {{ for pods where pod.labels["app"] == "web" {rules} }}'
    return Engine(registry_of(text), Known(cache), CODEC, Silent())


def cluster(**more: Any) -> Cache:
    cache = cache_of([node(name, zone) for name, zone in NODES.items()])
    cache.put_pod(peer_of(web("waits", **more)))
    return cache


def web(name: str, version: str = "", **more: Any) -> Object:
    made = pod(name, labels={"app": "web"}, **more)
    if version:
        made["metadata"]["resourceVersion"] = version
    return made


def template(name: str, zone: str, version: str = "") -> Object:
    made = node(name, zone)
    if version:
        made["metadata"]["resourceVersion"] = version
    return made


def ask(engine: Engine, asked: Object, nodes: Sequence[Object | str]) -> list[str]:
    """The nodes that pass; whole nodes are sent as they are."""
    names = [n if isinstance(n, str) else n["metadata"]["name"] for n in nodes]
    bodies = [raw(n) for n in nodes if not isinstance(n, str)]
    verdicts = engine.filter(raw(asked), names, bodies or None, math.inf)
    return [n for n, verdict in zip(names, verdicts, strict=True) if isinstance(verdict, Feasible)]


@pytest.mark.parametrize("rule", RULES)
def test_a_template_is_judged_by_its_labels_and_counts_as_empty(rule: str) -> None:
    engine = engine_of(RULES[rule], cluster())
    templates = [template("t-1", "a"), template("t-2", "c")]
    assert ask(engine, web("waits"), templates) == ["t-1"]
    known = [node(name, at) for name, at in NODES.items()]
    wanted = ["a-1", "a-2", "t-1"]
    assert ask(engine, web("waits"), [*known, *templates]) == wanted
    assert not len(engine.in_flight)


@pytest.mark.parametrize("rule", RULES)
def test_an_offer_stays_what_it_was(rule: str) -> None:
    """Also that of the pod which the simulation is about."""
    engine = engine_of(RULES[rule], cluster())
    ask(engine, web("waits"), ["a-1"])
    before = [(p.uid, list(p.rows)) for p, _ in engine.in_flight.first(9)]
    for asked in (web("waits"), web("made-up", on="x"), web("none", on="a-2")):
        for nodes in ([template("t-1", "a")], [template("t-1", "a"), node("a-2", "a")]):
            with suppress(WaitingError):
                ask(engine, asked, nodes)
            engine.prioritize(raw(asked), ["t-1"], [raw(template("t-1", "a"))], math.inf)
    assert [(p.uid, list(p.rows)) for p, _ in engine.in_flight.first(9)] == before
    assert ask(engine, web("waits"), list(NODES))


def test_the_next_real_calls_are_answered() -> None:
    """A pod waits beside it, so that offers are narrow."""
    cache = cluster()
    cache.put_pod(peer_of(web("other")))
    engine = engine_of(f'limit "few" {{ {WEB} per cluster at most 2 strict }} {ONE}', cache)
    for _ in range(3):
        assert ask(engine, web("waits"), [template("t-1", "a")]) == ["t-1"]
        assert ask(engine, web("waits"), [template("t-2", "a"), node("a-1", "a")])
    assert ask(engine, web("other"), list(NODES))
    assert ask(engine, web("waits"), list(NODES))


def test_pods_on_their_way_count_in_a_simulation() -> None:
    engine = engine_of(f'limit "few" {{ {WEB} per cluster at most 1 strict }}', cluster())
    assert ask(engine, web("other"), list(NODES)) == list(NODES)
    with pytest.raises(WaitingError, match="in-flight") as failure:
        ask(engine, web("waits"), [template("t-1", "a")])
    assert not isinstance(failure.value, BriefWaitError)


@pytest.mark.parametrize(
    ("asked", "is_simulated"),
    [
        (web("waits"), False),
        (web("bound"), True),
        (web("waits", on="a-1"), True),
        (web("assumed"), False),
        (web("confirmed"), True),
        (web("unseen", "101"), False),
        (web("gone", "100"), True),
        (web("made-up"), True),
    ],
    ids=lambda value: value["metadata"]["name"] if isinstance(value, dict) else "",
)
def test_a_pod_that_kube_scheduler_cannot_be_placing(asked: Object, is_simulated: bool) -> None:
    cache = cluster()
    cache.put_pod(peer_of(web("bound", on="b-1")))
    for name in ("assumed", "confirmed"):
        cache.assume(peer_of(web(name)), "b-1", math.inf)
    cache.confirm("default/confirmed", peer_of(web("confirmed")).uid)
    cache.shown.update(pods=100)
    engine = engine_of(ONE, cache)
    assert "a-1" in ask(engine, asked, ["a-1", "b-1"])
    assert len(engine.in_flight) == (not is_simulated)
    ask(engine, web("waits"), ["a-2"])


@pytest.mark.parametrize(
    ("asked", "is_simulated"),
    [
        (template("t-1", "a"), True),
        (template("t-1", "a", "100"), True),
        # kube-scheduler knows a node before a watch shows it here, and after it has gone.
        (template("new", "a", "101"), False),
        (template("left", "a", "90"), False),
    ],
    ids=["no version", "the version of another node", "not shown yet", "gone lately"],
)
def test_a_node_that_no_cluster_has(asked: Object, is_simulated: bool) -> None:
    cache = cluster()
    cache.put_node(node_of(node("left", "a")))
    cache.snapshot()
    cache.remove_node("left")
    cache.snapshot()
    cache.shown.update(nodes=100, pods=100)
    engine = engine_of(ONE, cache)
    ask(engine, web("waits"), [asked, node("a-1", "a")])
    assert len(engine.in_flight) == (not is_simulated)


def test_names_alone_may_be_of_nodes_that_are_about_to_be_known() -> None:
    engine = engine_of(ONE, cluster())
    assert ask(engine, pod("other"), ["t-1"]) == ["t-1"]
    assert len(engine.in_flight) == 1


def test_scores_of_templates() -> None:
    rules = f"""score "zone" weight 1 {{ value node.zone == "a" ? 100 : 0 }}
      limit "few" {{ {WEB} per zone at most 1 weight 1 }}"""
    engine = engine_of(rules, cluster())
    nodes = [template("t-1", "a"), template("t-2", "c")]
    scores = engine.prioritize(raw(web("waits")), ["t-1", "t-2"], list(map(raw, nodes)), math.inf)
    assert scores is not None
    assert list(scores) == [10, 5]


def test_what_a_simulation_cannot_be_told_is_an_error() -> None:
    engine = engine_of(ONE, cluster())
    with pytest.raises(EngineError):
        engine.filter(raw(web("waits")), ["t-1"], [b'{"metadata":{"name":1}}'], math.inf)


def test_no_simulation_is_recorded_or_counts_as_a_rejection() -> None:
    engine = engine_of(f"{FILTER} {ONE}", cluster())
    for _ in range(30):
        assert ask(engine, web("waits"), [template("t-2", "c")]) == []
    verdicts = engine.filter(raw(web("waits")), ["b-1"], None, math.inf)
    assert [getattr(each, "reason", "") for each in verdicts] == ["policy p: zone a"]

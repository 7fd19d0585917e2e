"""Mutual limits: the pods that are there keep others out, wherever their own limit says so."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import product
from random import Random
from typing import Any

import pytest

from engine.cache.cache import Cache
from engine.counting.in_flight_pods import AskedPod
from engine.decision.preemption import Victims
from engine.decision.verdict import Feasible
from engine.engine import Engine
from engine.errors import EngineError, WaitingError
from engine.explanation.inspection import Inspection
from engine.objects.peer import Peer, labelled
from engine.objects.remembered import MOST_REMEMBERED, Memory
from engine.objects.request_pod import (
    BYPASS,
    NO_EXEMPTIONS,
    Exemptions,
    ObjectCodec,
    decode_namespace,
)
from engine.work import finished
from grammar.checker.policy_checker import Checked
from grammar.clauses.limit import Limit
from grammar.meaning.evaluator import evaluate
from grammar.tree.ast import Expr
from grammar.values.errors import EvaluationError
from tests.support.books import examples
from tests.support.builders import Object, namespace, node, pod, raw, web
from tests.support.engines import (
    CODEC,
    NOW,
    SCHEMA,
    Known,
    Silent,
    cache_of,
    checked,
    engine_over,
    peer_of,
    registry_of,
)

NODES = [node("n1", "z1"), node("n2", "z1"), node("n3", "z2")]
APART = (
    'cluster policy apart { for pods where pod.labels["app"] == "db"\n'
    'limit "quiet" { all pods where peer.labels["app"] != "db" per node at most 0 strict mutual'
    ' message "a database wants to be alone" } }'
)


def db(name: str, on: str | None = None, where: str = "default", **fields: Any) -> Object:
    return pod(name, where, labels={"app": "db"}, on=on, **fields)


def passing(engine: Engine, asked: Object, nodes: Sequence[str] = ("n1", "n2", "n3")) -> list[str]:
    """The nodes that filter offers. The pod is in flight from then on."""
    verdicts = engine.filter(raw(asked), nodes, None, math.inf)
    return [n for n, v in zip(nodes, verdicts, strict=True) if isinstance(v, Feasible)]


def test_a_pod_that_is_there_keeps_others_out() -> None:
    """No policy governs the web pod. It is asked about like any other, and told why."""
    cache = cache_of(NODES, [db("db-0", on="n1"), web("web-0", on="n2")])
    engine = engine_over(APART, cache)
    verdicts = engine.filter(raw(web("web-1")), ["n1", "n2"], None, math.inf)
    (rejected,) = (v for v in verdicts if not isinstance(v, Feasible))
    assert (rejected.policy, rejected.clause) == ("apart", "quiet")
    assert rejected.reason == "a database wants to be alone"
    engine.in_flight.refuse(web("web-1")["metadata"]["uid"])
    assert passing(engine, web("web-1"), ["n1", "n2"]) == ["n2"]
    assert passing(engine, db("db-1"), ["n1", "n2"]) == ["n1"]


def test_without_the_word_it_does_not() -> None:
    cache = cache_of(NODES, [db("db-0", on="n1")])
    assert passing(engine_over(APART.replace(" mutual", ""), cache), web("web-1")) == [
        "n1",
        "n2",
        "n3",
    ]


def test_in_flight_pods_keep_others_out_of_where_they_may_end() -> None:
    cache = cache_of(NODES)
    engine = engine_over(APART, cache)
    assert passing(engine, db("db-0"), ["n1", "n2"])[:1] == ["n1"]
    assert "n1" not in passing(engine, web("web-1"))
    with pytest.raises(WaitingError, match="a database wants to be alone"):
        engine.filter(raw(web("web-2")), ["n1"], None, math.inf)
    cache.put_pod(peer_of(db("db-0", on="n1")))
    engine.in_flight.forget(db("db-0")["metadata"]["uid"])
    assert passing(engine, web("web-1"), ["n1", "n3"]) == ["n3"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("{ all", 'when "loud" in namespaceObject.labels { all', id="whom it governs"),
        pytest.param('!= "db"', '!= "db" && "loud" in namespaceObject.labels', id="whom it counts"),
    ],
)
def test_labels_of_namespaces_are_those_of_the_moment(before: str, after: str) -> None:
    cache = cache_of(NODES[:1], [db("db-0", on="n1")])
    assert APART.count(before) == 1
    engine = engine_over(APART.replace(before, after), cache)
    for labels in ({}, {"loud": "yes"}, {}, {"loud": "no"}):
        cache.put_namespace(decode_namespace(raw(namespace("default", labels=labels))))
        assert passing(engine, web("web-1"), ["n1"]) == ([] if labels else ["n1"])
        engine.in_flight.forget(web("web-1")["metadata"]["uid"])


def test_assumed_pods_and_nominated_pods_do_too() -> None:
    cache = cache_of(NODES, [db("db-0")])
    engine = engine_over(APART, cache)
    cache.assume(peer_of(db("db-0")), "n1", math.inf)
    assert passing(engine, web("web-1"), ["n1", "n3"]) == ["n3"]
    nominated = db("db-1", priority=7)
    nominated["status"]["nominatedNodeName"] = "n3"
    cache.put_pod(peer_of(nominated))
    assert passing(engine, web("web-1")) == ["n2"]
    assert passing(engine, web("web-9", priority=8)) == ["n2", "n3"]


def test_it_is_asked_again_before_the_binding() -> None:
    cache = cache_of(NODES)
    engine = engine_over(APART, cache)
    assert passing(engine, web("web-1"), ["n1"]) == ["n1"]
    cache.put_pod(peer_of(db("db-0", on="n1")))
    with pytest.raises(WaitingError, match="a database wants to be alone"):
        engine.admit(raw(web("web-1")), "n1", math.inf)
    assert engine.admit(raw(web("web-1")), "n2", math.inf).is_counted


def test_its_text_is_known_and_the_pod_is_tried_again_when_it_would_pass() -> None:
    cache = cache_of(NODES[:1], [db("db-0", on="n1")])
    engine = engine_over(APART, cache)
    asked = engine.looks.read(raw(web("web-1")))
    assert engine.looks.has_refused(
        asked, "0/1 nodes are available: 1 a database wants to be alone."
    )
    assert not engine.looks.would_pass(asked)
    cache.remove_pod("default/db-0")
    assert engine.looks.would_pass(asked)


def test_what_it_keeps_is_of_its_namespace_and_of_the_thread_that_decides(
    memory_of: Callable[[int], Memory],
) -> None:
    """A server compiles policies in other threads."""
    memory = memory_of(MOST_REMEMBERED)
    of_namespace = APART.replace("cluster policy apart {", 'policy apart in namespace "default" {')
    with ThreadPoolExecutor() as other:
        registry = other.submit(registry_of, of_namespace).result()
    cache = cache_of(NODES, [db("there", on="n1")])
    assert passing(Engine(registry, Known(cache), CODEC, Silent()), web("asked")) == ["n2", "n3"]
    assert sum(part.sizes["default"] for part in memory.parts) > 0


def test_an_inspection_says_whose_limit_it_is() -> None:
    """A node that a limit rejects in both ways is in one objection."""
    text = APART.replace("at most 0", "at most 1").replace('peer.labels["app"] != "db"', "true")
    cache = cache_of(NODES, [db("db-0", on="n1"), web("web-0", on="n2"), web("web-1", on="n2")])
    engine = engine_over(text, cache)
    for asked, whose in ((web("web-2"), [(True, ["n1"])]), (db("db-1"), [(False, ["n1", "n2"])])):
        found = finished(Inspection(engine, raw(asked)).objections())
        names = [[f"n{i + 1}" for i in o.refused.nonzero()[0]] for o in found]
        assert list(zip((o.is_mutual for o in found), names, strict=True)) == whose


def test_victims_keep_nobody_out() -> None:
    cache = cache_of(NODES, [db("db-0", on="n1"), db("db-1", on="n2"), db("db-2", on="n2")])
    engine = engine_over(APART, cache)
    victims = {"n1": db("db-0"), "n2": db("db-1")}
    asked = {n: Victims([v["metadata"]["uid"]], 0) for n, v in victims.items()}
    # The other database of n2 keeps it out.
    assert list(engine.preempt(raw(web("web-1", priority=9)), asked, math.inf)) == ["n1"]


def test_exempt_pods_keep_nobody_out_and_are_kept_out_nowhere() -> None:
    bypassing = db("db-1", on="n2", annotations={BYPASS: "because"})
    peer = ObjectCodec(SCHEMA, [BYPASS]).peer
    cache = cache_of(NODES, [db("db-0", on="n1", where="kube-system"), db("db-2", on="n3")])
    cache.put_pod(peer(raw(bypassing)))
    exemptions = Exemptions(frozenset({"kube-system"}), by_annotation=True)
    engine = engine_over(APART, cache, exemptions=exemptions)
    assert passing(engine, web("web-1")) == ["n1", "n2"]
    assert passing(engine, web("dns", namespace="kube-system")) == ["n1", "n2", "n3"]
    engine = engine_over(APART, cache, exemptions=NO_EXEMPTIONS)
    assert passing(engine, web("web-1")) == []
    assert passing(engine, web("dns", namespace="kube-system")) == []


@pytest.mark.parametrize(
    ("other", "kept_out"),
    [
        ('policy a in namespace "default" { weight 300 for pods where true }', False),
        ('policy a in namespace "default" { weight 102 for pods where true }', True),
        ('policy a in namespace "ads" { weight 300 for pods where true }', True),
        ("cluster policy a { for pods where true }", True),
        # What it selects by is not known of a pod that is there.
        ('policy a in namespace "default" { weight 300 for pods where !pod.spec.hostPID }', True),
    ],
)
def test_only_the_policy_that_governs_the_pod_there_counts(other: str, *, kept_out: bool) -> None:
    mine = APART.replace(
        "cluster policy apart {", 'policy apart in namespace "default" { weight 200'
    )
    engine = engine_over(f"{mine}\n{other}", cache_of(NODES, [db("db-0", on="n1")]))
    assert ("n1" not in passing(engine, web("web-1"))) is kept_out


def test_audit_reports_it() -> None:
    observer = Silent()
    text = APART.replace("{ for", "{ mode audit for")
    engine = engine_over(text, cache_of(NODES, [db("db-0", on="n1")]), observer)
    assert passing(engine, web("web-1")) == ["n1", "n2", "n3"]
    assert observer.heard == [("would reject", "apart", "quiet", 1)]


# ---- against a plain model

_WHERES = (
    'peer.labels["team"] != pod.labels["team"]',
    'peer.labels["app"] == "web"',
    'peer.labels["app"] == pod.labels["app"] && peer.namespace != "x"',
    "peer.priority <= pod.priority",
    'pod.requests["cpu"] + peer.requests["cpu"] > "3"',
    '"team" in pod.labels && pod.name != peer.name',
    'pod.workload.kind == "" && namespaceObject.labels["loud"] == "no"',
    'peer.namespaceLabels[?"loud"] != namespaceObject.labels[?"loud"]',
    "pod.hostPorts.exists(p, p in peer.hostPorts)",
)
_FORS = ('pod.labels["app"] == "db"', 'has(pod.labels["team"])', "pod.priority > 0")
_WHENS = ("", 'when pod.labels["team"] == "a" ', 'when "loud" in namespaceObject.labels ')
_SPACES = ("x", "y")


def _policy(random: Random) -> str:
    head = random.choice(("cluster policy p", 'policy p in namespace "x"', "policy p"))
    per = random.choice(("per node", "per zone", "per cluster"))
    pods = random.choice(("pods", "all pods"))
    most = random.choice((0, 0, 1, 2))
    return (
        f"{head} {{ for pods where {random.choice(_FORS)}\n"
        f'limit "l" {random.choice(_WHENS)}{{ {pods} where {random.choice(_WHERES)} {per}'
        f" at most {most} strict mutual }} }}"
    )


def _pod(random: Random, name: str, on: str | None) -> Object:
    labels = {"app": random.choice(("web", "db"))}
    if random.random() < 0.7:
        labels["team"] = random.choice("ab")
    priority, cpu = random.choice((None, 1, 2)), random.choice((None, "1", "2"))
    where = random.choice(_SPACES)
    made = pod(name, where, labels=labels, on=on, priority=priority, cpu=cpu)
    if random.random() < 0.5:
        port = random.choice((80, 443))
        made["spec"]["containers"][0]["ports"] = [{"hostPort": port, "containerPort": port}]
    return made


class _Model:
    """Every pod with every other one, by the plain evaluator."""

    def __init__(self, policy: Checked, cache: Cache, zones: dict[str, str]) -> None:
        self.policy, self.cache, self.zones = policy, cache, zones
        (self.limit,) = (c for c in policy.policy.clauses if isinstance(c, Limit))

    def _true(self, expr: Any, owner: Object, peer: Object | None = None) -> bool:
        if expr is None:
            return True
        namespaces = {n.name: n for n in self.cache.namespaces()}
        variables: dict[str, Any] = {
            "pod": CODEC.pod(raw(owner)),
            "namespaceObject": namespaces.get(owner["metadata"]["namespace"]),
            "now": NOW,
        }
        if peer is not None:
            variables["peer"] = self.peer(peer)
        try:
            return evaluate(expr, variables, self.policy.environment) is True
        except EvaluationError:
            return False

    def peer(self, of: Object) -> Peer:
        found = self.cache.namespace(of["metadata"]["namespace"])
        assert found is not None
        return labelled(peer_of(of), found.labels)

    def governs(self, owner: Object) -> bool:
        policy = self.policy.policy
        if policy.namespace not in (None, owner["metadata"]["namespace"]):
            return False
        return self._true(policy.selector, owner) and self._true(self.limit.when, owner)

    def counts(self, owner: Object, peer: Object) -> bool:
        pods = self.limit.pods
        assert pods is not None
        same = owner["metadata"]["namespace"] == peer["metadata"]["namespace"]
        return (pods.all or same) and self._true(pods.where, owner, peer)

    def domain(self, name: str) -> str:
        per = self.limit.per
        return self.zones[name] if per.domain is not None else name if per.place == "node" else ""

    def closed(self, asked: Object, name: str, places: Sequence[tuple[Object, list[str]]]) -> bool:
        """Whether the pod may not go to a node, with the nodes where each other pod may be."""
        here = self.domain(name)
        there = [p for p, nodes in places if here in {self.domain(n) for n in nodes}]
        most = self.limit.bound.amount
        assert not isinstance(most, Expr)
        owners = [owner for owner in there if self.governs(owner) and self.counts(owner, asked)]
        if self.governs(asked):
            own = int(self.counts(asked, asked))
            if sum(self.counts(asked, peer) for peer in there) + own > most:
                return True
        policy = self.policy.policy
        if policy.namespace not in (None, asked["metadata"]["namespace"]):
            return False
        return any(sum(self.counts(o, p) for p in there) + 1 > most for o in owners)


def _offered(engine: Engine, asked: Object, name: str) -> bool:
    """Whether the node alone is offered; the offer is taken back."""
    try:
        (verdict,) = engine.filter(raw(asked), [name], None, math.inf)
    except EngineError:
        return False
    engine.in_flight.forget(asked["metadata"]["uid"])
    return isinstance(verdict, Feasible)


@pytest.mark.parametrize("seed", range(examples(150)))
def test_equals_a_plain_model(seed: int) -> None:
    """With bound pods and pods in flight, and after each of many changes."""
    random = Random(seed)
    text = _policy(random)
    names = [f"n{i}" for i in range(random.randint(1, 4))]
    zones = {name: random.choice(("z1", "z2")) for name in names}
    cache = cache_of([node(name, zone) for name, zone in zones.items()])
    for space, labels in (("x", {"loud": "no"}), ("y", {})):
        cache.put_namespace(decode_namespace(raw(namespace(space, labels=labels))))
    (policy,) = checked(text)
    model, engine = _Model(policy, cache, zones), engine_over(text, cache)
    places: dict[str, tuple[Object, list[str]]] = {}
    for step in range(12):
        if random.random() < 0.3 and all(m["spec"].get("nodeName") for m, _ in places.values()):
            space, labels = random.choice(_SPACES), random.choice(({}, {"loud": "no"}))
            cache.put_namespace(decode_namespace(raw(namespace(space, labels=labels))))
        name = f"p{random.randint(0, 7)}"
        if (old := places.pop(name, None)) is not None:
            cache.remove_pod(f"{old[0]['metadata']['namespace']}/{name}")
            engine.in_flight.forget(old[0]["metadata"]["uid"])
        made = _pod(random, name, None)
        if random.random() < 0.6:
            made["spec"]["nodeName"] = (on := random.choice(names))
            cache.put_pod(peer_of(made))
            places[name] = made, [on]
        elif random.random() < 0.5:
            rows = cache.snapshot().table.find(offered := random.sample(names, 1))
            table, uid = cache.snapshot().table, made["metadata"]["uid"]
            flying = AskedPod(uid, partial(model.peer, made))
            engine.in_flight.offer(flying, table, rows, 0, is_narrow=False)
            places[name] = made, offered
        asked = _pod(random, f"asked-{step}", None)
        inspection = Inspection(engine, raw(asked), names)
        refused = {
            n
            for o, n in product(finished(inspection.objections()), names)
            if o.refused[names.index(n)]
        }
        there = [(made, on) for made, on in places.values() if made["spec"].get("nodeName")]
        assert refused == {n for n in names if model.closed(asked, n, there)}, text
        closed = {n for n in names if not _offered(engine, asked, n)}
        assert closed == {n for n in names if model.closed(asked, n, list(places.values()))}, text

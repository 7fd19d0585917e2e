"""After any events, in any order, the cache is what it would be if it were built from scratch."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.cache.cache import Cache
from engine.cache.node_table import Snapshot
from engine.cache.tallies import Scope
from engine.objects.codec import Namespace, Node
from engine.objects.peer import Controller, Peer, decode_controller, key_of
from tests.support.builders import controller, node, pod, raw
from tests.support.engines import node_of, peer_of, snapshot_of
from tests.support.examples import examples

NODES = ("n1", "n2")
PODS = ("a", "b")
DEPLOYMENTS = [controller("Deployment", name, replicas=3) for name in ("web", "api")]

nodes = st.builds(node, st.sampled_from(NODES), cpu=st.sampled_from(("4", "8")))
owners = st.sampled_from(
    [None, *(controller("ReplicaSet", f"rs{i}", owner=DEPLOYMENTS[0]) for i in range(2))]
)
pods = st.builds(
    pod,
    st.sampled_from(PODS),
    cpu=st.sampled_from((None, "1", "500m")),
    on=st.sampled_from((None, None, *NODES)),
    phase=st.sampled_from((None, "Running", "Succeeded")),
    labels=st.sampled_from((None, {"app": "a"}, {"app": "b", "tier": "x"})),
    owner=owners,
)
controllers = st.builds(
    controller,
    st.just("ReplicaSet"),
    st.sampled_from(("rs0", "rs1")),
    replicas=st.integers(0, 3),
    owner=st.sampled_from([None, *DEPLOYMENTS]),
) | st.builds(controller, st.just("Deployment"), st.just("web"), replicas=st.integers(0, 9))
namespaces = st.builds(
    Namespace,
    st.sampled_from(("default", "x")),
    st.sampled_from(({}, {"a": "b"}, {"a": "c"})),
    st.just({}),
)
events = st.one_of(
    st.tuples(st.just("node"), nodes),
    st.tuples(st.just("no node"), st.sampled_from(NODES)),
    st.tuples(st.just("pod"), pods),
    st.tuples(st.just("no pod"), st.sampled_from(PODS)),
    st.tuples(st.just("assume"), st.sampled_from(PODS), st.sampled_from(NODES), st.integers(1, 5)),
    st.tuples(st.just("forget"), st.sampled_from(PODS)),
    st.tuples(st.just("expire"), st.integers(1, 5)),
    st.tuples(st.just("controller"), controllers),
    st.tuples(st.just("namespace"), namespaces),
    st.tuples(st.just("no namespace"), st.sampled_from(("default", "x"))),
    st.tuples(st.just("retain"), st.frozensets(st.sampled_from(PODS))),
)


@dataclass
class Model:
    """The same, kept as plain lists of objects."""

    nodes: dict[str, Node] = field(default_factory=dict)
    pods: dict[str, Peer] = field(default_factory=dict)
    assumed: dict[str, tuple[str, float]] = field(default_factory=dict)
    controllers: dict[str, Controller] = field(default_factory=dict)
    namespaces: dict[str, Namespace] = field(default_factory=dict)

    def snapshot(self) -> Snapshot:
        there = [
            msgspec.structs.replace(p, nodeName=self.assumed[k][0]) if k in self.assumed else p
            for k, p in self.pods.items()
        ]
        return snapshot_of(
            self.nodes.values(),
            there,
            controllers=self.controllers.values(),
            namespaces=self.namespaces.values(),
        )


def happens(event: tuple[Any, ...], cache: Cache, model: Model) -> None:
    """One event, told to both."""
    match event:
        case ("node", made):
            known = node_of(made)
            cache.put_node(known)
            model.nodes[known.name] = known
        case ("no node", name):
            cache.remove_node(name)
            model.nodes.pop(name, None)
        case ("pod", made):
            peer = peer_of(made)
            cache.put_pod(peer)
            model.pods[key_of(peer)] = peer
            if peer.nodeName or peer.phase == "Succeeded":
                model.assumed.pop(key_of(peer), None)
            if peer.phase == "Succeeded":
                del model.pods[key_of(peer)]
        case ("no pod", name):
            cache.remove_pod(f"default/{name}")
            model.pods.pop(f"default/{name}", None)
            model.assumed.pop(f"default/{name}", None)
        case ("assume", name, where, until):
            # kube-scheduler binds what waits, and nothing else.
            waiting = model.pods.get(f"default/{name}")
            if waiting is not None and not waiting.nodeName:
                cache.assume(waiting, where, until)
                model.assumed[key_of(waiting)] = (where, until)
        case ("forget", name):
            cache.forget(f"default/{name}")
            model.assumed.pop(f"default/{name}", None)
        case ("expire", now):
            late = {key for key, (_, until) in model.assumed.items() if until <= now}
            assert set(cache.expire(now)) == late
            model.assumed = {k: v for k, v in model.assumed.items() if k not in late}
        case ("controller", made):
            decoded = decode_controller(made["kind"], raw(made))
            cache.put_controller(decoded)
            model.controllers[decoded.workload.uid] = decoded
        case ("namespace", made):
            cache.put_namespace(made)
            model.namespaces[made.name] = made
        case ("no namespace", name):
            cache.remove_namespace(name)
            model.namespaces.pop(name, None)
        case ("retain", names):
            keys = {f"default/{name}" for name in names}
            for key in model.pods.keys() - keys:
                cache.remove_pod(key)
            model.pods = {k: p for k, p in model.pods.items() if k in keys}
            model.assumed = {k: v for k, v in model.assumed.items() if k in keys}
        case _:
            raise AssertionError(event)


def web(peer: Peer) -> bool:
    return peer.requests["cpu"].nanos > 0


def labelled(peer: Peer) -> bool:
    return peer.labels.get("app") == "a"


def check_tallies(cache: Cache, model: Model) -> None:
    """They count what there is, whenever they were asked for first."""
    there = model.snapshot().pods()
    root = DEPLOYMENTS[0]["metadata"]["uid"]
    for scope in (Scope(), Scope("default"), Scope("shop"), Scope("default", root)):
        # A first count of the pods with a label looks at one pod with the same labels.
        first = cache.tallies.get(object(), scope, labelled, labelled)
        for counts, tally in (
            (web, cache.tallies.get("web", scope, web)),
            (labelled, cache.tallies.get("labelled", scope, labelled, labelled)),
            (labelled, first),
        ):
            counted = [p for p in there.values() if counts(p) and scope.holds(p)]
            assert tally.nodes == Counter(p.nodeName for p in counted if p.nodeName)
            assert tally.waiting == {key_of(p) for p in counted if not p.nodeName}


def shown(snapshot: Snapshot) -> dict[str, Any]:
    """What a snapshot says, in a form without order; amounts without their suffix."""
    return {
        "nodes": {
            name: (
                view.labels,
                amounts(view.requested),
                amounts(view.free),
                sorted(view.pods or (), key=key_of),
            )
            for name, view in snapshot.nodes.items()
        },
        "pending": dict(snapshot.pending),
        "strays": dict(snapshot.strays),
        "workloads": dict(snapshot.workloads),
        "namespaces": dict(snapshot.namespaces),
    }


def amounts(resources: Any) -> dict[str, int]:
    return {resource: amount.nanos for resource, amount in resources.items()}


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(events, min_size=15, max_size=40), st.integers(1, 3))
def test_incremental_equals_rebuilt(happened: list[tuple[Any, ...]], often: int) -> None:
    """Looked at after every event, every second or every third."""
    cache, model = Cache(), Model()
    for count, event in enumerate(happened):
        happens(event, cache, model)
        if not count % often:
            assert shown(cache.snapshot()) == shown(model.snapshot())
            check_tallies(cache, model)


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(events, max_size=20), st.lists(events, max_size=5))
def test_a_snapshot_does_not_change(
    before: list[tuple[Any, ...]], after: list[tuple[Any, ...]]
) -> None:
    """And places and versions tell apart what is other: same version, same view."""
    cache, model = Cache(), Model()
    for event in before:
        happens(event, cache, model)
    first = cache.snapshot()
    said = shown(first)
    for event in after:
        happens(event, cache, model)
    second = cache.snapshot()
    assert shown(first) == said
    for place, (old, new) in enumerate(zip(first.table.nodes, second.table.nodes, strict=False)):
        if first.table.versions[place] == second.table.versions[place] and new is not None:
            assert old is new

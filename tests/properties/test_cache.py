"""After any events, in any order, the cache is what it would be if it were built from scratch."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.cache.cache import Cache
from engine.cache.node_table import Snapshot
from engine.cache.tallies import Adding, Scope
from engine.errors import BadObjectError
from engine.objects.peer import (
    REQUEUE_CONDITION,
    Controller,
    Peer,
    PeerDecoder,
    decode_controller,
    key_of,
)
from engine.objects.request_pod import Namespace, Node
from tests.support.books import examples
from tests.support.builders import controller, node, pod, raw
from tests.support.engines import node_of, peer_of, snapshot_of

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
        of_app = Adding(labelled, reads=frozenset({("labels", "app")}))
        first = cache.tallies.get(object(), scope, of_app)
        for counts, tally in (
            (web, cache.tallies.get("web", scope, Adding(web))),
            (labelled, cache.tallies.get("labelled", scope, of_app)),
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


# ---- peers of pods that are like other pods: the same as if each were decoded by itself


ANNOTATIONS = ("a", "b")
# Few values, so that many pods are alike; and some that the API server does not send.
_AMOUNT = st.sampled_from(["1", "500m", "2Gi", "1e3", 2, None, "-1"])
_AMOUNTS = st.dictionaries(st.sampled_from(["cpu", "memory", "hugepages-2Mi"]), _AMOUNT, max_size=2)
_TIME = st.sampled_from(["2026-01-01T00:00:00Z", "2026-01-01T00:00:01.5+02:00"])
_TEXT = st.sampled_from(["", "x", "y"])
_ODD: st.SearchStrategy[Any] = st.sampled_from([None, 1, "bad", [], {}])


def _object(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """An object with any of these fields."""
    return st.fixed_dictionaries({}, optional=fields)


_RESOURCES = _object(requests=_AMOUNTS, limits=_AMOUNTS)
_PORTS = st.lists(
    _object(hostPort=st.sampled_from([0, 80]), hostIP=_TEXT, protocol=_TEXT), max_size=2
)
_NAMED = st.sampled_from(["main", "side"])
_CONTAINERS = st.lists(
    st.fixed_dictionaries(
        {"name": _NAMED},
        optional={
            "image": _TEXT,
            "resources": _RESOURCES,
            "restartPolicy": st.sampled_from(["Always", ""]),
            "ports": _PORTS,
            # Of no interest, and different in each pod.
            "volumeMounts": st.integers(),
        },
    ),
    max_size=2,
)
_STATUSES = st.lists(
    _object(
        name=_NAMED,
        resources=_RESOURCES,
        allocatedResources=_AMOUNTS,
        state=_object(terminated=_object(reason=_TEXT, finishedAt=_TIME)),
    ),
    max_size=2,
)
_CONDITIONS = st.lists(
    _object(
        type=st.sampled_from(["PodScheduled", "Ready", "PodResizePending", REQUEUE_CONDITION]),
        status=st.sampled_from(["True", "False"]),
        reason=st.sampled_from(["Infeasible", "Deferred"]),
        lastTransitionTime=_TIME,
        message=_TEXT,
    ),
    max_size=4,
)
_OWNERS = st.lists(_object(kind=_TEXT, name=_TEXT, uid=_TEXT, controller=st.booleans()), max_size=2)
_LABELS = st.dictionaries(
    st.sampled_from(["app", "scheduling.x-k8s.io/pod-group"]), _TEXT, max_size=2
)
_METADATA = st.fixed_dictionaries(
    {"name": _TEXT, "namespace": _TEXT, "uid": _TEXT},
    optional={
        "labels": _LABELS,
        "annotations": st.dictionaries(st.sampled_from([*ANNOTATIONS, "c"]), _TEXT),
        "ownerReferences": _OWNERS,
        "creationTimestamp": _TIME,
        "deletionTimestamp": _TIME,
    },
)
_VOLUMES = st.lists(_object(persistentVolumeClaim=st.just({}), emptyDir=st.just({})), max_size=1)
_SPEC = st.fixed_dictionaries(
    {"containers": _CONTAINERS},
    optional={
        "initContainers": _CONTAINERS,
        "nodeName": _TEXT,
        "schedulerName": _TEXT,
        "schedulingGates": st.lists(st.just({"name": "wait"}), max_size=1),
        "schedulingGroup": _object(podGroupName=_TEXT),
        "volumes": _VOLUMES,
        "resourceClaims": st.lists(st.just({"name": "gpu"}), max_size=1),
        "priority": st.sampled_from([0, 5]),
        "overhead": _AMOUNTS,
        "resources": _RESOURCES,
    },
)
_STATUS = st.fixed_dictionaries(
    {"phase": st.sampled_from(["Pending", "Running", "Failed"])},
    optional={
        "reason": _TEXT,
        "startTime": _TIME,
        "nominatedNodeName": _TEXT,
        "conditions": _CONDITIONS,
        "containerStatuses": _STATUSES,
        "initContainerStatuses": _STATUSES,
        "resources": _RESOURCES,
        "allocatedResources": _AMOUNTS,
    },
)


@st.composite
def _pods(draw: st.DrawFn) -> bytes:
    """A pod, of which some have a field that the API server does not send."""
    pod: dict[str, Any] = draw(
        st.fixed_dictionaries({"metadata": _METADATA, "spec": _SPEC, "status": _STATUS})
    )
    if draw(st.booleans()):
        part = draw(st.sampled_from(["metadata", "spec", "status"]))
        field = draw(st.sampled_from(sorted(pod[part]) or ["name"]))
        pod[part][field] = draw(_ODD)
    return json.dumps(pod).encode()


def _outcome(decoder: PeerDecoder, pod: bytes) -> Peer | str:
    try:
        return decoder.decode(pod)
    except BadObjectError as error:
        return str(error)


@settings(max_examples=examples(1000))
@given(pods=st.lists(_pods(), min_size=1, max_size=6))
def test_a_pod_like_another_is_the_same(pods: list[bytes]) -> None:
    """Twice each: the second time everything is remembered."""
    decoder = PeerDecoder(ANNOTATIONS)
    for body in (*pods, *pods):
        wanted = _outcome(PeerDecoder(ANNOTATIONS), body)
        assert _outcome(decoder, body) == wanted


def test_what_pods_have_in_common_is_read_once() -> None:
    """The amounts of a pod like another one are the same object, whatever else it has."""
    decoder = PeerDecoder()

    def decoded(name: str, mount: str) -> Peer:
        container = {
            "name": "main",
            "resources": {"requests": {"cpu": "1"}},
            "volumeMounts": [{"name": f"kube-api-access-{mount}"}],
        }
        pod = {
            "metadata": {"name": name, "namespace": "shop", "uid": name},
            "spec": {"containers": [container]},
            "status": {"phase": "Pending"},
        }
        return decoder.decode(json.dumps(pod).encode())

    first, second = decoded("a", "xyz12"), decoded("b", "abc34")
    assert (first.name, second.name) == ("a", "b")
    assert first.requests is second.requests
    assert first.containers is second.containers

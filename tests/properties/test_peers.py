"""Peers of pods that are like other pods: the same as if each were decoded by itself."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import BadObjectError
from engine.objects.peer import REQUEUE_CONDITION, Peer, PeerDecoder
from tests.support.examples import examples

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
    for pod in (*pods, *pods):
        wanted = _outcome(PeerDecoder(ANNOTATIONS), pod)
        assert _outcome(decoder, pod) == wanted


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

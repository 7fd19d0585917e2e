"""The codec: pods and nodes from JSON, and errors for everything else."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from engine.errors import BadObjectError
from engine.objects.peer import HostPort, Workload, decode_controller
from engine.objects.request_pod import ObjectCodec
from grammar.meaning.schema import Schema
from grammar.tree.types import Type
from grammar.values.quantity import Quantity
from grammar.values.time import Timestamp
from tests.support import builders
from tests.support.engines import peer_of
from tests.support.rows import rows

CONTRACT = Path(__file__).parents[2] / "contract"
# As `kubectl get -o json` printed them in a cluster of Kubernetes 1.36.
PODS: list[dict[str, Any]] = json.loads((CONTRACT / "pods.json").read_text("utf-8"))["items"]
NODES: list[dict[str, Any]] = json.loads((CONTRACT / "nodes.json").read_text("utf-8"))["items"]


@pytest.fixture(scope="module")
def codec(schema: Schema) -> ObjectCodec:
    return ObjectCodec(schema, annotations=["example.com/kept"])


def encoded(value: object) -> bytes:
    return msgspec.json.encode(value)


def assert_same(schema: Schema, type_: Type, found: Any, wanted: Any) -> None:
    """`found` has all that the JSON in `wanted` has, by the schema."""
    match type_.name, wanted:
        case _, None:
            assert found is None
        case "list", list():
            assert len(found) == len(wanted)
            for item, other in zip(found, wanted, strict=True):
                assert_same(schema, type_.args[0], item, other)
        case "map", dict():
            assert found.keys() == wanted.keys()
            for key, other in wanted.items():
                assert_same(schema, type_.args[1], found[key], other)
        case "quantity", str():
            assert found == Quantity.parse(wanted)
        case "timestamp", str():
            assert found == Timestamp.parse(wanted)
        case name, dict() if type_.is_record:
            for key, other in wanted.items():
                if key != "managedFields":
                    field = schema.field(name, key)
                    assert field is not None, f"{name}.{key}"
                    assert_same(schema, field.type, getattr(found, key), other)
        case _:
            assert found == wanted
            assert type(found) is type(wanted)


@pytest.mark.parametrize("pod", PODS, ids=lambda pod: pod["metadata"]["name"])
def test_a_recorded_pod_is_complete(
    schema: Schema, codec: ObjectCodec, pod: dict[str, Any]
) -> None:
    assert_same(schema, Type("Pod"), codec.pod(encoded(pod)), pod)


@pytest.mark.parametrize("node", NODES, ids=lambda node: node["metadata"]["name"])
def test_a_recorded_node_is_complete(
    schema: Schema, codec: ObjectCodec, node: dict[str, Any]
) -> None:
    found = codec.node(encoded(node))
    assert_same(schema, Type("Node"), found, node)
    assert found.name == node["metadata"]["name"]
    assert found.labels == node["metadata"]["labels"]
    assert found.allocatable == found.status.allocatable
    assert found.allocatable["example.com/none"] == Quantity.parse("0")


@pytest.mark.parametrize("pod", PODS, ids=lambda pod: pod["metadata"]["name"])
def test_a_peer_agrees_with_its_pod(codec: ObjectCodec, pod: dict[str, Any]) -> None:
    whole, slim = codec.pod(encoded(pod)), codec.peer(encoded(pod))
    for name in (
        "name",
        "namespace",
        "uid",
        "labels",
        "priority",
        "requests",
        "limits",
        "workload",
    ):
        assert getattr(slim, name) == getattr(whole, name), name
    assert slim.nodeName == (whole.spec.nodeName or "")
    assert slim.phase == whole.status.phase
    assert slim.created == whole.metadata.creationTimestamp
    assert [(c.name, c.image) for c in slim.containers] == [
        (c.name, c.image) for c in whole.spec.containers
    ]
    assert (slim.unscheduled is not None) == (not slim.nodeName)


def test_an_empty_pod_has_nothing(codec: ObjectCodec) -> None:
    for pod in (codec.pod(b"{}"), codec.peer(b"{}")):
        assert (pod.name, pod.namespace, pod.uid, pod.labels) == ("", "", "", {})
        assert (pod.priority, pod.requests, pod.limits, pod.workload) == (0, {}, {}, None)


def test_an_empty_node_has_nothing(codec: ObjectCodec) -> None:
    node = codec.node(b"{}")
    assert (node.name, node.labels, node.allocatable) == ("", {}, {})
    assert (node.metadata, node.spec, node.status) == (None, None, None)


def nulls(schema: Schema, type_: Type) -> dict[str, None]:
    fields = schema.records[type_.name].fields.values()
    return {field.name: None for field in fields if field.derived is None and not field.native}


@pytest.mark.parametrize("kind", ["Pod", "Node"])
def test_null_is_absent_everywhere(schema: Schema, codec: ObjectCodec, kind: str) -> None:
    """Go writes null for a nil slice, and for the zero time."""
    decode: Callable[[bytes], object] = codec.pod if kind == "Pod" else codec.node
    sent: dict[str, Any] = {"a field of a later version": {"x": [1]}} | nulls(schema, Type(kind))
    decode(encoded(sent))
    for part in ("metadata", "spec", "status"):
        field = schema.field(kind, part)
        assert field is not None
        sent[part] = nulls(schema, field.type)
    decode(encoded(sent))
    if kind == "Pod":
        codec.peer(encoded(sent))


@pytest.mark.parametrize(
    ("json_text", "quantity"),
    [("2", "2"), ("0.5", "500m"), ('"1Gi"', "1Gi"), ('"1e3"', "1k"), ("null", "0")],
)
def test_quantities_are_texts_or_numbers(codec: ObjectCodec, json_text: str, quantity: str) -> None:
    pod = codec.pod(b'{"spec": {"overhead": {"cpu": %s}}}' % json_text.encode())
    assert pod.spec.overhead == {"cpu": Quantity.parse(quantity)}


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "bad Pod: input data was truncated"),
        (b"{]", "bad Pod: malformed JSON: object keys must be strings (byte 1)"),
        (b"null", "bad Pod: expected `object`, got `null`"),
        (b"[]", "bad Pod: expected `object`, got `array`"),
        (b'{"spec": 1}', "bad Pod at `spec`: expected `object`, got `int`"),
        (
            b'{"spec": {"nodeName": 1}}',
            "bad Pod at `spec.nodeName`: expected `string`, got `int`",
        ),
        (
            b'{"spec": {"containers": [{}, null]}}',
            "bad Pod at `spec.containers[1]`: expected `object`, got `null`",
        ),
        (
            b'{"metadata": {"labels": {"a": 1}}}',
            "bad Pod at `metadata.labels[...]`: expected `string`, got `int`",
        ),
        (
            b'{"metadata": {"creationTimestamp": 5}}',
            "bad Pod at `metadata.creationTimestamp`: expected `timestamp`, got `int`",
        ),
        (
            b'{"spec": {"overhead": {"cpu": true}}}',
            "bad Pod at `spec.overhead[...]`: expected `quantity`, got `bool`",
        ),
        (b'{"metadata": {"name": "\xff"}}', "bad Pod: the text is not UTF-8"),
        (b'{"x": ' + b"[" * 1_000_000, "bad Pod: nested too deeply"),
    ],
)
def test_errors_name_the_path(codec: ObjectCodec, data: bytes, text: str) -> None:
    for decode in (codec.pod, codec.peer):
        with pytest.raises(BadObjectError) as raised:
            decode(data)
        assert str(raised.value) == text


@pytest.mark.parametrize(
    ("data", "path"),
    [
        (
            b'{"spec": {"containers": [{"resources": {"requests": {"cpu": "lots"}}}]}}',
            "spec.containers[0].resources.requests[...]",
        ),
        (b'{"metadata": {"creationTimestamp": "today"}}', "metadata.creationTimestamp"),
    ],
)
def test_bad_values_are_quoted(codec: ObjectCodec, data: bytes, path: str) -> None:
    with pytest.raises(BadObjectError) as raised:
        codec.pod(data)
    assert str(raised.value).startswith(f"bad Pod at `{path}`: ")
    assert "lots" in str(raised.value) or "today" in str(raised.value)


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 10**30])
def test_ints_have_64_bits(codec: ObjectCodec, number: int) -> None:
    with pytest.raises(BadObjectError, match=r"bad Node at `metadata\.generation`"):
        codec.node(encoded({"metadata": {}}).replace(b"{}", b'{"generation": %d}' % number))


def test_a_node_is_named_in_its_errors(codec: ObjectCodec) -> None:
    with pytest.raises(BadObjectError, match=r"^bad Node at `spec\.taints`"):
        codec.node(b'{"spec": {"taints": {}}}')


def test_the_controller_is_the_workload(codec: ObjectCodec) -> None:
    owners = [
        {"kind": "Database", "name": "orders", "uid": "1"},
        {"kind": "ReplicaSet", "name": "web-7d9c", "uid": "2", "controller": True},
    ]
    data = encoded({"metadata": {"ownerReferences": owners}})
    expected = Workload("ReplicaSet", "web-7d9c", "2", replicas=None)
    assert codec.pod(data).workload == expected
    assert codec.peer(data).workload == expected
    owners.pop()
    assert codec.pod(encoded({"metadata": {"ownerReferences": owners}})).workload is None


@pytest.mark.parametrize(
    ("strategy", "surge"),
    [
        (None, 3),
        ({"type": "RollingUpdate"}, 3),
        ({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 4}}, 4),
        ({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "100%"}}, 10),
        ({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "much"}}, 0),
        ({"type": "Recreate"}, 0),
    ],
)
def test_a_deployment_has_a_surge(strategy: dict[str, Any] | None, surge: int) -> None:
    """A quarter of the replicas by default, rounded up."""
    spec = {"replicas": 10, "strategy": strategy}
    found = decode_controller("Deployment", encoded({"metadata": {"name": "web"}, "spec": spec}))
    assert found.workload == Workload("Deployment", "web", "", 10, surge)
    others = decode_controller("ReplicaSet", encoded({"metadata": {"name": "web"}, "spec": spec}))
    assert others.workload.surge == 0


def test_peers_keep_the_annotations_that_rules_name(codec: ObjectCodec) -> None:
    annotations = {"example.com/kept": "a", "example.com/long": "b" * 1000}
    peer = codec.peer(encoded({"metadata": {"annotations": annotations}}))
    assert peer.annotations == {"example.com/kept": "a"}


def test_host_ports_are_those_that_node_ports_looks_at(codec: ObjectCodec) -> None:
    """Of containers and sidecars, with the defaults; a port of the pod alone is none."""
    one = {"containerPort": 80, "hostPort": 8080}
    two = {"containerPort": 81, "hostPort": 8081, "hostIP": "10.0.0.1", "protocol": "UDP"}
    spec = {
        "initContainers": [
            {"name": "first", "ports": [one]},
            {"name": "beside", "restartPolicy": "Always", "ports": [two]},
        ],
        "containers": [{"name": "main", "ports": [{"containerPort": 82}, one]}, {"name": "more"}],
    }
    body = encoded({"spec": spec})
    taken = (HostPort(8081, "10.0.0.1", "UDP"), HostPort(8080, "0.0.0.0", "TCP"))  # noqa: S104
    assert codec.peer(body).hostPorts == taken
    assert codec.pod(body).hostPorts == taken
    without = encoded({"spec": {"containers": [{"name": "main", "ports": None}]}})
    assert codec.peer(without).hostPorts == codec.pod(without).hostPorts == ()
    with pytest.raises(BadObjectError, match="hostPort"):
        codec.peer(encoded({"spec": {"containers": [{"ports": [{"hostPort": "x"}]}]}}))


def test_peers_share_what_they_have_in_common(codec: ObjectCodec) -> None:
    def peer(name: str, app: str) -> Any:
        metadata = {
            "name": name,
            "labels": {"app": app},
            "ownerReferences": [{"kind": "ReplicaSet", "name": "web", "controller": True}],
        }
        resources = {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}
        containers = [{"name": "main", "image": "web:1", "resources": resources}]
        spec = {"nodeName": "node with a long name", "containers": containers}
        return codec.peer(encoded({"metadata": metadata, "spec": spec}))

    one, two, other = peer("one", "a"), peer("two", "a"), peer("three", "b")
    for name in ("labels", "requests", "limits", "workload", "containers", "nodeName"):
        assert getattr(one, name) is getattr(two, name), name
    assert one.labels is not other.labels
    assert one.requests is not one.limits


def test_a_waiting_pod_has_its_scheduled_condition(codec: ObjectCodec) -> None:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    pending = codec.peer(encoded({"status": {"conditions": [{"type": "Ready"}, condition]}}))
    assert pending.unscheduled is not None
    assert pending.unscheduled.reason == "Unschedulable"
    bound = codec.peer(encoded({"status": {"conditions": [condition | {"status": "True"}]}}))
    assert bound.unscheduled is None


def test_the_copy_that_kubectl_keeps_of_a_pod_is_not_read(schema: Schema) -> None:
    """It has the `env` values."""
    copy = "kubectl.kubernetes.io/last-applied-configuration"
    body = encoded({"metadata": {"name": "a", "annotations": {copy: "{}", "b": "c"}}})
    codec = ObjectCodec(schema, annotations=[copy, "b"])
    assert codec.pod(body).metadata.annotations == {"b": "c"}
    assert codec.peer(body).annotations == {"b": "c"}


@rows(
    ("spec", "is_gated", "has_claims"),
    {
        "neither": ({}, False, False),
        "gated": ({"schedulingGates": [{"name": "example.com/gate"}]}, True, False),
        "its gates are removed": ({"schedulingGates": []}, False, False),
        "a claim": (
            {"volumes": [{"name": "a", "persistentVolumeClaim": {"claimName": "b"}}]},
            False,
            True,
        ),
        "an ephemeral volume": (
            {"volumes": [{"name": "a", "ephemeral": {"volumeClaimTemplate": {}}}]},
            False,
            True,
        ),
        "volumes without claims": (
            {"volumes": [{"name": "ephemeral", "emptyDir": {}}, {"name": "c", "configMap": {}}]},
            False,
            False,
        ),
        "null": ({"volumes": None, "resourceClaims": None}, False, False),
        "a device": ({"resourceClaims": [{"name": "gpu"}]}, False, True),
        "bound": ({"resourceClaims": [{"name": "gpu"}], "nodeName": "n1"}, False, False),
    },
)
def test_what_a_pod_waits_for(spec: dict[str, object], is_gated: bool, has_claims: bool) -> None:
    found = peer_of(builders.pod("a", spec=spec))
    assert (found.is_gated, found.has_claims) == (is_gated, has_claims)


def test_a_controller_has_the_time_of_its_creation() -> None:
    metadata = {"name": "web", "creationTimestamp": "2026-11-21T10:00:00Z"}
    found = decode_controller("Job", encoded({"metadata": metadata}))
    assert found.workload.created == Timestamp.parse("2026-11-21T10:00:00Z")
    assert decode_controller("Job", encoded({"metadata": {"name": "web"}})).workload.created is None

"""Defaulting: pods and nodes as the API server would store them, where they do not come from one.

Manifests, hand-written snapshots and test blocks leave out what the API server fills in: requests
of a container with limits, `allocatable` of a node with `capacity`, pod-level requests, ports of a
pod on the host network, and the number of a priority class. The rules are those of SetDefaults_Pod
and SetDefaults_NodeStatus (pkg/apis/core/v1/defaults.go), and of the admission plugin Priority. An
object with a resource version was stored and is left alone, and so is what cannot be read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from typing import Any

import msgspec

from engine.objects.api_types import PodSpec, mapping, mappings
from engine.objects.decoding import decode_scalar, read_json
from engine.objects.resources import CPU, MEMORY, pod_limits, pod_requests
from grammar.values.quantity import Quantity

Json = dict[str, Any]

# The classes that every cluster has.
_CLASSES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_HUGE_PAGES = "hugepages-"


class _Stored(msgspec.Struct):
    resourceVersion: str | None = None
    creationTimestamp: str | None = None


class _StoredHead(msgspec.Struct):
    kind: str | None = None
    metadata: _Stored | None = None
    items: list[msgspec.Raw] | None = None


@dataclass(frozen=True, slots=True)
class _Object:
    """An object as it is written; one that cannot be read has no kind."""

    content: bytes | msgspec.Raw
    kind: str = ""
    metadata: _Stored | None = None


def as_stored(documents: Iterable[bytes]) -> list[bytes]:
    """The JSON documents of one source, with their pods and nodes as they would be stored."""
    read = [(document, _objects(document)) for document in documents]
    priorities, created = dict(_CLASSES), ""
    for each in chain.from_iterable(objects for _, objects in read):
        if each.metadata is not None:
            created = max(created, each.metadata.creationTimestamp or "")
        if each.kind == "PriorityClass":
            known = read_json(each.content, Json) or {}
            if isinstance(value := known.get("value"), int):
                priorities[str(mapping(known, "metadata").get("name"))] = value
                if known.get("globalDefault") is True:
                    priorities[""] = value
    now = created or datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return [_document(document, objects, priorities, now) for document, objects in read]


def _objects(document: bytes) -> list[_Object]:
    """The objects of a document: the items of a list, or itself."""
    outer = read_json(document, _StoredHead)
    if outer is None:
        return []
    if outer.items is None:
        return [_Object(document, outer.kind or "", outer.metadata)]
    default, found = (outer.kind or "").removesuffix("List"), []
    for item in outer.items:
        if (head := read_json(item, _StoredHead)) is None:
            found.append(_Object(item))
        else:
            found.append(_Object(item, head.kind or default, head.metadata))
    return found


def _document(
    document: bytes, objects: Sequence[_Object], priorities: Mapping[str, int], now: str
) -> bytes:
    stored = [_stored(each, priorities, now) for each in objects]
    if all(new is each.content for new, each in zip(stored, objects, strict=True)):
        return document
    if objects[0].content is document:
        return bytes(stored[0])
    fields = msgspec.json.decode(document, type=dict[str, msgspec.Raw])
    raw = [item if isinstance(item, msgspec.Raw) else msgspec.Raw(item) for item in stored]
    return msgspec.json.encode({**fields, "items": raw})


def _stored(found: _Object, priorities: Mapping[str, int], now: str) -> bytes | msgspec.Raw:
    item = found.content
    if found.kind not in ("Pod", "Node"):
        return item
    if found.metadata is not None and found.metadata.resourceVersion:
        return item
    if (value := read_json(item, Json)) is None:
        return item
    before = msgspec.json.encode(value)
    if found.kind == "Pod":
        default_pod(value, priorities)
    else:
        default_node(value, now)
    after = msgspec.json.encode(value)
    return item if after == before else after


# ---- one object, which is changed


def default_node(node: Json, now: str = "") -> None:
    """Gives a node what the API server would set; one without a time was created now, if given."""
    status = mapping(node, "status")
    if not mapping(status, "allocatable") and mapping(status, "capacity"):
        status["allocatable"] = dict(mapping(status, "capacity"))
    metadata = mapping(node, "metadata")
    if metadata and now:
        metadata.setdefault("creationTimestamp", now)


def default_pod(pod: Json, priorities: Mapping[str, int] = _CLASSES) -> None:
    """Gives a pod what the API server would set; `priorities` are those of classes by name.

    The name "" stands for the class that is the default of the cluster.
    """
    spec = mapping(pod, "spec")
    containers = [*mappings(spec, "containers"), *mappings(spec, "initContainers")]
    for container in containers:
        resources = mapping(container, "resources")
        if limits := mapping(resources, "limits"):
            resources["requests"] = limits | mapping(resources, "requests")
        if spec.get("hostNetwork") is True:
            for port in mappings(container, "ports"):
                port["hostPort"] = port.get("hostPort") or port.get("containerPort") or 0
    if mapping(spec, "resources"):
        _default_pod_level(spec)
    if spec.get("priority") is None:
        value = priorities.get(str(spec.get("priorityClassName") or ""))
        if value is not None:
            spec["priority"] = value


def _default_pod_level(spec: Json) -> None:
    """Fills in the pod-level resources from those of containers, then requests from limits."""
    try:
        slim = msgspec.convert(
            {**spec, "resources": None, "overhead": None}, PodSpec, dec_hook=decode_scalar
        )
    except msgspec.ValidationError:
        return
    resources = mapping(spec, "resources")
    requests, limits = dict(mapping(resources, "requests")), dict(mapping(resources, "limits"))
    if requests or limits:
        for resource, sum_ in pod_limits(slim, None).items():
            if resource.startswith(_HUGE_PAGES) and resource not in requests:
                limits.setdefault(resource, str(sum_))
    if limits:
        resources["limits"] = limits
        sums: Mapping[str, Quantity] = pod_requests(slim, None)
        for resource in (CPU, MEMORY):
            if resource in sums:
                requests.setdefault(resource, str(sums[resource]))
        for resource, most in limits.items():
            if resource in (CPU, MEMORY) or resource.startswith(_HUGE_PAGES):
                requests.setdefault(resource, most)
        if requests:
            resources["requests"] = requests

"""Pods and nodes from their JSON, with what the engine adds: requests, limits, workload."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from engine.objects.api_types import Metadata
from engine.objects.controllers import Workload, workload_of
from engine.objects.decoding import ObjectDecoder, StructFactory
from engine.objects.peer import Peer, PeerDecoder
from engine.objects.resources import PodRequests, Resources, pod_limits, pod_requests
from grammar.schema import Schema
from grammar.values.quantity import Quantity

# A Struct that the schema describes: attributes as in the API, None where the object has nothing.
Record = Any


@dataclass(frozen=True, slots=True)
class Pod:
    """The pod that a request is about.

    The attributes up to `priority` are for the engine, the others are those of the schema's Pod.
    `workload` is the direct controller until someone who knows the ReplicaSets replaces it.
    """

    name: str
    namespace: str
    uid: str
    labels: Mapping[str, str]
    priority: int
    kind: str | None
    apiVersion: str | None
    metadata: Record
    spec: Record
    status: Record
    requests: PodRequests
    limits: Mapping[str, Quantity]
    workload: Workload | None


@dataclass(frozen=True, slots=True)
class Node:
    """A node by itself, without the pods on it. `name` and `labels` are for the engine."""

    name: str
    labels: Mapping[str, str]
    kind: str | None
    apiVersion: str | None
    metadata: Record
    spec: Record
    status: Record
    allocatable: Resources


class ObjectCodec:
    """Decodes the JSON of pods and nodes. Making one takes milliseconds: make one and pass it on.

    `annotations` are the keys that loaded rules read from peers; peers keep no others.
    """

    def __init__(self, schema: Schema, annotations: Collection[str] = ()) -> None:
        structs = StructFactory(schema)
        self._pod: ObjectDecoder[Record] = ObjectDecoder("Pod", structs.struct("Pod"))
        self._node: ObjectDecoder[Record] = ObjectDecoder("Node", structs.struct("Node"))
        self._peer = PeerDecoder(annotations)

    def pod(self, data: bytes | msgspec.Raw) -> Pod:
        """The whole pod, every field of the schema. Raises BadObjectError, naming the path."""
        pod = self._pod.decode(data)
        metadata, spec = pod.metadata, pod.spec
        return Pod(
            name=(metadata and metadata.name) or "",
            namespace=(metadata and metadata.namespace) or "",
            uid=(metadata and metadata.uid) or "",
            labels=(metadata and metadata.labels) or {},
            priority=(spec and spec.priority) or 0,
            kind=pod.kind,
            apiVersion=pod.apiVersion,
            metadata=metadata,
            spec=spec,
            status=pod.status,
            requests=pod_requests(spec, pod.status),
            limits=pod_limits(spec, pod.status),
            workload=workload_of((metadata and metadata.ownerReferences) or ()),
        )

    def node(self, data: bytes | msgspec.Raw) -> Node:
        """The whole node. Raises BadObjectError, naming the path."""
        node = self._node.decode(data)
        metadata, status = node.metadata, node.status
        return Node(
            name=(metadata and metadata.name) or "",
            labels=(metadata and metadata.labels) or {},
            kind=node.kind,
            apiVersion=node.apiVersion,
            metadata=metadata,
            spec=node.spec,
            status=status,
            allocatable=Resources((status and status.allocatable) or {}),
        )

    def peer(self, data: bytes | msgspec.Raw) -> Peer:
        """What the cache keeps of a pod. Raises BadObjectError, naming the path."""
        return self._peer.decode(data)


# ---- A namespace, as rules see it under the name `namespaceObject`.


class Namespace(msgspec.Struct, frozen=True, gc=False):
    """The attributes are those of the schema's Namespace."""

    name: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]


class _SlimNamespace(msgspec.Struct, frozen=True, gc=False):
    metadata: Metadata | None = None


class NamespaceDecoder:
    """Decodes Namespace objects."""

    def __init__(self) -> None:
        self._decoder = ObjectDecoder("Namespace", _SlimNamespace)

    def decode(self, data: bytes | msgspec.Raw) -> Namespace:
        """The namespace of an object's JSON. Raises BadObjectError, naming the path."""
        metadata = self._decoder.decode(data).metadata or Metadata()
        return Namespace(metadata.name or "", metadata.labels or {}, metadata.annotations or {})

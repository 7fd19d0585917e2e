"""Codec of objects: pods, nodes and peers from their JSON, with requests, limits and workload.

One codec serves one set of loaded rules. It holds decoders only, no objects.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from engine.objects.api_types import ObjectMeta, SlimNamespace
from engine.objects.decoding import ObjectDecoder, StructFactory
from engine.objects.peer import (
    HostPort,
    Peer,
    PeerDecoder,
    PodFailure,
    Workload,
    host_ports,
    workload_of,
)
from engine.objects.pod_group import PodGroup, group_name
from engine.objects.resources import PodRequests, pod_limits, pod_requests
from grammar.meaning.schema import Schema
from grammar.values.quantity import Quantity, Resources

# kubectl repeats the whole object in it, with the `env` values that a policy may not read.
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"

# A struct that the schema describes: attributes as in the API, None where the object has nothing.
Record = Any


@dataclass(frozen=True, slots=True)
class Pod:
    """The pod of a request.

    The attributes up to `priority` are for the engine, the others are the fields of the schema's
    Pod. `workload` is the direct controller; of the `group` the name alone is known, and of
    `failures` nothing.
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
    group: PodGroup | None
    hostPorts: tuple[HostPort, ...]
    failures: tuple[PodFailure, ...] = ()


@dataclass(frozen=True, slots=True)
class Node:
    """A node without its pods. `name` and `labels` are for the engine."""

    name: str
    labels: Mapping[str, str]
    kind: str | None
    apiVersion: str | None
    metadata: Record
    spec: Record
    status: Record
    allocatable: Resources


class ObjectCodec:
    """Codec of the JSON of pods and nodes. Construction takes milliseconds, so pass one on.

    `annotations` are the keys of the annotations that loaded rules read; peers keep no others.
    `peer` decodes a Pod to what the cache keeps of it. It raises BadObjectError, naming the path.
    `labels` gives the mapping that all peers with equal labels have.
    """

    def __init__(self, schema: Schema, annotations: Collection[str] = ()) -> None:
        structs = StructFactory(schema)
        self._pod: ObjectDecoder[Record] = ObjectDecoder("Pod", structs.struct("Pod"))
        self._node: ObjectDecoder[Record] = ObjectDecoder("Node", structs.struct("Node"))
        self._annotations = frozenset(annotations)
        self._peers = peers = PeerDecoder()
        self.peer: Callable[[bytes | msgspec.Raw], Peer] = peers.decode
        self.labels: Callable[[dict[str, str]], Mapping[str, str]] = peers.shared_texts
        self.keep(())

    def keep(self, annotations: Collection[str]) -> None:
        """Keep these annotations of peers, too, in place of those of the last call."""
        self._peers.keep((self._annotations | frozenset(annotations)) - {LAST_APPLIED})

    def pod(self, data: bytes | msgspec.Raw) -> Pod:
        """The pod with every field of the schema. Raises BadObjectError, naming the path."""
        pod = self._pod.decode(data)
        metadata, spec = pod.metadata, pod.spec
        if metadata is not None and metadata.annotations:
            metadata.annotations.pop(LAST_APPLIED, None)
        labels = (metadata and metadata.labels) or {}
        group = group_name(spec and spec.schedulingGroup, labels)
        return Pod(
            name=(metadata and metadata.name) or "",
            namespace=(metadata and metadata.namespace) or "",
            uid=(metadata and metadata.uid) or "",
            labels=labels,
            priority=(spec and spec.priority) or 0,
            kind=pod.kind,
            apiVersion=pod.apiVersion,
            metadata=metadata,
            spec=spec,
            status=pod.status,
            requests=pod_requests(spec, pod.status),
            limits=pod_limits(spec, pod.status),
            workload=workload_of((metadata and metadata.ownerReferences) or ()),
            group=PodGroup(group.name) if group is not None else None,
            hostPorts=host_ports(spec) if spec is not None else (),
        )

    def node(self, data: bytes | msgspec.Raw) -> Node:
        """The node with every field of the schema. Raises BadObjectError, naming the path."""
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


class Namespace(msgspec.Struct, frozen=True, gc=False):
    """A namespace, with the attributes of the schema's Namespace (`namespaceObject` in rules)."""

    name: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]


_NAMESPACE = ObjectDecoder("Namespace", SlimNamespace)


def decode_namespace(data: bytes | msgspec.Raw) -> Namespace:
    """The namespace of an object's JSON. Raises BadObjectError, naming the path."""
    metadata = _NAMESPACE.decode(data).metadata or ObjectMeta()
    return Namespace(metadata.name or "", metadata.labels or {}, metadata.annotations or {})

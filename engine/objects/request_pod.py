"""RequestPod: the pod of a request, decoded only as far as it is read; what its annotations say.

A codec reads pods, nodes and peers from their JSON, with requests, limits and workload. One serves
one set of loaded rules. It holds decoders only, no objects.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import msgspec
from msgspec.structs import replace

from engine.objects.api_types import ObjectMeta, OwnerReference, SchedulingGroup, SlimNamespace
from engine.objects.decoding import ObjectDecoder, StructFactory, revision_of
from engine.objects.peer import (
    UNLABELLED,
    HostPort,
    Peer,
    PeerDecoder,
    PodFailure,
    Workload,
    host_ports,
    labelled,
    rooted,
    workload_of,
)
from engine.objects.pod_group import PodGroup, group_name, own_group
from engine.objects.resources import PodRequests, pod_limits, pod_requests
from grammar.meaning.schema import Schema
from grammar.values.errors import EvaluationError
from grammar.values.quantity import Quantity, Resources
from grammar.values.time import Timestamp

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


# The annotation that exempts a pod from policies. Its value is the reason.
BYPASS = "placet.dev/bypass"
_MOST_REASON = 200
# What each quote of a JSON means in memory, besides the text: a string has two.
_QUOTE_BYTES = 50
# What a pod that is not decoded takes besides its JSON, and for each label.
_POD_BYTES, _LABEL_BYTES = 1024, 256


class _Annotations(msgspec.Struct, frozen=True, gc=False):
    bypass: str | None = msgspec.field(name=BYPASS, default=None)


class _Metadata(msgspec.Struct, frozen=True, gc=False):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resourceVersion: str = ""
    creationTimestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: _Annotations | None = None
    deletionTimestamp: str | None = None
    ownerReferences: tuple[OwnerReference, ...] | None = None


class _Spec(msgspec.Struct, frozen=True, gc=False):
    schedulerName: str | None = None
    nodeName: str | None = None
    schedulingGroup: SchedulingGroup | None = None


class _Identity(msgspec.Struct, frozen=True, gc=False):
    metadata: _Metadata | None = None
    spec: _Spec | None = None


class PodShapes(Protocol):
    """The shapes of pods: pods of one shape are decided alike."""

    def of(self, body: bytes) -> bytes: ...


class RequestPodReader:
    """Reads the pods of requests, and keeps the last one.

    kube-scheduler asks about one pod at a time: filter first, then the other verbs.
    """

    def __init__(self, codec: ObjectCodec) -> None:
        self._codec = codec
        self._identity = ObjectDecoder("Pod", _Identity)
        self._last: RequestPod | None = None

    def read(self, body: bytes) -> RequestPod:
        """The pod of a JSON. Raises BadObjectError if its identity cannot be read.

        The rest is decoded later, and may raise then.
        """
        if self._last is None or self._last.body != body:
            self._last = self.other(body)
        return self._last

    def other(self, body: bytes) -> RequestPod:
        """The same for a pod that no request is about; it is not kept."""
        identity = self._identity.decode(body)
        metadata, spec = identity.metadata or _Metadata(), identity.spec or _Spec()
        return RequestPod(body, metadata, spec, self._codec)


class RequestPod:
    """The identity of a pod, and on demand the whole pod.

    `bypass` is the reason of the bypass annotation, empty without one. `revision` is the resource
    version as a number, 0 if unknown. `owner` is the direct controller, and `controller` its uid or
    empty. `scheduler` is its `schedulerName`, and `node` its `nodeName`. `group` is the group that
    it names, None without one; `own_group` is that of Kubernetes, as in `namespace/name`, empty if
    it has none: kube-scheduler may ask about all pods of the group before it binds any. `cycle` is
    the number of the cycle that asks about it; it is set by the verb filter, 0 without a group.
    """

    cycle = 0

    def __init__(self, body: bytes, metadata: _Metadata, spec: _Spec, codec: ObjectCodec) -> None:
        self.body = body
        self.name = metadata.name
        self.namespace = metadata.namespace
        self.uid = metadata.uid
        self.labels = codec.labels(metadata.labels or {})
        self.deletionTimestamp = metadata.deletionTimestamp
        annotations = metadata.annotations or _Annotations()
        self.bypass = (annotations.bypass or "").strip()[:_MOST_REASON]
        self.revision = revision_of(metadata.resourceVersion)
        self.owner = workload_of(metadata.ownerReferences or ())
        self.controller = self.owner.uid if self.owner is not None else ""
        self.scheduler = spec.schedulerName or ""
        self.node = spec.nodeName or ""
        self.group = group_name(spec.schedulingGroup, self.labels)
        self.own_group = own_group(self.namespace, self.group)
        self._created = metadata.creationTimestamp
        self._codec = codec
        self._shape: tuple[PodShapes, bytes] | None = None
        self._rooted: tuple[Workload | None, Mapping[str, str], Peer] | None = None

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def decoded_bytes(self) -> int:
        """About the bytes that it holds as soon as it is decoded."""
        return 3 * len(self.body) + _QUOTE_BYTES * self.body.count(b'"')

    @property
    def undecoded_bytes(self) -> int:
        return _POD_BYTES + len(self.body) + _LABEL_BYTES * len(self.labels)

    def undecoded(self) -> RequestPod:
        """The same pod, without what it has decoded: for whoever keeps many."""
        made = copy(self)
        vars(made).update(_shape=None, _rooted=None)
        for name in ("pod", "peer"):
            vars(made).pop(name, None)
        return made

    def like(self, peer: Peer) -> RequestPod:
        """A pod that was made from the same template, as it was before it had a node."""
        made = copy(self)
        made.name, made.uid = peer.name, peer.uid
        vars(made).update(_rooted=None, peer=replace(peer, nodeName=""))
        return made

    @property
    def created(self) -> Timestamp | None:
        """The time of its creation, None if it cannot be read."""
        with suppress(EvaluationError):
            return Timestamp.parse(self._created) if self._created is not None else None
        return None

    @cached_property
    def pod(self) -> Pod:
        """The whole pod. Raises BadObjectError."""
        return self._codec.pod(self.body)

    @cached_property
    def peer(self) -> Peer:
        """The pod as rules about other pods see it. Raises BadObjectError."""
        return self._codec.peer(self.body)

    def rooted(self, root: Workload | None, labels: Mapping[str, str] = UNLABELLED) -> Peer:
        """The peer with its root controller and the labels of its namespace, where known.

        Raises BadObjectError.
        """
        kept = self._rooted
        if kept is None or kept[0] is not root or kept[1] is not labels:
            roots = {} if root is None else {self.controller: root}
            kept = self._rooted = (root, labels, labelled(rooted(self.peer, roots), labels))
        return kept[2]

    def shape(self, shapes: PodShapes) -> bytes:
        if self._shape is None or self._shape[0] is not shapes:
            self._shape = (shapes, shapes.of(self.body))
        return self._shape[1]


# Always exempt: if its pods waited for policies, nobody could repair the cluster.
SYSTEM_NAMESPACES = frozenset({"kube-system"})


@dataclass(frozen=True, slots=True)
class Exemptions:
    """The pods that are exempt from policies: by namespace, and by annotation if allowed."""

    namespaces: frozenset[str] = frozenset()
    by_annotation: bool = False

    def reason(self, pod: RequestPod) -> str:
        """The reason why the pod is exempt, empty if it is not."""
        if pod.namespace in self.namespaces:
            return f"namespace `{pod.namespace}` is exempt from policies"
        return "the pod bypasses policies" if self.bypasses(pod) else ""

    def exempts(self, pod: Peer) -> bool:
        """Whether a pod that is there is exempt, as far as its annotations are kept."""
        if pod.namespace in self.namespaces:
            return True
        return self.by_annotation and bool(pod.annotations.get(BYPASS, "").strip())

    def bypasses(self, pod: RequestPod) -> bool:
        """Whether the pod is exempt by its annotation alone. A bypass by annotation is reported."""
        return self.by_annotation and bool(pod.bypass) and pod.namespace not in self.namespaces


NO_EXEMPTIONS = Exemptions()


# As `shop/web@0123456789ab,guard@ba9876543210`: the address and the digest of each policy.
FORM = "placet.dev/portable"


def form_text(digests: Iterable[tuple[str, str]]) -> str:
    """The value of the annotation."""
    return ",".join(f"{address}@{digest}" for address, digest in digests)


def form_versions(annotations: Mapping[str, str]) -> Mapping[str, str]:
    """The digest of each policy, by address; empty for a pod without a form."""
    entries = (each.rpartition("@") for each in annotations.get(FORM, "").split(","))
    return {address: digest for address, at, digest in entries if at}

"""Request pod: the pod that a request asks about, decoded only as far as somebody reads it.

The RequestPodReader belongs to the engine and keeps the last pod, because kube-scheduler asks about
one pod at a time. Exemptions say about which pods no policy decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import msgspec

from engine.objects.api_types import OwnerReference
from engine.objects.codec import ObjectCodec, Pod
from engine.objects.controllers import Workload, bare, workload_of
from engine.objects.decoding import ObjectDecoder, revision_of
from engine.objects.peer import Peer
from policies.forms import GROUP

# The annotation by which a pod bypasses policies; its value is the reason.
BYPASS = f"{GROUP}/bypass"
_MOST_REASON = 200


class _Annotations(msgspec.Struct, frozen=True, gc=False):
    bypass: str | None = msgspec.field(name=BYPASS, default=None)


class _Metadata(msgspec.Struct, frozen=True, gc=False):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resourceVersion: str = ""
    labels: dict[str, str] | None = None
    annotations: _Annotations | None = None
    deletionTimestamp: str | None = None
    ownerReferences: tuple[OwnerReference, ...] | None = None


class _Identity(msgspec.Struct, frozen=True, gc=False):
    metadata: _Metadata | None = None


class PodShapes(Protocol):
    """A function that tells pods apart that are decided differently."""

    def of(self, body: bytes) -> bytes:
        """The shape of a pod's JSON."""
        ...


class RequestPodReader:
    """Decodes the pods of requests."""

    def __init__(self, codec: ObjectCodec) -> None:
        self._codec = codec
        self._identity = ObjectDecoder("Pod", _Identity)
        self._last: RequestPod | None = None

    def read(self, body: bytes) -> RequestPod:
        """The pod of a body. Raises BadObjectError; other fields may turn out to be wrong later."""
        # kube-scheduler asks about one pod at a time, filter first and then the other verbs.
        if self._last is None or self._last.body != body:
            metadata = self._identity.decode(body).metadata or _Metadata()
            self._last = RequestPod(body, metadata, self._codec)
        return self._last


class RequestPod:
    """The identity of a pod, and on demand all of it."""

    def __init__(self, body: bytes, metadata: _Metadata, codec: ObjectCodec) -> None:
        self.body = body
        self.name = metadata.name
        self.namespace = metadata.namespace
        self.uid = metadata.uid
        self.labels = metadata.labels or {}
        self.deletionTimestamp = metadata.deletionTimestamp
        annotations = metadata.annotations or _Annotations()
        # The value of the bypass annotation; blank values are ignored.
        self.bypass = (annotations.bypass or "").strip()[:_MOST_REASON]
        self.revision = revision_of(metadata.resourceVersion)
        owner = workload_of(metadata.ownerReferences or ())
        self.controller = owner.uid if owner is not None else ""
        self._codec = codec
        self._shape: tuple[PodShapes, bytes] | None = None
        self._rooted: tuple[Workload | None, Peer] | None = None

    @cached_property
    def pod(self) -> Pod:
        """The whole pod. Raises BadObjectError."""
        return self._codec.pod(self.body)

    @cached_property
    def peer(self) -> Peer:
        """The pod as rules about other pods see it. Raises BadObjectError."""
        return self._codec.peer(self.body)

    def rooted(self, root: Workload | None) -> Peer:
        """The peer with its root controller, if that is known. Raises BadObjectError."""
        if self._rooted is None or self._rooted[0] is not root:
            peer = self.peer
            if root is not None:
                peer = msgspec.structs.replace(peer, workload=bare(root))
            self._rooted = (root, peer)
        return self._rooted[1]

    def shape(self, shapes: PodShapes) -> bytes:
        """The shape of the pod: all that the policies read of it."""
        if self._shape is None or self._shape[0] is not shapes:
            self._shape = (shapes, shapes.of(self.body))
        return self._shape[1]


# Its pods must never wait for policies: they are needed to repair policies.
SYSTEM_NAMESPACES = frozenset({"kube-system"})


@dataclass(frozen=True, slots=True)
class Exemptions:
    """The exempt namespaces, and whether the bypass annotation of a pod counts."""

    namespaces: frozenset[str] = frozenset()
    by_annotation: bool = False

    def reason(self, pod: RequestPod) -> str:
        """The reason why the pod is exempt, empty if it is not."""
        if pod.namespace in self.namespaces:
            return f"namespace `{pod.namespace}` is exempt from policies"
        return "the pod bypasses policies" if self.bypasses(pod) else ""

    def bypasses(self, pod: RequestPod) -> bool:
        """Whether the pod is exempt by its annotation alone, which operators should know."""
        return self.by_annotation and bool(pod.bypass) and pod.namespace not in self.namespaces


NO_EXEMPTIONS = Exemptions()

"""The pod that a request asks about, decoded no further than it is read."""

from __future__ import annotations

from functools import cached_property

import msgspec

from engine.cache.stores import revision_of
from engine.objects import ObjectCodec, Pod
from engine.peer import Peer
from engine.shape import Shapes
from engine.slim import OwnerReference
from engine.structs import ObjectDecoder
from engine.workload import workload_of
from policies.forms import GROUP

# By it a pod says why no policy is to decide about it.
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


class PodReader:
    """Reads the pods of requests."""

    def __init__(self, codec: ObjectCodec) -> None:
        self._codec = codec
        self._identity = ObjectDecoder("Pod", _Identity)
        self._last: AskedPod | None = None

    def read(self, body: bytes) -> AskedPod:
        """Raises BadObjectError for what is no pod; more of it may turn out later to be wrong."""
        # kube-scheduler asks about one pod at a time, filter first and then the other verbs.
        if self._last is None or self._last.body != body:
            metadata = self._identity.decode(body).metadata or _Metadata()
            self._last = AskedPod(body, metadata, self._codec)
        return self._last


class AskedPod:
    """Who the pod is, and on demand all of it."""

    def __init__(self, body: bytes, metadata: _Metadata, codec: ObjectCodec) -> None:
        self.body = body
        self.name = metadata.name
        self.namespace = metadata.namespace
        self.uid = metadata.uid
        self.labels = metadata.labels or {}
        self.deletionTimestamp = metadata.deletionTimestamp
        annotations = metadata.annotations or _Annotations()
        # Why no policy is to decide about it, empty where it says nothing.
        self.bypass = (annotations.bypass or "").strip()[:_MOST_REASON]
        self.revision = revision_of(metadata.resourceVersion)
        owner = workload_of(metadata.ownerReferences or ())
        self.controller = owner.uid if owner is not None else ""
        self._codec = codec
        self._shape: tuple[Shapes, bytes] | None = None

    @cached_property
    def pod(self) -> Pod:
        """The whole pod. Raises BadObjectError."""
        return self._codec.pod(self.body)

    @cached_property
    def peer(self) -> Peer:
        """The pod as others see it. Raises BadObjectError."""
        return self._codec.peer(self.body)

    def shape(self, shapes: Shapes) -> bytes:
        """What tells it apart from other pods."""
        if self._shape is None or self._shape[0] is not shapes:
            self._shape = (shapes, shapes.of(self.body))
        return self._shape[1]

"""The pod that a request asks about, decoded no further than it is read."""

from __future__ import annotations

from functools import cached_property

import msgspec

from engine.cache.stores import revision_of
from engine.objects import ObjectCodec, Pod
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
    annotations: _Annotations | None = None
    ownerReferences: tuple[OwnerReference, ...] | None = None


class _Identity(msgspec.Struct, frozen=True, gc=False):
    metadata: _Metadata | None = None


class PodReader:
    """Reads the pods of requests."""

    def __init__(self, codec: ObjectCodec) -> None:
        self._codec = codec
        self._identity = ObjectDecoder("Pod", _Identity)

    def read(self, body: bytes) -> AskedPod:
        """Raises BadObjectError for what is no pod; more of it may turn out later to be wrong."""
        metadata = self._identity.decode(body).metadata or _Metadata()
        return AskedPod(body, metadata, self._codec)


class AskedPod:
    """Who the pod is, and on demand all of it."""

    def __init__(self, body: bytes, metadata: _Metadata, codec: ObjectCodec) -> None:
        self.body = body
        self.name = metadata.name
        self.namespace = metadata.namespace
        self.uid = metadata.uid
        annotations = metadata.annotations or _Annotations()
        # Why no policy is to decide about it, empty where it says nothing.
        self.bypass = (annotations.bypass or "").strip()[:_MOST_REASON]
        self.revision = revision_of(metadata.resourceVersion)
        owner = workload_of(metadata.ownerReferences or ())
        self.controller = owner.uid if owner is not None else ""
        self._codec = codec

    @cached_property
    def pod(self) -> Pod:
        """The whole pod. Raises BadObjectError."""
        return self._codec.pod(self.body)

"""A pod of the cluster as the cache keeps it: small, because there are 150,000 of them."""

from __future__ import annotations

import sys
from collections.abc import Collection, Hashable, Mapping
from typing import TypeVar, cast

import msgspec

from engine.objects.api_types import Condition, Container, Metadata, SlimPod, Spec, Status
from engine.objects.controllers import Workload, workload_of
from engine.objects.decoding import ObjectDecoder
from engine.objects.resources import PodRequests, pod_limits, pod_requests
from grammar.values.quantity import Quantity
from grammar.values.time import Timestamp

T = TypeVar("T")

# Labels that name their pod are shared with none: without a bound they would fill the table.
_SHARED_AT_MOST = 65_536


class PeerContainer(msgspec.Struct, frozen=True, gc=False):
    """A container of a peer."""

    name: str
    image: str


class Peer(msgspec.Struct, frozen=True, gc=False):
    """A pod as rules and counts see it, in less than 1 KB.

    The attributes up to `created` are those of the schema's Peer. `workload` is the direct
    controller until someone who knows the ReplicaSets replaces it, `controller` is the uid of the
    direct one, and empty without one. `unscheduled` is the
    PodScheduled condition while it is not True. Dictionaries are shared: never write to them.
    """

    name: str
    namespace: str
    uid: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    requests: PodRequests
    limits: Mapping[str, Quantity]
    priority: int
    workload: Workload | None
    controller: str
    nodeName: str
    phase: str
    containers: tuple[PeerContainer, ...]
    created: Timestamp | None
    deletionTimestamp: Timestamp | None
    nominatedNodeName: str
    schedulerName: str
    unscheduled: Condition | None


class PeerDecoder:
    """Decodes Pods to peers, and lets peers share what they have in common.

    `annotations` are the keys of the annotations to keep: those that the loaded rules name.
    """

    def __init__(self, annotations: Collection[str] = ()) -> None:
        self._annotations = frozenset(annotations)
        self._decoder = ObjectDecoder("Pod", SlimPod)
        self._shared: dict[Hashable, object] = {}

    def decode(self, data: bytes | msgspec.Raw) -> Peer:
        """The peer of a Pod's JSON. Raises BadObjectError, naming the path."""
        pod = self._decoder.decode(data)
        metadata = pod.metadata or Metadata()
        spec = pod.spec or Spec()
        status = pod.status or Status()
        requests = pod_requests(spec, status)
        limits = pod_limits(spec, status)
        owner = workload_of(metadata.ownerReferences or ())
        return Peer(
            name=metadata.name or "",
            namespace=sys.intern(metadata.namespace or ""),
            uid=metadata.uid or "",
            labels=self._texts(metadata.labels or {}),
            annotations=self._texts(self._kept(metadata.annotations or {})),
            requests=self._share(("requests", *requests.items()), requests),
            limits=self._share(("limits", *limits.items()), limits),
            priority=spec.priority or 0,
            workload=owner and self._share(owner, owner),
            controller=sys.intern(owner.uid) if owner else "",
            nodeName=sys.intern(spec.nodeName or ""),
            phase=sys.intern(status.phase or ""),
            containers=self._containers(spec.containers or ()),
            created=metadata.creationTimestamp,
            deletionTimestamp=metadata.deletionTimestamp,
            nominatedNodeName=sys.intern(status.nominatedNodeName or ""),
            schedulerName=sys.intern(spec.schedulerName or ""),
            unscheduled=_unscheduled(status),
        )

    def _kept(self, annotations: dict[str, str]) -> dict[str, str]:
        return {key: annotations[key] for key in self._annotations if key in annotations}

    def _texts(self, texts: dict[str, str]) -> dict[str, str]:
        key = ("texts", *texts.items())
        shared = self._shared.get(key)
        if shared is None:
            intern = sys.intern
            shared = self._share(key, {intern(k): intern(v) for k, v in texts.items()})
        return cast("dict[str, str]", shared)

    def _containers(self, containers: tuple[Container, ...]) -> tuple[PeerContainer, ...]:
        slim = tuple(PeerContainer(c.name or "", c.image or "") for c in containers)
        return self._share(slim, slim)

    def _share(self, key: Hashable, value: T) -> T:
        """The value that was there first. A full table starts over: all it does is save memory."""
        if len(self._shared) >= _SHARED_AT_MOST:
            self._shared.clear()
        return cast("T", self._shared.setdefault(key, value))


def _unscheduled(status: Status) -> Condition | None:
    """The PodScheduled condition of a pod that has no node yet."""
    for condition in status.conditions or ():
        if condition.type == "PodScheduled":
            return None if condition.status == "True" else condition
    return None

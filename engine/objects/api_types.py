"""The parts of a Pod that are read of every pod in the cluster; the rest is skipped, not decoded.

The names are the API's. None is absent.
"""

from __future__ import annotations

import msgspec

from engine.objects.decoding import JsonInt, JsonQuantity, JsonTimestamp

Amounts = dict[str, JsonQuantity]


class OwnerReference(msgspec.Struct, frozen=True, gc=False):
    """An owner; at most one of an object's is its controller."""

    kind: str | None = None
    name: str | None = None
    uid: str | None = None
    controller: bool | None = None


class Metadata(msgspec.Struct, frozen=True, gc=False):
    """ObjectMeta."""

    name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    ownerReferences: tuple[OwnerReference, ...] | None = None
    creationTimestamp: JsonTimestamp | None = None
    deletionTimestamp: JsonTimestamp | None = None


class Requirements(msgspec.Struct, frozen=True, gc=False):
    """Requests and limits of a container or a pod."""

    requests: Amounts | None = None
    limits: Amounts | None = None


class Container(msgspec.Struct, frozen=True, gc=False):
    """A container; `restartPolicy` Always makes an init container a sidecar."""

    name: str | None = None
    image: str | None = None
    resources: Requirements | None = None
    restartPolicy: str | None = None


class Spec(msgspec.Struct, frozen=True, gc=False):
    """PodSpec."""

    nodeName: str | None = None
    schedulerName: str | None = None
    priority: JsonInt | None = None
    containers: tuple[Container, ...] | None = None
    initContainers: tuple[Container, ...] | None = None
    overhead: Amounts | None = None
    resources: Requirements | None = None


class Condition(msgspec.Struct, frozen=True, gc=False):
    """A condition of a pod."""

    type: str | None = None
    status: str | None = None
    reason: str | None = None
    lastTransitionTime: JsonTimestamp | None = None


class ContainerStatus(msgspec.Struct, frozen=True, gc=False):
    """What a running container has: `resources`; and what the kubelet has granted it."""

    name: str | None = None
    resources: Requirements | None = None
    allocatedResources: Amounts | None = None


class Status(msgspec.Struct, frozen=True, gc=False):
    """PodStatus."""

    phase: str | None = None
    nominatedNodeName: str | None = None
    conditions: tuple[Condition, ...] | None = None
    containerStatuses: tuple[ContainerStatus, ...] | None = None
    initContainerStatuses: tuple[ContainerStatus, ...] | None = None
    resources: Requirements | None = None
    allocatedResources: Amounts | None = None


class SlimPod(msgspec.Struct, frozen=True, gc=False):
    """A Pod."""

    metadata: Metadata | None = None
    spec: Spec | None = None
    status: Status | None = None

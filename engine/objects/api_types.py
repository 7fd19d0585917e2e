"""API types: the fields of Kubernetes objects that Placet reads, as msgspec structs.

The names are the API's. None means absent. A decoder skips every field that the struct does not
name, so a hot path (the head of a watch event, the pod of a request) has a smaller struct beside
the decoder.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from engine.objects.decoding import JsonInt, JsonQuantity, JsonTimestamp

Amounts = dict[str, JsonQuantity]


class OwnerReference(msgspec.Struct, frozen=True, gc=False):
    """An owner of an object. At most one of the owners is the controller."""

    apiVersion: str | None = None
    kind: str | None = None
    name: str | None = None
    uid: str | None = None
    controller: bool | None = None


class ObjectMeta(msgspec.Struct, frozen=True, gc=False):
    """The metadata of an object that is kept."""

    name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    ownerReferences: tuple[OwnerReference, ...] | None = None
    creationTimestamp: JsonTimestamp | None = None
    deletionTimestamp: JsonTimestamp | None = None


class ObjectName(msgspec.Struct, frozen=True, gc=False):
    """Name of an object, as the metadata has it."""

    name: str | None = None
    namespace: str | None = None
    uid: str | None = None


class ObjectHead(msgspec.Struct, frozen=True, gc=False):
    """Head of an object: kind and name; of a list also the items, still as bytes."""

    kind: str | None = None
    apiVersion: str | None = None
    metadata: ObjectName | None = None
    items: list[msgspec.Raw] | None = None


class ObjectCondition(msgspec.Struct, frozen=True, gc=False):
    """A condition in the status of an object."""

    type: str | None = None
    status: str | None = None
    reason: str | None = None
    lastTransitionTime: JsonTimestamp | None = None
    message: str | None = None


class ListMeta(msgspec.Struct, frozen=True, gc=False):
    """The metadata of a chunk of a list; `next` names the next chunk, empty on the last one."""

    resourceVersion: str
    next: str = msgspec.field(name="continue", default="")


class StatusDetails(msgspec.Struct, frozen=True, gc=False):
    """The details of an error answer."""

    retryAfterSeconds: int = 0


class ApiStatus(msgspec.Struct, frozen=True, gc=False):
    """Status of an error answer of the API server (meta/v1)."""

    kind: str | None = None
    message: str | None = None
    reason: str | None = None
    code: int | None = None
    details: StatusDetails | None = None


class ResourceRequirements(msgspec.Struct, frozen=True, gc=False):
    """Requests and limits of a container or a pod."""

    requests: Amounts | None = None
    limits: Amounts | None = None


class ContainerPort(msgspec.Struct, frozen=True, gc=False):
    """A port of a container, which takes a port of the host unless `hostPort` is 0."""

    hostPort: JsonInt | None = None
    hostIP: str | None = None
    protocol: str | None = None


class Container(msgspec.Struct, frozen=True, gc=False):
    """A container; `restartPolicy` Always makes an init container a sidecar."""

    name: str | None = None
    image: str | None = None
    resources: ResourceRequirements | None = None
    restartPolicy: str | None = None
    ports: tuple[ContainerPort, ...] | None = None


class VolumeClaim(msgspec.Struct, frozen=True, gc=False):
    """The claim of a volume, without its content."""


class Volume(msgspec.Struct, frozen=True, gc=False):
    """A volume of a pod; these two kinds have a claim, which kube-scheduler may have to bind."""

    persistentVolumeClaim: VolumeClaim | None = None
    ephemeral: VolumeClaim | None = None


class SchedulingGroup(msgspec.Struct, frozen=True, gc=False):
    """Group for scheduling: the PodGroup of Kubernetes that a pod belongs to."""

    podGroupName: str | None = None


class PodSpec(msgspec.Struct, frozen=True, gc=False):
    """The spec of a pod.

    Most pods have a volume of no interest, so `volumes` are decoded later: a list, null, or empty.
    """

    nodeName: str | None = None
    schedulerName: str | None = None
    schedulingGates: list[msgspec.Raw] | None = None
    schedulingGroup: SchedulingGroup | None = None
    # A union with None would not be raw.
    volumes: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    resourceClaims: list[msgspec.Raw] | None = None
    priority: JsonInt | None = None
    containers: tuple[Container, ...] | None = None
    initContainers: tuple[Container, ...] | None = None
    overhead: Amounts | None = None
    resources: ResourceRequirements | None = None


class TerminatedState(msgspec.Struct, frozen=True, gc=False):
    """State of a terminated container: how it ended."""

    reason: str | None = None
    finishedAt: JsonTimestamp | None = None


class ContainerState(msgspec.Struct, frozen=True, gc=False):
    """The state of a container; only that it has ended is read."""

    terminated: TerminatedState | None = None


class ContainerStatus(msgspec.Struct, frozen=True, gc=False):
    """Status of a container: the amounts that it has, and those that the kubelet has granted."""

    name: str | None = None
    state: ContainerState | None = None
    resources: ResourceRequirements | None = None
    allocatedResources: Amounts | None = None


class PodStatus(msgspec.Struct, frozen=True, gc=False):
    """The status of a pod."""

    phase: str | None = None
    reason: str | None = None
    startTime: JsonTimestamp | None = None
    nominatedNodeName: str | None = None
    conditions: tuple[ObjectCondition, ...] | None = None
    containerStatuses: tuple[ContainerStatus, ...] | None = None
    initContainerStatuses: tuple[ContainerStatus, ...] | None = None
    resources: ResourceRequirements | None = None
    allocatedResources: Amounts | None = None


class SlimPod(msgspec.Struct, frozen=True, gc=False):
    """A Pod, with the fields that are read of every pod in the cluster."""

    metadata: ObjectMeta | None = None
    spec: PodSpec | None = None
    status: PodStatus | None = None


class SlimNamespace(msgspec.Struct, frozen=True, gc=False):
    """A Namespace."""

    metadata: ObjectMeta | None = None


class RollingUpdate(msgspec.Struct, frozen=True, gc=False):
    """The pods that a rollout may have too many: a number, or a percentage of the replicas."""

    maxSurge: JsonInt | str | None = None


class DeploymentStrategy(msgspec.Struct, frozen=True, gc=False):
    """How a Deployment replaces its pods."""

    type: str | None = None
    rollingUpdate: RollingUpdate | None = None


class ControllerSpec(msgspec.Struct, frozen=True, gc=False):
    """Spec of a controller: the pods that it wants, `parallelism` of a Job, else `replicas`."""

    replicas: JsonInt | None = None
    parallelism: JsonInt | None = None
    completions: JsonInt | None = None
    suspend: bool | None = None
    paused: bool | None = None
    podManagementPolicy: str | None = None
    strategy: DeploymentStrategy | None = None


class ControllerStatus(msgspec.Struct, frozen=True, gc=False):
    """Status of a controller; of a Job what has succeeded, and indexes that are given up."""

    succeeded: JsonInt | None = None
    failedIndexes: str | None = None


class SlimController(msgspec.Struct, frozen=True, gc=False):
    """Controller: a Deployment, ReplicaSet, StatefulSet, DaemonSet or Job."""

    metadata: ObjectMeta | None = None
    spec: ControllerSpec | None = None
    status: ControllerStatus | None = None


# ---- objects as people write them: plain JSON of which any field can have a wrong type


def mapping(value: Mapping[str, Any], key: str) -> dict[str, Any]:
    """A field that should be a mapping; another type counts as empty."""
    found = value.get(key)
    return found if isinstance(found, dict) else {}


def mappings(value: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    """The mappings in a field that should be a list of them."""
    found = value.get(key)
    return [i for i in found if isinstance(i, dict)] if isinstance(found, list) else []

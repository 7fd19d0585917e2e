"""Peer: a pod of the cluster as the cache keeps it, and the workload that it belongs to.

A cluster may have 150,000 pods, so a peer is small and shares its dictionaries with others.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from typing import NamedTuple, TypeVar, cast

import msgspec

from engine.objects.api_types import (
    ControllerSpec,
    ControllerStatus,
    DeploymentStrategy,
    ObjectCondition,
    ObjectMeta,
    OwnerReference,
    PodSpec,
    PodStatus,
    SchedulingGroup,
    SlimController,
    SlimPod,
    Volume,
)
from engine.objects.decoding import JsonInt, ObjectDecoder
from engine.objects.pod_group import GroupName, group_name
from engine.objects.remembered import Remembered
from engine.objects.resources import PodRequests, pod_limits, pod_requests
from grammar.values.errors import EvaluationError
from grammar.values.quantity import Quantity
from grammar.values.time import NEVER, Timestamp

T = TypeVar("T")

# The `schedulerName` of a pod that names none.
DEFAULT_SCHEDULER = "default-scheduler"

# The labels of a namespace that has none, or is not known.
UNLABELLED: Mapping[str, str] = {}
_NO_ANNOTATIONS: Mapping[str, str] = {}
# The type of the condition that Placet sets on a pod, so that kube-scheduler asks again.
REQUEUE_CONDITION = "placement-policy.scheduling.x-k8s.io/Evaluate"
FAILED = "Failed"
# The phases of a pod that has ended: it takes no resources any more.
ENDED = frozenset({"Succeeded", FAILED})
# The longest reason for a failure that is kept; the API bounds the other texts.
_LONGEST_REASON = 128
# What is no reason to fail.
_FINE = frozenset({"", "Completed"})
# The label that the pods of one template of a Deployment have in common, and that of others.
TEMPLATE_HASH = "pod-template-hash"
_TEMPLATE_LABELS = (TEMPLATE_HASH, "controller-revision-hash")
# Paths of a peer, as `("labels", "app")`.
PeerReads = frozenset[tuple[str, ...]]
# The fields of a peer that pods have in common with others, as long as nobody changes a pod.
_OF_KIND = frozenset(
    "annotations group hostPorts labels limits namespace namespaceLabels priority requests "
    "workload".split()
)
# The address of a port that stands for all addresses of the node.
EVERY_ADDRESS = "0.0.0.0"  # noqa: S104


class Workload(msgspec.Struct, frozen=True, gc=False):
    """Workload: a controller of pods. Pods belong together if their workloads have the same uid.

    `replicas` is the number of pods that it wants, None if not known, and `surge` how many more it
    may have in a rollout. `created` is None if the controller is not known. An owner that is not
    watched has the `version` of its API.
    """

    kind: str
    name: str
    uid: str
    replicas: int | None = None
    surge: int = 0
    created: Timestamp | None = None
    version: str = ""

    @property
    def title(self) -> str:
        """How it is written, such as `Deployment/web`."""
        return f"{self.kind}/{self.name}"


def template_of(labels: Mapping[str, str], controller: str) -> str:
    """What the pods of one template of a workload have in common: a label, else their controller.

    The controller is the uid of the direct one: a Rollout has a ReplicaSet for each template.
    """
    return next((labels[each] for each in _TEMPLATE_LABELS if each in labels), controller)


# The kinds of controllers that are watched, and the versions of their APIs.
WATCHED = dict.fromkeys(("ReplicaSet", "Deployment", "StatefulSet"), "apps/v1") | {
    "Job": "batch/v1"
}


def workload_of(owners: Iterable[OwnerReference]) -> Workload | None:
    """The direct controller among the owners of an object; the API server allows only one."""
    for owner in owners:
        if owner.controller:
            kind, version = owner.kind or "", sys.intern(owner.apiVersion or "")
            version = "" if WATCHED.get(kind) == version else version
            return Workload(kind, owner.name or "", owner.uid or "", version=version)
    return None


class PeerContainer(msgspec.Struct, frozen=True, gc=False):
    """A container of a peer."""

    name: str
    image: str


class HostPort(msgspec.Struct, frozen=True, gc=False):
    """A port of the node that a pod takes; its fields are the fields of the schema's HostPort."""

    hostPort: int
    hostIP: str
    protocol: str


def host_ports(spec: PodSpec) -> tuple[HostPort, ...]:
    """The ports of the node that a pod takes, as for NodePorts.

    Takes the slim struct, or any object with the same attributes. Of init containers only sidecars
    count. A port without an address takes that of every address.
    """
    found = []
    # Loops, because this runs for every event of a pod, and few pods take a port of the node.
    for containers in (spec.initContainers, spec.containers):
        for container in containers or ():
            for port in container.ports or ():
                if port.hostPort and (
                    containers is spec.containers or container.restartPolicy == "Always"
                ):
                    ip, protocol = port.hostIP or EVERY_ADDRESS, port.protocol or "TCP"
                    found.append(HostPort(port.hostPort, ip, protocol))
    return tuple(found)


class Peer(msgspec.Struct, frozen=True, gc=False):
    """Peer: a pod as rules and counts see it, in less than 1 KB.

    The attributes up to `created` are the fields of the schema's Peer. `workload` is the direct
    controller until `rooted` replaces it by the root; `controller` is the uid of the direct one,
    empty if there is none. `namespaceLabels` are empty until `labelled` sets them. `group` is the
    PodGroup that the pod names, None without one. `started` is the time when the kubelet took the
    pod, None before that. `unscheduled` is the PodScheduled condition while it is not True.
    `requeued` is the reason of Placet's own condition, another one after each requeue; empty if the
    pod has none, or has a node. `is_gated` says that the pod has scheduling gates, `has_claims`
    that it has no node yet, and claims of volumes or devices, which kube-scheduler may have to bind
    before the pod. `ready` says that its condition Ready is True. `ended` is the time when it
    ended, as far as that is known, None of a pod that has not, and `reason` says why. Dictionaries
    are shared: never write to them.
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
    group: GroupName | None
    nodeName: str
    phase: str
    containers: tuple[PeerContainer, ...]
    hostPorts: tuple[HostPort, ...]
    namespaceLabels: Mapping[str, str]
    created: Timestamp | None
    started: Timestamp | None
    deletionTimestamp: Timestamp | None
    nominatedNodeName: str
    schedulerName: str
    unscheduled: ObjectCondition | None
    requeued: str
    is_gated: bool
    has_claims: bool
    ready: bool = False
    ended: Timestamp | None = None
    reason: str = ""

    @property
    def is_idle(self) -> bool:
        """Whether it waits for no node for now: it has a scheduling gate, or is being deleted."""
        return self.is_gated or self.deletionTimestamp is not None


class _PlacedMetadata(msgspec.Struct, frozen=True, gc=False):
    name: str
    namespace: str
    uid: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]


class _PlacedSpec(msgspec.Struct, frozen=True, gc=False):
    priority: int


class PlacedPod(msgspec.Struct, frozen=True, gc=False):
    """A peer as the `pod` of a rule: what is known of it, under the names of the API."""

    metadata: _PlacedMetadata
    spec: _PlacedSpec
    requests: PodRequests
    limits: Mapping[str, Quantity]
    hostPorts: tuple[HostPort, ...]
    workload: Workload | None


def placed_pod(peer: Peer) -> PlacedPod:
    """The peer as the `pod` of a rule."""
    return PlacedPod(
        _PlacedMetadata(peer.name, peer.namespace, peer.uid, peer.labels, peer.annotations),
        _PlacedSpec(peer.priority),
        peer.requests,
        peer.limits,
        peer.hostPorts,
        peer.workload,
    )


def reads_of_kind(paths: Collection[tuple[str, ...]]) -> PeerReads | None:
    """The paths of a peer, if many pods may have the same values there; else None."""
    of_kind = all(path and path[0] in _OF_KIND for path in paths)
    return frozenset(paths) if of_kind else None


def values_at(paths: Collection[tuple[str, ...]]) -> Callable[[Peer], Hashable]:
    """A function for the values of a peer at some paths, as a key: equal for equal values."""
    match [_value_at(path) for path in sorted(paths)]:
        case [one]:
            return one
        case [one, other]:
            return lambda peer: (one(peer), other(peer))
        case read:
            return lambda peer: tuple([value(peer) for value in read])


def _value_at(path: tuple[str, ...]) -> Callable[[Peer], Hashable]:
    match path:
        case ("annotations" | "labels" | "namespaceLabels" as name, str() as key, *_):
            return lambda peer: getattr(peer, name).get(key)
        case ("workload", str() as name):
            return lambda peer: getattr(peer.workload, name, None)
        case ("limits" | "requests" as name, str() as key, *_):
            return lambda peer: _hashable(getattr(peer, name).get(key))
        case (name, *_):
            return lambda peer: _hashable(getattr(peer, name))
        case _:
            raise AssertionError("a rule reads the fields of a peer, not all of it")


def _hashable(value: object) -> Hashable:
    if isinstance(value, dict):
        return tuple([(key, _hashable(value[key])) for key in sorted(value)])
    # Equal quantities may be written in different ways.
    return (value.nanos, value.suffix) if isinstance(value, Quantity) else value


def importance(peer: Peer) -> tuple[int, int]:
    """A key that puts the most important pod first, as kube-scheduler does (MoreImportantPod).

    A higher priority is more important, then an earlier start. A pod that has not started comes
    last.
    """
    return -peer.priority, peer.started.nanos if peer.started is not None else NEVER


def key_of(peer: Peer) -> str:
    """The key of a pod: `namespace/name`."""
    return f"{peer.namespace}/{peer.name}"


def rooted(peer: Peer, roots: Mapping[str, Workload]) -> Peer:
    """The peer with its root controller as `workload`; `roots` are by the uid of a controller.

    `replicas` and `surge` are left out: they change without the pod, and no rule reads them.
    """
    root = roots.get(peer.controller)
    if root is None:
        return peer
    workload = Workload(root.kind, root.name, root.uid, version=root.version)
    return msgspec.structs.replace(peer, workload=workload)


def labelled(peer: Peer, labels: Mapping[str, str]) -> Peer:
    """The peer with the labels of its namespace."""
    if peer.namespaceLabels == labels:
        return peer
    return msgspec.structs.replace(peer, namespaceLabels=labels)


_TEXTS = msgspec.json.Decoder(dict[str, str] | None)
_OWNERS = msgspec.json.Decoder(tuple[OwnerReference, ...] | None)
# A part of the JSON that is not decoded; empty where it is absent.
_NO_JSON = msgspec.Raw()
_NONE = (b"", b"null")


class _RawContainer(msgspec.Struct, frozen=True, gc=False):
    name: str | None = None
    image: str | None = None
    resources: msgspec.Raw = _NO_JSON
    restartPolicy: str | None = None
    ports: msgspec.Raw = _NO_JSON


class _RawContainerStatus(msgspec.Struct, frozen=True, gc=False):
    name: str | None = None
    resources: msgspec.Raw = _NO_JSON
    allocatedResources: msgspec.Raw = _NO_JSON


class _RawCondition(msgspec.Struct, frozen=True, gc=False):
    type: str | None = None
    status: str | None = None
    reason: str | None = None
    lastTransitionTime: str | None = None
    message: str | None = None


class _RawMetadata(msgspec.Struct, frozen=True, gc=False):
    name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    labels: msgspec.Raw = _NO_JSON
    annotations: msgspec.Raw = _NO_JSON
    ownerReferences: msgspec.Raw = _NO_JSON
    creationTimestamp: str | None = None
    deletionTimestamp: str | None = None


_RawContainers = tuple[_RawContainer, ...] | None
_RawStatuses = tuple[_RawContainerStatus, ...] | None


class _RawSpec(msgspec.Struct, frozen=True, gc=False):
    containers: _RawContainers = None
    initContainers: _RawContainers = None
    nodeName: str | None = None
    schedulerName: str | None = None
    schedulingGates: list[msgspec.Raw] | None = None
    schedulingGroup: SchedulingGroup | None = None
    volumes: msgspec.Raw = _NO_JSON
    resourceClaims: list[msgspec.Raw] | None = None
    priority: JsonInt | None = None
    overhead: msgspec.Raw = _NO_JSON
    resources: msgspec.Raw = _NO_JSON


class _RawStatus(msgspec.Struct, frozen=True, gc=False):
    phase: str | None = None
    startTime: str | None = None
    nominatedNodeName: str | None = None
    conditions: tuple[_RawCondition, ...] | None = None
    containerStatuses: _RawStatuses = None
    initContainerStatuses: _RawStatuses = None
    resources: msgspec.Raw = _NO_JSON
    allocatedResources: msgspec.Raw = _NO_JSON


class _RawPod(msgspec.Struct, frozen=True, gc=False):
    """A Pod of which the parts that other pods share stay JSON."""

    metadata: _RawMetadata | None = None
    spec: _RawSpec | None = None
    status: _RawStatus | None = None


class _Contents(NamedTuple):
    """Contents that pods of one template have in common, by their containers."""

    requests: PodRequests
    limits: Mapping[str, Quantity]
    containers: tuple[PeerContainer, ...]
    ports: tuple[HostPort, ...]


def _containers_key(containers: _RawContainers) -> Hashable:
    return containers and tuple(
        [(c.name, c.image, bytes(c.resources), c.restartPolicy, bytes(c.ports)) for c in containers]
    )


def _moment(text: str | None) -> Timestamp | None:
    """The time of a text. Raises EvaluationError."""
    return None if text is None else Timestamp.parse(text)


def _statuses_key(statuses: _RawStatuses) -> Hashable:
    return statuses and tuple(
        [(s.name, bytes(s.resources), bytes(s.allocatedResources)) for s in statuses]
    )


class PeerDecoder:
    """Decodes Pods to peers. Equal labels, requests and so on of several peers are one object.

    `annotations` are the keys of the annotations to keep: the loaded rules read them.

    Most pods are made from one of few templates. So the values of containers, labels and owners are
    remembered by their JSON, and a similar pod takes them from there. What nothing reads is not
    checked then.
    """

    def __init__(self, annotations: Collection[str] = ()) -> None:
        self._annotations: Collection[str] = frozenset(annotations)
        self._decoder = ObjectDecoder("Pod", SlimPod)
        self._volumes = ObjectDecoder("Pod", list[Volume])
        self._shared: Remembered[Hashable, object] = Remembered()
        self._raw = msgspec.json.Decoder(_RawPod)
        # By their JSON: what follows from containers, labels, and the direct controller.
        self._contents: Remembered[Hashable, _Contents] = Remembered()
        self._labels: Remembered[bytes, Mapping[str, str]] = Remembered()
        self._owners: Remembered[bytes, Workload | None] = Remembered()

    def keep(self, annotations: Collection[str]) -> None:
        """Keep these annotations from now on, and no others."""
        self._annotations = annotations

    def decode(self, data: bytes | msgspec.Raw) -> Peer:
        """The peer of a Pod's JSON. Raises BadObjectError, naming the path."""
        try:
            return self._peer(self._raw.decode(data), data)
        except (msgspec.MsgspecError, EvaluationError, UnicodeDecodeError, RecursionError):
            self._decoder.decode(data)  # says what is wrong, and where
            raise

    def _peer(self, pod: _RawPod, data: bytes | msgspec.Raw) -> Peer:
        metadata, spec = pod.metadata or _RawMetadata(), pod.spec or _RawSpec()
        status, intern = pod.status or _RawStatus(), sys.intern
        # The first of a type counts.
        conditions = {condition.type: condition for condition in reversed(status.conditions or ())}
        ready, requeued = conditions.get("Ready"), conditions.get(REQUEUE_CONDITION)
        contents = self._contents_of(spec, status, conditions.get("PodResizePending"), data)
        labels = self._labels_of(metadata.labels)
        owner = self._owner_of(metadata.ownerReferences)
        group = group_name(spec.schedulingGroup, labels)
        ended, reason = None, ""
        if status.phase in ENDED:
            ended, reason = how_it_ended(self._decoder.decode(data).status or PodStatus())
        return Peer(
            name=metadata.name or "",
            namespace=intern(metadata.namespace or ""),
            uid=metadata.uid or "",
            labels=labels,
            annotations=self._kept_of(metadata.annotations),
            requests=contents.requests,
            limits=contents.limits,
            priority=spec.priority or 0,
            workload=owner,
            controller=owner.uid if owner is not None else "",
            group=group and self._share(group, group),
            nodeName=intern(spec.nodeName or ""),
            phase=intern(status.phase or ""),
            containers=contents.containers,
            hostPorts=contents.ports,
            namespaceLabels=UNLABELLED,
            created=_moment(metadata.creationTimestamp),
            started=_moment(status.startTime),
            deletionTimestamp=_moment(metadata.deletionTimestamp),
            nominatedNodeName=intern(status.nominatedNodeName or ""),
            schedulerName=intern(spec.schedulerName or ""),
            unscheduled=self._unscheduled_of(conditions.get("PodScheduled")),
            requeued="" if spec.nodeName or requeued is None else requeued.reason or "",
            is_gated=bool(spec.schedulingGates),
            has_claims=not spec.nodeName and self._has_claims(spec),
            ready=ready is not None and ready.status == "True",
            ended=ended,
            reason=reason,
        )

    def _contents_of(
        self,
        spec: _RawSpec,
        status: _RawStatus,
        resize: _RawCondition | None,
        data: bytes | msgspec.Raw,
    ) -> _Contents:
        key = (
            _containers_key(spec.containers),
            _containers_key(spec.initContainers),
            _statuses_key(status.containerStatuses),
            _statuses_key(status.initContainerStatuses),
            *map(bytes, (spec.overhead, spec.resources)),
            *map(bytes, (status.resources, status.allocatedResources)),
            resize and resize.reason,
        )
        if (known := self._contents.peek(key)) is not None:
            return known
        pod = self._decoder.decode(data)
        given, now = pod.spec or PodSpec(), pod.status or PodStatus()
        requests, limits = pod_requests(given, now), pod_limits(given, now)
        containers = tuple(
            [PeerContainer(c.name or "", c.image or "") for c in given.containers or ()]
        )
        shared = self._share(("requests", *requests.items()), requests)
        return self._contents.put(key, _Contents(shared, limits, containers, host_ports(given)))

    def _labels_of(self, raw: msgspec.Raw) -> Mapping[str, str]:
        found = self._labels.peek(text := bytes(raw))
        if found is None:
            made = self.shared_texts(_TEXTS.decode(raw) or {} if text else {})
            found = self._labels.put(text, made)
        return found

    def _owner_of(self, raw: msgspec.Raw) -> Workload | None:
        text = bytes(raw)
        if not text:
            return None
        if text not in self._owners:
            owner = workload_of(_OWNERS.decode(raw) or ())
            if owner is not None:
                owner = msgspec.structs.replace(owner, uid=sys.intern(owner.uid))
            return self._owners.put(text, owner and self._share(owner, owner))
        return self._owners.peek(text)

    def _kept_of(self, raw: msgspec.Raw) -> Mapping[str, str]:
        given = _TEXTS.decode(raw) if self._annotations and bytes(raw) else None
        if not given:
            return _NO_ANNOTATIONS
        return self.shared_texts({key: given[key] for key in self._annotations if key in given})

    def _unscheduled_of(self, raw: _RawCondition | None) -> ObjectCondition | None:
        if raw is None or raw.status == "True":
            return None
        changed = _moment(raw.lastTransitionTime)
        return ObjectCondition(raw.type, raw.status, raw.reason, changed, raw.message)

    def _has_claims(self, spec: _RawSpec) -> bool:
        if spec.resourceClaims:
            return True
        found = self._volumes.decode(spec.volumes) if bytes(spec.volumes) not in _NONE else ()
        return any(v.persistentVolumeClaim is not None or v.ephemeral is not None for v in found)

    def shared_texts(self, texts: dict[str, str]) -> dict[str, str]:
        """The mapping that all peers with equal texts have."""
        key = ("texts", *texts.items())
        shared = self._shared.peek(key)
        if shared is None:
            intern = sys.intern
            shared = self._share(key, {intern(k): intern(v) for k, v in texts.items()})
        return cast("dict[str, str]", shared)

    def _share(self, key: Hashable, value: T) -> T:
        """The value that was shared under an equal key, or else this one.

        What is forgotten or too large is not shared. That costs memory only.
        """
        shared = self._shared.peek(key)
        return cast("T", self._shared.put(key, value) if shared is None else shared)


# ---- controllers

# Of the replicas of a Deployment; the API's default.
_DEFAULT_SURGE = "25%"
# As in the API, where percentages have no bound.
_MOST_REPLICAS = 2**31 - 1


class Controller(msgspec.Struct, frozen=True, gc=False):
    """A controller as a workload, and the controller that owns it, if any.

    `wants` is how many pods it wants beside those that have ended, None if not known; so many of
    them have `succeeded`. It `withholds` pods for a reason, such as `is paused`.
    """

    workload: Workload
    owner: Workload | None
    wants: int | None = None
    succeeded: int = 0
    withholds: str = ""


_CONTROLLER = ObjectDecoder("controller", SlimController)


def decode_controller(kind: str, data: bytes | msgspec.Raw) -> Controller:
    """The Deployment, ReplicaSet, StatefulSet, DaemonSet or Job of an object's JSON.

    Raises BadObjectError, naming the path.
    """
    slim = _CONTROLLER.decode(data)
    metadata, spec = slim.metadata or ObjectMeta(), slim.spec or ControllerSpec()
    replicas = spec.parallelism if kind == "Job" else spec.replicas
    if replicas is None and kind in WATCHED:
        replicas = 1  # the API's default
    surge = 0
    if replicas is not None:
        replicas = min(max(replicas, 0), _MOST_REPLICAS)
        surge = _surge(spec.strategy, replicas) if kind == "Deployment" else 0
        surge = min(max(surge, 0), _MOST_REPLICAS)
    name, uid, created = metadata.name or "", metadata.uid or "", metadata.creationTimestamp
    workload = Workload(kind, name, uid, replicas, surge, created)
    wants, status = replicas, slim.status or ControllerStatus()
    succeeded = max(0, status.succeeded or 0) if kind == "Job" else 0
    if kind == "Job" and replicas is not None:
        # A Job without completions makes no pods any more after the first success.
        left = int(not succeeded) * replicas or 1
        if spec.completions is not None:
            left = spec.completions - succeeded - _number_of(status.failedIndexes or "")
        wants = max(0, min(replicas, left))
    owner = workload_of(metadata.ownerReferences or ())
    return Controller(workload, owner, wants, succeeded, _withholds(kind, spec))


# What a controller says that makes its pods one after another, as a StatefulSet does by default.
ORDERED = "makes one pod after another"


def _withholds(kind: str, spec: ControllerSpec) -> str:
    """Why a controller does not make all of its pods, in words that stay; empty if it does."""
    if kind == "Job" and spec.suspend:
        return "is suspended"
    if kind == "Deployment" and spec.paused:
        return "is paused"
    parallel = spec.podManagementPolicy == "Parallel"
    return ORDERED if kind == "StatefulSet" and not parallel else ""


def _number_of(indexes: str) -> int:
    """How many indexes a text such as `1,3-5` names."""
    number = 0
    for first, _, last in (each.partition("-") for each in indexes.split(",")):
        if all(
            each.isascii() and each.isdecimal() and len(each) < 12 for each in (first, last or "0")
        ):
            number += max(0, int(last or first) - int(first) + 1)
    return number


def _surge(strategy: DeploymentStrategy | None, replicas: int) -> int:
    """The pods that a Deployment may have beyond its replicas."""
    if strategy is not None and strategy.type == "Recreate":
        return 0
    rolling = strategy.rollingUpdate if strategy is not None else None
    most = rolling.maxSurge if rolling is not None else None
    if isinstance(most, int):
        return most
    percent = (most or _DEFAULT_SURGE).removesuffix("%").lstrip("0") or "0"
    if not (percent.isascii() and percent.isdecimal()):
        return 0  # the API server refuses such texts
    # As in Kubernetes, a part of a pod is one more.
    return -(-int(percent[:12]) * replicas // 100)


def root_of(controller: Controller, known: Mapping[str, Controller]) -> Workload:
    """The root workload of a controller, given the known controllers by uid.

    Only the owner of a ReplicaSet is followed. A Job of a CronJob is its own root, because the Job
    says how many pods it wants. If the owner is not known, it is a workload of unknown size.
    """
    owner = controller.owner
    if controller.workload.kind != "ReplicaSet" or owner is None:
        return controller.workload
    above = known.get(owner.uid)
    return above.workload if above is not None else owner


class PodFailure(msgspec.Struct, frozen=True, gc=False):
    """PodFailure: a pod that failed, as later pods of its controller see it.

    Attributes are the fields of the schema's Failure.
    """

    pod: str
    node: str
    time: Timestamp
    reason: str


def how_it_ended(status: PodStatus) -> tuple[Timestamp | None, str]:
    """When a pod ended, None if nobody knows, and why.

    The time is when the last container ended, or else when a condition changed last. The reason is
    the pod's, like `Evicted`, or else that of the container which ended last without success, like
    `OOMKilled`.
    """
    containers = (*(status.initContainerStatuses or ()), *(status.containerStatuses or ()))
    states = (each.state.terminated for each in containers if each.state is not None)
    ends = [(each.finishedAt, each.reason or "") for each in states if each and each.finishedAt]
    ends.sort(key=lambda end: (end[0].nanos, end[1]))
    changes = (each.lastTransitionTime for each in status.conditions or ())
    times = [at for at, _ in ends] or [at for at in (*changes, status.startTime) if at]
    reasons = [reason for _, reason in ends if reason not in _FINE]
    reason = status.reason or (reasons[-1] if reasons else "")
    return max(times, key=lambda at: at.nanos, default=None), reason[:_LONGEST_REASON]

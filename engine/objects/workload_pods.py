"""Pods of a workload: those that a controller would create from the manifest, and stored objects.

The rules are those of the controllers of Kubernetes 1.36: names, labels, owners and tolerations of
new pods (pkg/controller/deployment, statefulset, job, cronjob, daemon).

Manifests, hand-written snapshots and test blocks leave out what the API server fills in. The rules
are those of SetDefaults_Pod and SetDefaults_NodeStatus (pkg/apis/core/v1/defaults.go), of the
strategy of pods, and of the admission plugins Priority, DefaultTolerationSeconds and
ServiceAccount; its volume with a token, and what is within volumes and probes, is left out. An
object of a snapshot that has a resource version was stored and is left alone, and so is what cannot
be read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import chain
from typing import Any

import msgspec

from engine.objects.api_types import PodSpec, mapping, mappings
from engine.objects.decoding import decode_scalar
from engine.objects.peer import DEFAULT_SCHEDULER, TEMPLATE_HASH
from engine.objects.resources import CPU, MEMORY, pod_limits, pod_requests
from grammar.values.errors import EvaluationError
from grammar.values.quantity import Quantity
from policies.resource import read_json

Json = dict[str, Any]

_HUGE_PAGES = "hugepages-"
_PREEMPTS = "PreemptLowerPriority"
_OF_SPEC = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "serviceAccountName": "default",
    "schedulerName": DEFAULT_SCHEDULER,
    "enableServiceLinks": True,
}
_OF_CONTAINER = {
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
}
_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_FOR_A_WHILE = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}


@dataclass(frozen=True, slots=True)
class ClusterDefaults:
    """What a cluster gives to the pods that are created in it.

    `classes` are the priority classes by name, each with its value and whether it preempts, `usual`
    is the name of that for pods which name none, and `now` the time of the creation, empty for that
    of the clock.
    """

    classes: Mapping[str, tuple[int, str]] = field(
        default_factory=lambda: {
            "system-cluster-critical": (2_000_000_000, _PREEMPTS),
            "system-node-critical": (2_000_001_000, _PREEMPTS),
        }
    )
    usual: str = ""
    now: str = ""

    @property
    def created(self) -> str:
        return self.now or datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


ANY_CLUSTER = ClusterDefaults()


class _Stored(msgspec.Struct):
    resourceVersion: str | None = None
    creationTimestamp: str | None = None


class _StoredHead(msgspec.Struct):
    kind: str | None = None
    metadata: _Stored | None = None
    items: list[msgspec.Raw] | None = None


# An object as it is written, and its head; of one that cannot be read that has no kind.
_Object = tuple[bytes | msgspec.Raw, _StoredHead]


def as_stored(documents: Iterable[bytes], beside: ClusterDefaults = ANY_CLUSTER) -> list[bytes]:
    """The JSON documents of one source, with their pods and nodes as they would be stored.

    `beside` is the cluster that is known besides.
    """
    read = [(document, _objects(document)) for document in documents]
    defaults = _defaults(chain.from_iterable(objects for _, objects in read), beside)
    defaults = replace(defaults, now=defaults.created)
    return [_document(document, objects, defaults) for document, objects in read]


def defaults_in(
    documents: Iterable[bytes], beside: ClusterDefaults = ANY_CLUSTER
) -> ClusterDefaults:
    """What a cluster with these JSON documents gives, too: its classes, and its newest time."""
    return _defaults(chain.from_iterable(map(_objects, documents)), beside)


def _defaults(found: Iterable[_Object], beside: ClusterDefaults) -> ClusterDefaults:
    classes, usual, newest = dict(beside.classes), beside.usual, ""
    for content, head in found:
        if head.metadata is not None:
            newest = max(newest, head.metadata.creationTimestamp or "")
        if head.kind == "PriorityClass":
            known = read_json(content, Json) or {}
            if isinstance(value := known.get("value"), int):
                name = str(mapping(known, "metadata").get("name"))
                classes[name] = value, str(known.get("preemptionPolicy") or _PREEMPTS)
                if known.get("globalDefault") is True:
                    usual = name
    return ClusterDefaults(classes, usual, beside.now or newest)


def _objects(document: bytes) -> list[_Object]:
    """The objects of a document: the items of a list, or itself."""
    outer = read_json(document, _StoredHead)
    items = outer.items if outer is not None else read_json(document, list[msgspec.Raw])
    if items is None:
        return [(document, outer)] if outer is not None else []
    kind, found = ((outer and outer.kind) or "").removesuffix("List"), list[_Object]()
    for item in items:
        if (head := read_json(item, _StoredHead)) is not None:
            head.kind = head.kind or kind
        found.append((item, head or _StoredHead()))
    return found


def _document(document: bytes, objects: Sequence[_Object], defaults: ClusterDefaults) -> bytes:
    stored = [_stored(content, head, defaults) for content, head in objects]
    if all(new is content for new, (content, _) in zip(stored, objects, strict=True)):
        return document
    if objects[0][0] is document:
        return bytes(stored[0])
    raw = [item if isinstance(item, msgspec.Raw) else msgspec.Raw(item) for item in stored]
    if (fields := read_json(document, dict[str, msgspec.Raw])) is None:
        return msgspec.json.encode(raw)
    return msgspec.json.encode({**fields, "items": raw})


def _stored(
    item: bytes | msgspec.Raw, head: _StoredHead, defaults: ClusterDefaults
) -> bytes | msgspec.Raw:
    if head.kind not in ("Pod", "Node") or (head.metadata and head.metadata.resourceVersion):
        return item
    if (value := read_json(item, Json)) is None:
        return item
    before = msgspec.json.encode(value)
    if head.kind == "Pod":
        default_pod(value, defaults)
    else:
        default_node(value, defaults)
    after = msgspec.json.encode(value)
    return item if after == before else after


# ---- one object, which is changed


def default_node(node: Json, defaults: ClusterDefaults) -> None:
    """Gives a node what the API server would set."""
    status = mapping(node, "status")
    if not mapping(status, "allocatable") and mapping(status, "capacity"):
        status["allocatable"] = dict(mapping(status, "capacity"))
    _fill(mapping(node, "metadata"), {"creationTimestamp": defaults.created})


def default_pod(pod: Json, defaults: ClusterDefaults) -> None:
    """Gives a pod what the API server would set: each door that takes pods calls this."""
    spec = mapping(pod, "spec")
    _fill(mapping(pod, "metadata"), {"creationTimestamp": defaults.created})
    if not spec:
        return
    containers = [*mappings(spec, "containers"), *mappings(spec, "initContainers")]
    for container in containers:
        _default_container(container, on_host=spec.get("hostNetwork") is True)
    if mapping(spec, "resources"):
        _default_pod_level(spec)
    for volume in mappings(spec, "volumes"):
        if not volume.keys() - {"name"}:
            volume["emptyDir"] = {}
    _fill(spec, {**_OF_SPEC, "securityContext": {}})
    # The class, the number and the policy of a class that is known (Priority).
    if not spec.get("priorityClassName") and defaults.usual and spec.get("priority") is None:
        spec["priorityClassName"] = defaults.usual
    name = str(spec.get("priorityClassName") or "")
    known = defaults.classes.get(name, None if name else (0, _PREEMPTS))
    if known is not None:
        _fill(spec, dict(zip(("priority", "preemptionPolicy"), known, strict=True)))
    _default_tolerations(spec)
    if pod.get("status") is None:
        pod["status"] = {}
    # Also where those of the pod are empty.
    givers = containers if spec.get("resources") is None else [spec]
    qos_class = _qos_class(mapping(each, "resources") for each in givers)
    _fill(mapping(pod, "status"), {"phase": "Pending", "qosClass": qos_class})


def _fill(given: Json, more: Mapping[str, object]) -> None:
    """Adds the values that are not there, or null, to what there is of an object."""
    given.update({key: value for key, value in more.items() if given.get(key) is None})


def _default_container(container: Json, *, on_host: bool) -> None:
    _fill(container, {**_OF_CONTAINER, "resources": {}})
    resources = mapping(container, "resources")
    if limits := mapping(resources, "limits"):
        resources["requests"] = limits | mapping(resources, "requests")
    for port in mappings(container, "ports"):
        _fill(port, {"protocol": "TCP"})
        if on_host:
            port["hostPort"] = port.get("hostPort") or port.get("containerPort") or 0
    name, _, digest = str(container.get("image") or "").partition("@")
    tag = name.rpartition("/")[2].partition(":")[2]
    is_latest = tag == "latest" or bool(name and not tag and not digest)
    _fill(container, {"imagePullPolicy": "Always" if is_latest else "IfNotPresent"})


def _default_tolerations(spec: Json) -> None:
    """Fills in for how long a pod stays on a node that is not ready (DefaultTolerationSeconds)."""
    given, known = spec.get("tolerations") or [], mappings(spec, "tolerations")
    if given != known:
        return  # whoever decodes it says what is wrong
    more = [
        {"key": key, **_FOR_A_WHILE}
        for key in _TAINTS
        if not any(
            each.get("key") in (None, "", key) and each.get("effect") in (None, "", "NoExecute")
            for each in known
        )
    ]
    if more:
        spec["tolerations"] = [*known, *more]


def _qos_class(resources: Iterable[Json]) -> str:
    """The class of a pod by the resources of its containers, or its own (ComputePodQOS)."""
    is_guaranteed, has_some = True, False
    for each in resources:
        limits, requests = mapping(each, "limits"), mapping(each, "requests")
        for resource in (CPU, MEMORY):
            request, limit = _amount(requests.get(resource)), _amount(limits.get(resource))
            has_some |= bool(request or limit)
            is_guaranteed &= bool(limit) and request == limit
    return "BestEffort" if not has_some else "Guaranteed" if is_guaranteed else "Burstable"


def _amount(given: object) -> Quantity | None:
    """A quantity of a manifest; None if it is absent, 0, or none."""
    try:
        found = Quantity.parse(str(given))
    except EvaluationError:
        return None
    return found if found.nanos else None


def _default_pod_level(spec: Json) -> None:
    """Fills in the pod-level resources from those of containers, then requests from limits."""
    try:
        slim = msgspec.convert(
            {**spec, "resources": None, "overhead": None}, PodSpec, dec_hook=decode_scalar
        )
    except msgspec.ValidationError:
        return
    resources = mapping(spec, "resources")
    requests, limits = dict(mapping(resources, "requests")), dict(mapping(resources, "limits"))
    if requests or limits:
        for resource, sum_ in pod_limits(slim, None).items():
            if resource.startswith(_HUGE_PAGES) and resource not in requests:
                limits.setdefault(resource, str(sum_))
    if limits:
        resources["limits"] = limits
        sums: Mapping[str, Quantity] = pod_requests(slim, None)
        for resource in (CPU, MEMORY):
            if resource in sums:
                requests.setdefault(resource, str(sums[resource]))
        for resource, most in limits.items():
            if resource in (CPU, MEMORY) or resource.startswith(_HUGE_PAGES):
                requests.setdefault(resource, most)
        if requests:
            resources["requests"] = requests


# The kinds of workloads with their API version, and what kubectl calls them beside the kind.
WORKLOAD_KINDS: Mapping[str, tuple[str, Sequence[str]]] = {
    "Deployment": ("apps/v1", ("deploy", "deployments")),
    "ReplicaSet": ("apps/v1", ("rs", "replicasets")),
    "StatefulSet": ("apps/v1", ("sts", "statefulsets")),
    "DaemonSet": ("apps/v1", ("ds", "daemonsets")),
    "Job": ("batch/v1", ("jobs",)),
    "CronJob": ("batch/v1", ("cj", "cronjobs")),
    "ReplicationController": ("v1", ("rc", "replicationcontrollers")),
}
# A controller that wants more pods than these is a mistake in a file.
MOST_PODS = 100_000
# What a DaemonSet's pods tolerate (AddOrUpdateDaemonPodTolerations).
_DAEMON_TOLERATIONS = (
    ("not-ready", "NoExecute"),
    ("unreachable", "NoExecute"),
    ("disk-pressure", "NoSchedule"),
    ("memory-pressure", "NoSchedule"),
    ("pid-pressure", "NoSchedule"),
    ("unschedulable", "NoSchedule"),
)
_HOST_NETWORK = ("network-unavailable", "NoSchedule")

# The uid that a workload has in the cluster, by kind and `namespace/name`; None if it is not there.
KnownUid = Callable[[str, str], str | None]


class WorkloadError(Exception):
    """A workload from whose manifest no pod can be made."""


def nothing_known(_kind: str, _key: str) -> None:
    """The uids of a cluster that is not known."""


@dataclass(frozen=True, slots=True)
class WorkloadPods:
    """Pods that the controller of a workload creates.

    `pods` are as many as it wants; of a DaemonSet one, which stands for the pod of each node.
    `example` is one of them, also of a workload that wants none. `controllers` are the objects
    that own the pods: the workload, and what stands between.
    """

    kind: str
    name: str
    namespace: str
    pods: Sequence[Json]
    example: Json
    controllers: Sequence[Json]

    @property
    def of_each_node(self) -> bool:
        """Whether each node that the pod may go to has one of its own."""
        return self.kind == "DaemonSet"


def is_workload(item: Json) -> bool:
    """Whether an object is of one of the kinds, in their API group."""
    known = WORKLOAD_KINDS.get(str(item.get("kind")))
    return known is not None and known[0] == item.get("apiVersion", known[0])


def kind_called(word: str) -> str | None:
    """The kind of workload that kubectl means by a word such as `deploy` or `deployments.apps`."""
    name, _, group = word.lower().partition(".")
    for kind, (version, words) in WORKLOAD_KINDS.items():
        if name in (kind.lower(), *words) and group in ("", version.rpartition("/")[0]):
            return kind
    return None


def pods_of(
    item: Json, namespace: str, known: KnownUid = nothing_known, most: int = MOST_PODS
) -> WorkloadPods:
    """The pods of a workload's manifest; `namespace` is that of a manifest without one.

    Raises WorkloadError, also for more pods than `most`.
    """
    kind, metadata = str(item["kind"]), mapping(item, "metadata")
    name = metadata.get("name") or metadata.get("generateName")
    if not isinstance(name, str):
        raise WorkloadError(f"a {kind} has no name")
    where = str(metadata.get("namespace") or namespace)
    key = f"{where}/{name}"
    uid = known(kind, key) or metadata.get("uid") or f"manifest:{kind}:{key}"
    stored = {**item, "metadata": {**metadata, "name": name, "namespace": where, "uid": uid}}
    spec, owners = mapping(stored, "spec"), [stored]
    if kind == "CronJob":
        job = _job_of(stored)
        owners, spec = [stored, job], mapping(job, "spec")
    template = mapping(spec, "template")
    if not mapping(template, "spec"):
        raise WorkloadError(f"the {kind} `{key}` has no pod template")
    if kind == "Deployment":
        owners = [stored, _replica_set_of(stored, template, known)]
    named = list(_pods(owners[-1], template, _wanted(kind, spec, key, most)))
    example = named[0] if named else next(_pods(owners[-1], template, 1))
    return WorkloadPods(kind, name, where, named, example, owners)


def _wanted(kind: str, spec: Json, key: str, most_pods: int) -> int:
    """How many pods a workload wants at once."""
    if kind == "DaemonSet":
        return 1
    field = "parallelism" if kind in ("Job", "CronJob") else "replicas"
    wanted = spec.get(field)
    wanted = 1 if wanted is None else wanted
    most = spec.get("completions") if field == "parallelism" else None
    if isinstance(wanted, int) and isinstance(most, int):
        wanted = min(wanted, most)
    if not isinstance(wanted, int) or not 0 <= wanted <= most_pods:
        text = f"`{field}` of the {kind} `{key}` is no number from 0 to {most_pods}"
        raise WorkloadError(text)
    return wanted


def _job_of(cron_job: Json) -> Json:
    """The Job of one run of a CronJob."""
    template = mapping(mapping(cron_job, "spec"), "jobTemplate")
    above = mapping(cron_job, "metadata")
    own = _owned(cron_job, f"{above['name']}-run", f"{above['uid']}:run")
    metadata = {**mapping(template, "metadata"), **own}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata}
    return {**job, "spec": mapping(template, "spec")}


def _replica_set_of(deployment: Json, template: Json, known: KnownUid) -> Json:
    """The ReplicaSet of a Deployment's template; a template by itself decides its name."""
    digest = hashlib.sha256(msgspec.json.encode(template, order="sorted")).hexdigest()[:10]
    above = mapping(deployment, "metadata")
    name = f"{above['name']}-{digest}"
    uid = known("ReplicaSet", f"{above['namespace']}/{name}") or f"{above['uid']}:{digest}"
    labels = {**mapping(mapping(template, "metadata"), "labels"), TEMPLATE_HASH: digest}
    metadata = _owned(deployment, name, uid, labels=labels)
    spec = {"replicas": mapping(deployment, "spec").get("replicas")}
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": spec}


def _owned(owner: Json, name: str, uid: str, **more: Json) -> Json:
    """The metadata of what a workload owns."""
    above = mapping(owner, "metadata")
    version = owner.get("apiVersion") or WORKLOAD_KINDS[owner["kind"]][0]
    found = {"apiVersion": version, "kind": owner["kind"], "controller": True}
    owners = [{**found, "name": above["name"], "uid": above["uid"]}]
    own = {"name": name, "namespace": above["namespace"], "uid": uid}
    return {**own, **more, "ownerReferences": owners}


def _pods(owner: Json, template: Json, wanted: int) -> Iterator[Json]:
    """The pods of a controller, each with its name, labels and owner."""
    kind, above = owner["kind"], mapping(owner, "metadata")
    given, spec = mapping(template, "metadata"), mapping(template, "spec")
    more = _labels_of(kind, owner)
    if kind == "DaemonSet":
        on_host = (_HOST_NETWORK,) if spec.get("hostNetwork") is True else ()
        own = [
            {"key": f"node.kubernetes.io/{name}", "operator": "Exists", "effect": effect}
            for name, effect in (*_DAEMON_TOLERATIONS, *on_host)
        ]
        spec = {**spec, "tolerations": [*mappings(spec, "tolerations"), *own]}
    indexed = kind == "StatefulSet" or mapping(owner, "spec").get("completionMode") == "Indexed"
    first = 1
    if indexed:
        start = mapping(mapping(owner, "spec"), "ordinals").get("start")
        first = start if isinstance(start, int) else 0
    for number in range(first, first + wanted):
        name = f"{above['name']}-{number}"
        labels = {**mapping(given, "labels"), **more}
        annotations = dict(mapping(given, "annotations"))
        if kind == "StatefulSet":
            labels["statefulset.kubernetes.io/pod-name"] = name
            labels["apps.kubernetes.io/pod-index"] = str(number)
        elif indexed:
            labels["batch.kubernetes.io/job-completion-index"] = str(number)
            annotations["batch.kubernetes.io/job-completion-index"] = str(number)
        uid = f"{above['uid']}:{number}"
        metadata = _owned(owner, name, uid, labels=labels, annotations=annotations)
        yield {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _labels_of(kind: str, owner: Json) -> Mapping[str, str]:
    """The labels that a controller adds to its pods."""
    metadata = mapping(owner, "metadata")
    if kind == "ReplicaSet":
        digest = mapping(metadata, "labels").get(TEMPLATE_HASH)
        return {TEMPLATE_HASH: digest} if isinstance(digest, str) else {}
    if kind == "Job":
        name, uid = metadata["name"], metadata["uid"]
        return {
            "batch.kubernetes.io/job-name": name,
            "batch.kubernetes.io/controller-uid": uid,
            "job-name": name,
            "controller-uid": uid,
        }
    return {}


def pinned(pod: Json, node: str) -> Json:
    """The pod of a DaemonSet for one node (ReplaceDaemonSetPodNodeNameNodeAffinity)."""
    metadata, spec = mapping(pod, "metadata"), mapping(pod, "spec")
    affinity = mapping(spec, "affinity")
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    for_node = {**mapping(affinity, "nodeAffinity"), **required}
    base = str(metadata["name"]).removesuffix("-1")
    return {
        **pod,
        "metadata": {**metadata, "name": f"{base}-{node}", "uid": f"{metadata['uid']}:{node}"},
        "spec": {**spec, "affinity": {**affinity, "nodeAffinity": for_node}},
    }

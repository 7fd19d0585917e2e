"""The demo cluster: twelve nodes in three zones, forty pods and two that wait, and a question."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import cycle
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_OID, uuid5

import msgspec

from engine.decision import scoring
from engine.engine import Engine
from engine.explanation.inspection import Inspection
from policies.disk import Visit
from server.runtime.reloader import PolicyReloader
from server.view.page import HOST, ROOT

Object = dict[str, Any]

_MAINTENANCE = "maintenance.example.com/start"
_REGION = "eu-west-1"


@dataclass(frozen=True, slots=True)
class Machine:
    """An instance type: its capacity, and what is allocatable."""

    name: str
    arch: str
    cpu: str
    allocatable_cpu: str
    memory: str
    allocatable_memory: str
    gpus: int = 0


@dataclass(frozen=True, slots=True)
class DemoNode:
    """A node of a pool and a zone, which its name contains."""

    name: str
    machine: Machine
    age: timedelta
    spot: bool = False
    cordoned: bool = False
    maintenance: bool = False

    @property
    def zone(self) -> str:
        return _REGION + self.name.split("-")[1][0]


@dataclass(frozen=True, slots=True)
class DemoPods:
    """The pods of one controller, and their nodes; one without a node waits for one.

    `said` is what kube-scheduler has said of it.
    """

    namespace: str
    name: str
    kind: str
    requests: dict[str, str]
    on: tuple[str, ...]
    tier: str = ""
    priority: int = 0
    selector: dict[str, str] = field(default_factory=dict)
    said: str = ""


def node_object(place: DemoNode, now: datetime) -> Object:
    machine = place.machine
    node = object_("Node", "v1", place.name, None, now - place.age)
    node["metadata"]["labels"] = {
        "kubernetes.io/hostname": place.name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": machine.arch,
        "node.kubernetes.io/instance-type": machine.name,
        "topology.kubernetes.io/region": _REGION,
        "topology.kubernetes.io/zone": place.zone,
        "karpenter.sh/capacity-type": "spot" if place.spot else "on-demand",
    }
    if place.maintenance:
        node["metadata"]["annotations"] = {_MAINTENANCE: _time(now + timedelta(hours=1))}
    node["spec"] = {"providerID": f"aws:///{place.zone}/{place.name}"}
    taints = [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}] if machine.gpus else []
    if place.cordoned:
        node["spec"]["unschedulable"] = True
        taints.append({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"})
    if taints:
        node["spec"]["taints"] = taints
    gpus = {"nvidia.com/gpu": str(machine.gpus)} if machine.gpus else {}
    node["status"] = {
        "capacity": {"cpu": machine.cpu, "memory": machine.memory, "pods": "58"} | gpus,
        "allocatable": {
            "cpu": machine.allocatable_cpu,
            "memory": machine.allocatable_memory,
            "pods": "58",
            **gpus,
        },
        "conditions": [
            {
                "type": "Ready",
                "status": "True",
                "reason": "KubeletReady",
                "lastHeartbeatTime": _time(now),
                "lastTransitionTime": _time(now - place.age),
            }
        ],
        "nodeInfo": {
            "architecture": machine.arch,
            "operatingSystem": "linux",
            "kubeletVersion": "v1.36.2",
        },
    }
    return node


def workload_objects(pods: DemoPods, now: datetime) -> Iterator[Object]:
    """The controllers, root first, and their pods."""
    born = now - timedelta(days=30)
    replicas = len(pods.on)
    root = object_(
        pods.kind, "batch/v1" if pods.kind == "Job" else "apps/v1", pods.name, pods.namespace, born
    )
    if pods.kind != "DaemonSet":
        root["spec"] = {"parallelism" if pods.kind == "Job" else "replicas": replicas}
    yield root
    owner = root
    if pods.kind == "Deployment":
        owner = object_("ReplicaSet", "apps/v1", f"{pods.name}-7d9c6b", pods.namespace, born)
        owner["metadata"]["ownerReferences"] = [_reference(root)]
        owner["spec"] = {"replicas": replicas}
        yield owner
    for number, (place, ending) in enumerate(zip(pods.on, cycle("x4k2m9q7v3"), strict=False)):
        name = f"{owner['metadata']['name']}-{number}"
        if pods.kind != "StatefulSet":
            name += ending
        yield _pod(name, place, owner, pods, now - timedelta(hours=2 + 5 * number))


def _pod(name: str, place: str, owner: Object, pods: DemoPods, born: datetime) -> Object:
    pod = object_("Pod", "v1", name, pods.namespace, born)
    pod["metadata"]["labels"] = {"app": pods.name} | ({"tier": pods.tier} if pods.tier else {})
    pod["metadata"]["ownerReferences"] = [_reference(owner)]
    pod["spec"] = {
        **({"nodeName": place} if place else {}),
        **({"nodeSelector": pods.selector} if pods.selector else {}),
        "priority": pods.priority,
        "schedulerName": "default-scheduler",
        "containers": [
            {
                "name": pods.name,
                "image": f"registry.example/{pods.name}:1.4.2",
                "resources": {"requests": pods.requests},
            }
        ],
    }
    pod["status"] = {"phase": "Running" if place else "Pending"}
    if pods.said:
        pod["status"]["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": "Unschedulable",
                "message": f"0/{len(_PLACES)} nodes are available: {pods.said}.",
            }
        ]
    return pod


def object_(kind: str, version: str, name: str, namespace: str | None, born: datetime) -> Object:
    metadata: Object = {"name": name} | ({} if namespace is None else {"namespace": namespace})
    metadata["uid"] = str(uuid5(NAMESPACE_OID, f"{kind}/{namespace}/{name}"))
    metadata["creationTimestamp"] = _time(born)
    return {"apiVersion": version, "kind": kind, "metadata": metadata}


def _reference(owner: Object) -> Object:
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }


def _time(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


_GENERAL = Machine("m6i.2xlarge", "amd64", "8", "7910m", "32386528Ki", "31369696Ki")
_ARM = Machine("m7g.2xlarge", "arm64", "8", "7910m", "32214204Ki", "31197372Ki")
_GPU = Machine("g5.12xlarge", "amd64", "48", "47810m", "195788016Ki", "193031024Ki", gpus=4)
_PLACES = (
    DemoNode("general-a1", _GENERAL, timedelta(days=41)),
    DemoNode("general-b1", _GENERAL, timedelta(days=41)),
    DemoNode("general-b2", _GENERAL, timedelta(days=96), cordoned=True),
    DemoNode("general-c1", _GENERAL, timedelta(days=41), maintenance=True),
    DemoNode("spot-a1", _GENERAL, timedelta(hours=7), spot=True),
    DemoNode("spot-b1", _GENERAL, timedelta(hours=19), spot=True),
    DemoNode("spot-c1", _GENERAL, timedelta(hours=2), spot=True),
    DemoNode("arm-a1", _ARM, timedelta(days=12)),
    DemoNode("arm-b1", _ARM, timedelta(days=12)),
    DemoNode("arm-c1", _ARM, timedelta(minutes=2), spot=True),
    DemoNode("gpu-a1", _GPU, timedelta(days=5)),
    DemoNode("gpu-b1", _GPU, timedelta(days=3)),
)
_SETS = (
    DemoPods(
        "shop",
        "web",
        "Deployment",
        {"cpu": "500m", "memory": "1Gi"},
        ("general-a1", "general-b1", "spot-a1", "spot-b1", "arm-a1", "arm-b1"),
        tier="web",
    ),
    DemoPods(
        "shop",
        "checkout",
        "Deployment",
        {"cpu": "1", "memory": "2Gi"},
        ("general-a1", "general-c1", "spot-c1", "arm-b1"),
        tier="api",
    ),
    DemoPods(
        "shop",
        "orders-db",
        "StatefulSet",
        {"cpu": "2", "memory": "8Gi"},
        ("general-a1", "general-b1", "general-c1"),
        tier="db",
        priority=1000,
    ),
    DemoPods(
        "shop",
        "cache",
        "Deployment",
        {"cpu": "250m", "memory": "4Gi"},
        ("general-b2", "arm-a1"),
        tier="cache",
    ),
    DemoPods(
        "ml",
        "train-embeddings",
        "Job",
        {"cpu": "8", "memory": "48Gi", "nvidia.com/gpu": "2"},
        ("gpu-a1", "gpu-b1"),
    ),
    DemoPods(
        "ml",
        "inference",
        "Deployment",
        {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "1"},
        ("gpu-a1", "gpu-a1"),
        priority=100,
    ),
    DemoPods(
        "batch",
        "consumer",
        "Deployment",
        {"cpu": "1", "memory": "3Gi"},
        ("spot-a1", "spot-a1", "spot-b1", "spot-b1", "spot-c1", "spot-c1", "general-b1"),
        priority=-10,
    ),
    DemoPods(
        "shop",
        "reports",
        "Deployment",
        {"cpu": "1", "memory": "2Gi"},
        ("",),
        tier="web",
        selector={
            "node.kubernetes.io/instance-type": _GENERAL.name,
            "karpenter.sh/capacity-type": "on-demand",
        },
        said="1 node(s) were unschedulable, 1 policy leaving-nodes: the node goes into"
        " maintenance soon, 2 policy shop/shop: a database runs there, 8 node(s)"
        " didn't match Pod's node affinity/selector",
    ),
    DemoPods(
        "ml",
        "train-large",
        "Job",
        {"cpu": "16", "memory": "96Gi", "nvidia.com/gpu": "8"},
        ("",),
        said="1 node(s) were unschedulable, 11 Insufficient nvidia.com/gpu",
    ),
    DemoPods(
        "kube-system",
        "coredns",
        "Deployment",
        {"cpu": "100m", "memory": "70Mi"},
        ("general-a1", "arm-b1"),
        priority=2_000_000_000,
    ),
    DemoPods(
        "kube-system",
        "node-agent",
        "DaemonSet",
        {"cpu": "50m", "memory": "128Mi"},
        tuple(place.name for place in _PLACES),
        priority=2_000_001_000,
    ),
)
NODE_NAMES = tuple(place.name for place in _PLACES)


def demo_cluster(now: datetime) -> Object:
    """The whole cluster as one `kind: List`; ages are relative to `now`, in UTC."""
    items = [node_object(place, now) for place in _PLACES]
    for pods in _SETS:
        items.extend(workload_objects(pods, now))
    born = now - timedelta(days=96)
    names = dict.fromkeys(pods.namespace for pods in _SETS)
    items.extend(object_("Namespace", "v1", name, None, born) for name in names)
    return {"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": items}


class Demo:
    """The demo cluster as an origin of snapshots; its ages are of the server's start."""

    def __init__(self) -> None:
        self._document = msgspec.json.encode(demo_cluster(datetime.now(UTC)))

    def files(self, _visit: Visit) -> Iterable[Path]:
        return ()

    def contents(self) -> Iterable[tuple[Path, bytes]]:
        return [(Path("demo"), self._document)]


POD: Object = {
    "metadata": {
        "name": "web-7d9c6b-6new",
        "namespace": "shop",
        "uid": "3f0c8a52-6a0e-4b55-9d0e-0c6f0d1e7a11",
        "labels": {"app": "web", "tier": "web"},
    },
    "spec": {
        "containers": [
            {"name": "web", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}},
        ],
    },
}


def answer(engine: Engine) -> Iterator[str]:
    """The answer of the engine at this moment, in lines; nothing is offered or recorded."""
    inspection = Inspection.of(engine, msgspec.json.encode(POD))
    objections = inspection.all_objections(NODE_NAMES)
    passing: list[str] = []
    failed: dict[str, list[str]] = {}
    for index, name in enumerate(NODE_NAMES):
        reasons = [o.message for o in objections if o.refused[index]]
        (failed.setdefault(reasons[0], []) if reasons else passing).append(name)
    yield f"NodeNames, where the pod may go: {', '.join(passing) or 'none'}"
    for reason, names in failed.items():
        yield f"FailedAndUnresolvableNodes: {', '.join(names)}: {reason}"
    given = inspection.contributions(passing) if passing else ()
    if given:
        scores = scoring.scores([(each.weight, each.points) for each in given]).tolist()
        ranked = sorted(zip(passing, scores, strict=True), key=lambda found: -found[1])
        best = ", ".join(f"{name} {score}" for name, score in ranked)
        yield f"asked to prioritize instead of filter, it scores them: {best}"


def announcement(
    url: str, view_port: int | None, reloader: PolicyReloader, moved: Sequence[str] = ()
) -> Iterator[str]:
    """The lines that `--demo` prints: what runs, a link, a call with its answer, and the policies.

    `view_port` is the port of the page, if there is one; `moved` says which ports were taken.
    """
    snapshot = reloader.view.snapshot()
    nodes, pods = len(snapshot.table.rows), len(snapshot.pods())
    yield f"Placet decides about a demo cluster of {nodes} nodes and {pods} pods. Ctrl-C stops it."
    yield from moved
    yield ""
    if view_port is not None:
        yield f"Open it in your browser: http://{HOST}:{view_port}{ROOT}/"
        yield ""
    yield "Ask it, in another terminal, where a web pod may go:"
    yield ""
    # The request of kube-scheduler with nodeCacheCapable, on one line.
    body = msgspec.json.encode({"Pod": POD, "NodeNames": NODE_NAMES}).decode()
    yield f"curl -s {url}/api/scheduler/filter -d '{body}'"
    yield ""
    yield "It would answer now:"
    yield from (f"  {line}" for line in answer(reloader.engine))
    if view_port is not None:
        yield "The decision then appears in the browser, with its reasons."
    yield ""
    in_force = reloader.enforced.in_force.active
    applied = [active for active in in_force if not active.checked.policy.only_used]
    used = len(in_force) - len(applied)
    more = f"; {used} more only provide clauses that a policy can `use`" if used else ""
    yield f"{len(applied)} of its {len(in_force)} policies apply to pods{more}."
    yield "Edit one of these files, and the edit is enforced half a second later:"
    for active in applied:
        policy = active.checked.policy
        kind = "cluster policy" if policy.cluster else "policy"
        description = policy.setting("description", "no description")
        yield f"  {kind} {policy.address}: {description}"
        yield f"    {active.file}"

"""The JSON objects of the demo's cluster, as kubectl would show them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import cycle
from typing import Any
from uuid import NAMESPACE_OID, uuid5

Object = dict[str, Any]

_MAINTENANCE = "maintenance.example.com/start"
_REGION = "eu-west-1"


@dataclass(frozen=True, slots=True)
class Machine:
    """An instance type: what it has, and what is left of it for pods."""

    name: str
    arch: str
    cpu: str
    allocatable_cpu: str
    memory: str
    allocatable_memory: str
    gpus: int = 0


@dataclass(frozen=True, slots=True)
class Place:
    """A node: its name says its pool and zone."""

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
class PodSet:
    """Pods of one controller, and the nodes that they are on."""

    namespace: str
    name: str
    kind: str
    requests: dict[str, str]
    on: tuple[str, ...]
    tier: str = ""
    priority: int = 0


def node_object(place: Place, now: datetime) -> Object:
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


def workload_objects(pods: PodSet, now: datetime) -> Iterator[Object]:
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


def _pod(name: str, place: str, owner: Object, pods: PodSet, born: datetime) -> Object:
    pod = object_("Pod", "v1", name, pods.namespace, born)
    pod["metadata"]["labels"] = {"app": pods.name} | ({"tier": pods.tier} if pods.tier else {})
    pod["metadata"]["ownerReferences"] = [_reference(owner)]
    pod["spec"] = {
        "nodeName": place,
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
    pod["status"] = {"phase": "Running"}
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

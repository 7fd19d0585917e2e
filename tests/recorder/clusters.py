"""Clusters of random worlds: nodes, namespaces, workloads and pods as JSON, by a world's dice.

Every name begins with that of the world. Times are years ago, or far ahead, so that no answer
depends on the day.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.recorder.api_server import Object
from tests.recorder.dice import Dice

_TIMES = ("2020-01-01T00:00:00Z", "2020-06-01T12:30:00Z", "2021-11-21T00:00:00Z")
_FUTURE = "2099-01-01T00:00:00Z"
_APPS = ("web", "web", "web", "db", "cache")


@dataclass
class Cluster:
    """What there is in a world at its beginning, and the dice for what comes."""

    dice: Dice
    world: str
    objects: list[Object] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.namespaces = [f"{self.world}-a", f"{self.world}-b"]
        for name in self.namespaces:
            labels = {"world": self.world, **_drawn(self.dice, {"team": ("red", "blue")}, 0.8)}
            metadata = {"name": name, "uid": f"uid-{name}", "labels": labels}
            self.objects.append({"kind": "Namespace", "metadata": metadata})
        self.owners = [self._workload(app) for app in ("web", "db", "cache")]
        self.nodes = [self.node(place) for place in range(self.dice.randint(2, 7))]
        self.objects += self.nodes
        names = [node["metadata"]["name"] for node in self.nodes]
        for place in range(self.dice.randint(0, 8)):
            on = self.dice.choice(names) if self.dice.chance(0.97) else f"{self.world}-gone"
            self.objects.append(self.pod(f"there-{place}", on))

    def node(self, place: int) -> Object:
        dice, name = self.dice, f"{self.world}-n{place}"
        labels = _drawn(
            dice,
            {
                "topology.kubernetes.io/zone": ("z1", "z2", "z3"),
                "topology.kubernetes.io/region": ("eu-1", "us-1"),
                "pool": ("a", "b"),
                "cap": ("spot", "od"),
                "kubernetes.io/arch": ("arm64", "amd64"),
                "rank": ("0", "1", "3", "5", "x"),
                "karpenter.sh/capacity-type": ("spot", "on-demand"),
            },
            0.88,
        )
        if dice.chance(0.7):
            labels["kubernetes.io/hostname"] = name
        amounts = {
            "cpu": dice.choice(("2", "4", "3500m")),
            "memory": dice.choice(("8Gi", "16Gi", "32Gi", "10e9")),
            "pods": "110",
        }
        if dice.chance(0.3):
            amounts["nvidia.com/gpu"] = dice.choice(("0", "1", "4"))
        metadata: Object = {"name": name, "uid": f"uid-{name}", "labels": labels}
        if dice.chance(0.6):
            metadata["annotations"] = {"rack": dice.choice(("r1", "r2", "r3")), "note": "x"}
        if dice.chance(0.8):
            metadata["creationTimestamp"] = dice.choice(_TIMES)
        spec: Object = {}
        if dice.chance(0.15):
            spec["unschedulable"] = True
        if dice.chance(0.2):
            effect = dice.choice(("NoSchedule", "PreferNoSchedule"))
            spec["taints"] = [{"key": "dedicated", "value": "x", "effect": effect}]
        if dice.chance(0.3):
            spec["providerID"] = dice.choice(("eu/1", "us/2"))
        status: Object = {
            "conditions": [
                {"type": "Ready", "status": dice.choice(("True", "True", "True", "False"))},
                {"type": "DiskPressure", "status": dice.choice(("False", "False", "True"))},
            ],
            "nodeInfo": {"kubeletVersion": dice.choice(("v1.34.1", "v1.35.0", "v1.36.2", "?"))},
            "addresses": [{"type": "InternalIP", "address": f"10.0.{place}.7"}],
        }
        if dice.chance(0.95):
            status["allocatable"] = status["capacity"] = amounts
        if dice.chance(0.4):
            image = f"registry.example/{dice.choice(_APPS)}:1"
            status["images"] = [{"names": [image], "sizeBytes": 1000}]
        return {"kind": "Node", "metadata": metadata, "spec": spec, "status": status}

    def pod(self, name: str, on: str = "") -> Object:
        """A pod that is on a node, or waits for one."""
        dice, app = self.dice, self.dice.choice(_APPS)
        namespace = self.namespaces[0] if dice.chance(0.85) else self.namespaces[1]
        labels = {"app": app} if dice.chance(0.95) else {}
        labels |= _drawn(
            dice,
            {
                "size": ("s", "m", "a"),
                "arch": ("arm64", "amd64"),
                "tier": ("front", "back"),
                "team": ("red", "blue"),
                "pattern": ("n[0-1]$", "(", "n2"),
            },
            0.4,
        )
        metadata: Object = {
            "name": f"{self.world}-{name}",
            "namespace": namespace,
            "uid": f"uid-{self.world}-{name}",
            "labels": labels,
            "creationTimestamp": dice.choice((*_TIMES, _FUTURE)),
        }
        if dice.chance(0.5):
            metadata["annotations"] = {"team": dice.choice(("red", "blue")), "other": "x"}
        if dice.chance(0.85):
            owner = next(o for o in self.owners if o["name"].endswith(app))
            metadata["ownerReferences"] = [owner]
            metadata["namespace"] = self.namespaces[0]
        if on and dice.chance(0.06):
            metadata["deletionTimestamp"] = _FUTURE
        phase = dice.choice(("Running", "Running", "Pending")) if on else "Pending"
        return {
            "kind": "Pod",
            "metadata": metadata,
            "spec": {**self._spec(app), **({"nodeName": on} if on else {})},
            "status": {"phase": phase},
        }

    def _spec(self, app: str) -> Object:
        dice = self.dice
        containers = [self._container(app, app)]
        if dice.chance(0.25):
            containers.append(self._container("sidecar", "proxy"))
        spec: Object = {"containers": containers}
        if dice.chance(0.2):
            init = self._container("init", "init")
            if dice.chance(0.5):
                init["restartPolicy"] = "Always"
            spec["initContainers"] = [init]
        if dice.chance(0.85):
            spec["priority"] = dice.choice((-10, 0, 10, 100, 100, 1000))
        if dice.chance(0.15):
            spec["overhead"] = {"cpu": "100m", "memory": "64Mi"}
        if dice.chance(0.2):
            spec["tolerations"] = [{"key": "dedicated", "operator": "Exists"}]
        if dice.chance(0.1):
            spec["affinity"] = {"nodeAffinity": {}}
        return spec

    def _container(self, name: str, image: str) -> Object:
        dice = self.dice
        requests = _drawn(
            dice,
            {
                "cpu": ("100m", "500m", "1", "1500m"),
                "memory": ("256Mi", "1Gi", "2Gi", "1.5Gi"),
            },
            0.8,
        )
        if dice.chance(0.15):
            requests["nvidia.com/gpu"] = "1"
        limits = _drawn(dice, {"cpu": ("1", "2"), "memory": ("2Gi", "4Gi")}, 0.4)
        return {
            "name": name,
            "image": f"registry.example/{image}:1",
            "resources": {"requests": requests, "limits": limits},
        }

    def _workload(self, app: str) -> Object:
        """Makes the workload of an app; returns the reference by which its pods are owned."""
        dice, name = self.dice, f"{self.world}-{app}"
        namespace, replicas = self.namespaces[0], dice.randint(0, 6)
        kind = dice.choice(("Deployment", "Deployment", "ReplicaSet", "StatefulSet", "Job", "None"))
        spec = {"parallelism": replicas} if kind == "Job" else {"replicas": replicas}
        metadata: Object = {"name": name, "namespace": namespace, "uid": f"uid-{name}"}
        owner = "ReplicaSet" if kind == "Deployment" else kind
        if kind == "Deployment":
            self.objects.append({"kind": kind, "metadata": dict(metadata), "spec": spec})
            parent = {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": f"uid-{name}"}
            metadata["uid"] = f"uid-{name}-rs"
            metadata["ownerReferences"] = [{**parent, "controller": True}]
        if kind != "None":
            self.objects.append({"kind": owner, "metadata": metadata, "spec": spec})
        group = "batch/v1" if kind == "Job" else "apps/v1"
        kind = "ReplicaSet" if kind == "None" else owner
        return {
            "apiVersion": group,
            "kind": kind,
            "name": name,
            "uid": metadata["uid"],
            "controller": True,
        }


def _drawn(dice: Dice, values: dict[str, Sequence[str]], part: float) -> dict[str, Any]:
    """Each key with one of its values, or without."""
    return {key: dice.choice(list(v)) for key, v in values.items() if dice.chance(part)}

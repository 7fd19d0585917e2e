"""Expressions of random policies: conditions, values and domains that hold the types they need.

What they read is what `clusters` writes. Now and then a key is absent, a number is zero and a
pattern is none, so that what is missing and what fails is met too. No value depends on the time of
day: ages are compared over years.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.recorder.dice import Dice

_POD = (
    'pod.labels["app"] == "web"',
    'pod.labels["app"] in ["web", "db"]',
    'pod.labels["size"] != "s"',
    'pod.labels[?"size"].orValue("m") == "m"',
    '"size" in pod.labels',
    "pod.priority >= 100",
    "pod.priority < 0",
    '"nvidia.com/gpu" in pod.requests',
    'pod.requests["cpu"] > "500m"',
    'pod.requests["memory"] + pod.requests["memory"] <= "2Gi"',
    'pod.limits["memory"] > "1Gi"',
    'pod.limits[?"cpu"].orValue("4") >= "2"',
    'pod.workload.kind == "Deployment"',
    "pod.workload.replicas >= 3",
    'pod.annotations["team"] == "red"',
    'namespaceObject.labels["team"] == "red"',
    'namespaceObject.name.endsWith("-a")',
    "has(pod.spec.affinity)",
    'pod.spec.tolerations.exists(t, t.key == "dedicated")',
    'pod.spec.containers.exists(c, c.image.startsWith("registry.example/web"))',
    'pod.spec.containers.all(c, c.name != "sidecar")',
    "size(pod.spec.initContainers) > 0",
    "1000 / pod.priority > 5",
    'pod.name.matches("-[0-4]$")',
)
_LABELLED = (
    'node.labels["pool"] == "a"',
    'node.labels["pool"] != "a"',
    'node.labels["cap"] == "spot"',
    'node.labels[?"cap"].orValue("od") == "od"',
    'node.labels["pool"] in ["a", "b"]',
    'node.labels["kubernetes.io/arch"] == pod.labels["arch"]',
    'node.labels["pool"].startsWith(pod.labels["size"])',
    'has(node.labels["pool"])',
    '!("cap" in node.labels)',
    'node.annotations["rack"] in ["r1", "r2"]',
    'node.labels.exists(k, v, k.endsWith("pool") && v == "b")',
    'node.zone == "z1"',
    'node.region.startsWith("eu-")',
    'node.zone != node.labels[?"pool"].orValue("z2")',
    'node.name.matches("-n[0-3]$")',
    "node.name.matches(pod.labels[?\"pattern\"].orValue('n'))",
)
_STATED = (
    "node.ready",
    "!node.spec.unschedulable",
    'node.spec.taints.exists(t, t.key == "dedicated" && t.effect == "NoSchedule")',
    "size(node.spec.taints) == 0",
    'node.status.conditions.exists(c, c.type == "DiskPressure" && c.status == "True")',
    'semver(node.status.nodeInfo.kubeletVersion) >= "1.35.0"',
    "semver(node.status.nodeInfo.kubeletVersion).minor() % 2 == 0",
    'node.status.addresses.exists(a, cidr("10.0.0.0/8").containsIP(a.address))',
    "node.status.images.exists(i, pod.spec.containers[0].image in i.names)",
    'node.spec.providerID.contains("eu")',
    'int(node.labels["rank"]) > 2',
    '100 / int(node.labels[?"rank"].orValue("0")) > 20',
)
_MEASURED = (
    'node.free["memory"] - pod.requests["memory"] >= "2Gi"',
    'node.free["cpu"] >= pod.requests["cpu"]',
    'node.allocatable["nvidia.com/gpu"] == 0 || "nvidia.com/gpu" in pod.requests',
    'node.requested["cpu"] < "2"',
    'node.usage["cpu"] <= 0.6',
    'node.usage["memory"] < node.usage["cpu"]',
    "size(node.pods) < 3",
    'node.requested["pods"] <= 2',
    'node.pods.exists(p, p.labels["app"] == pod.labels["app"])',
    "node.pods.all(p, p.priority <= pod.priority)",
    'node.pods.filter(p, p.priority < 100).map(p, p.requests["cpu"]).sum() <= "1500m"',
    'node.pods.map(p, p.labels[?"app"].orValue("")).distinct().size() < 3',
    'cel.bind(m, node.free["memory"], m > "4Gi" && m < "24Gi")',
)
_AGED = (
    'node.age > "365d"',
    'pod.age > "365d"',
    "node.metadata.creationTimestamp > timestamp('2021-01-01T00:00:00Z')",
    'now > "2024-01-01T00:00:00Z"',
    'node.pods.exists(p, p.age > "3650d")',
)
_PEER = (
    'peer.labels["app"] == "web"',
    'peer.labels["app"] == pod.labels["app"]',
    'peer.labels["app"] != "db"',
    'peer.labels["tier"] in ["front", "back"]',
    "peer.priority >= pod.priority",
    "peer.priority < 100",
    'peer.requests["cpu"] >= "500m"',
    'peer.workload.kind == "Deployment"',
    "peer.workload.name == pod.workload.name",
    '"team" in peer.annotations',
    'peer.annotations["team"] == "red"',
    'peer.namespace == pod.namespace && peer.labels[?"app"].hasValue()',
    'peer.containers.exists(c, c.image.contains("web"))',
    "1000 / peer.priority < 20",
)
_DOMAIN = (
    "node.zone",
    "node.zone",
    'node.labels["pool"]',
    'node.annotations["rack"]',
    "node.region",
    'node.labels["cap"]',
    'node.labels[?"cap"].orValue("none")',
    'node.zone + "/" + node.labels["pool"]',
    "node.name",
)
_VALUE = (
    ("100 * size(node.pods)", " range 0 .. 400"),
    ("size(node.pods)", " range rank"),
    ("size(node.pods)", " range minmax"),
    ('node.usage["cpu"]', " range 0 .. 1"),
    ('node.usage["memory"]', " range 1 .. 0"),
    ('node.free["memory"]', ' range "0Gi" .. "32Gi"'),
    ('node.free["cpu"]', " range minmax"),
    ('node.allocatable["memory"]', " range rank"),
    ('node.usage["nvidia.com/gpu"]', " range 0 .. 1"),
    ('int(node.labels["rank"])', " range 0 .. 5"),
    ('int(node.labels["rank"])', " range minmax"),
    ('10 * int(node.labels[?"rank"].orValue("3"))', ""),
    ('double(node.labels["rank"]) * 12.5', ""),
    ("60 / int(node.labels['rank'])", ""),
    ("node.age", ' range "0s" .. "3650d"'),
    ("node.age", " range rank"),
    ("pod.priority", " range -100 .. 1000"),
    ("node.pods.map(p, p.priority).sum()", " range 0 .. 1000"),
)
_BOUNDS = (
    "at most 0",
    "at most 1",
    "at most 1",
    "at most 2",
    "at most 2",
    "at most 3",
    "at least 1",
    "at least 2",
    "exactly 1",
    "exactly 2",
)
_PARTS = (
    "at most 40%",
    "at most 60%",
    "at most 75%",
    "at least 50%",
    "exactly 50%",
    "at most 100%",
    "at least 30%",
    "exactly 0%",
)


@dataclass(frozen=True)
class Expressions:
    """Expressions by the dice of one policy. `is_timely` ones may read the time."""

    dice: Dice
    is_timely: bool = False

    def of_pod(self) -> str:
        return self._joined(lambda: self.dice.choice(_POD), 0.3)

    def of_node(self) -> str:
        """A condition that may read the pod and the node."""
        return self._joined(self._node, 0.5)

    def of_labels(self) -> str:
        """A condition about what of a node seldom changes."""
        return self._joined(lambda: self.dice.choice(_LABELLED), 0.2)

    def of_peer(self) -> str:
        return self._joined(lambda: self.dice.choice(_PEER), 0.25)

    def of_victim(self) -> str:
        atoms = [atom.replace("peer.", "victim.") for atom in _PEER]
        return self._joined(lambda: self.dice.choice(atoms), 0.25)

    def of_victims(self) -> str:
        return self.dice.choice(
            (
                "size(victims) <= 1",
                "size(victims) < 3",
                "victims.all(v, v.priority < pod.priority)",
                'victims.exists(v, v.labels["app"] == "db")',
                'victims.map(v, v.requests["cpu"]).sum() <= "2"',
                'node.labels["cap"] == "spot"',
            )
        )

    def order_of_victims(self) -> str:
        return self.dice.choice(
            (
                "size(victims)",
                "victims.map(v, v.priority).max()",
                'victims.map(v, v.requests["memory"]).sum()',
                "100 / int(node.labels['rank'])",
            )
        )

    def domain(self) -> str:
        return self.dice.choice(_DOMAIN)

    def value(self) -> str:
        """A score's value with its range."""
        if self.dice.chance(0.4):
            return self.of_node()
        values = _VALUE if self.is_timely else [v for v in _VALUE if "age" not in v[0]]
        return "".join(self.dice.choice(values))

    def bound(self, *, parts: bool) -> str:
        """`parts` says that percentages are allowed."""
        return self.dice.choice((*_BOUNDS, *_PARTS) if parts else _BOUNDS)

    def _node(self) -> str:
        groups = [_LABELLED, _LABELLED, _STATED, _MEASURED, _POD]
        if self.is_timely:
            groups.append(_AGED)
        return self.dice.choice(self.dice.choice(groups))

    def _joined(self, atom: Callable[[], str], part: float) -> str:
        if not self.dice.chance(part):
            return atom()
        shape = self.dice.choice(
            (
                "{} && {}",
                "{} || {}",
                "{} || {} || {}",
                "!({}) || {}",
                "({}) ? ({}) : ({})",
                "[{}, {}].exists(x, x)",
            )
        )
        return "(" + shape.format(*(atom() for _ in range(3))) + ")"

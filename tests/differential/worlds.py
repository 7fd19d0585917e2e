"""Worlds: random namespaces, nodes and pods, and a pod to place, as JSON; one seed makes one world.

Names and values are few, so that they meet. Objects are such as an API server stores: what it
refuses (a label `-3`, a toleration without key or `Exists`) does not occur. What it lets through
does (`Gt` with a text), and so do values that older servers stored (`Gt` with a negative number).
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

from tests.support.builders import CREATED, Object, namespace, node

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
RACK = "rack"
CORDON = "node.kubernetes.io/unschedulable"
NAMESPACES = {"shop": {"team": "a"}, "bank": {"team": "b"}, "lab": {}}
# As values of node labels; `Gt` reads some of them as numbers.
_SIZES = ("0", "1", "5", "10", "007", "1_0", "1.5", "x", "", "9223372036854775808")
_WANTED = ("0", "1", "5", "10", "-10", "+1", "x", "9223372036854775807")
_APPS = ("web", "api", "db")
_ORDERED = ("Gt", "Lt")


@dataclass(frozen=True, slots=True)
class World:
    """A world; `named` says that every container has requests of cpu and of memory."""

    seed: int
    namespaces: list[Object]
    nodes: list[Object]
    pods: list[Object]
    pod: Object
    named: bool

    @property
    def objects(self) -> Object:
        """The world as the program that runs the plugins reads it."""
        return {
            "namespaces": self.namespaces,
            "nodes": self.nodes,
            "pods": self.pods,
            "pod": self.pod,
        }


def world(seed: int) -> World:
    """The world of a seed."""
    return _Maker(Random(seed)).world(seed)


class _Maker:
    """Makes one world with its dice."""

    def __init__(self, dice: Random) -> None:
        self._dice = dice
        self._named = dice.random() < 0.5
        self._labelled = dice.random() < 0.5

    def world(self, seed: int) -> World:
        dice = self._dice
        nodes = [self._node(f"n{i}") for i in range(dice.randint(1, 10))]
        names = [each["metadata"]["name"] for each in nodes]
        count = dice.choice((0, 3, 8, 20))
        pods = [self._other(f"p{i}", names) for i in range(count)]
        spaces = [namespace(name, labels) for name, labels in NAMESPACES.items()]
        return World(seed, spaces, nodes, pods, self._asked(names), self._named)

    def _chance(self, part: float) -> bool:
        return self._dice.random() < part

    def _some(self, values: tuple[Any, ...], most: int) -> list[Any]:
        return self._dice.sample(values, self._dice.randint(0, min(most, len(values))))

    # ---- nodes

    def _node(self, name: str) -> Object:
        dice = self._dice
        labels = {}
        for key, values in ((ZONE, "abc"), (RACK, "rs"), ("arch", ("arm64", "amd64"))):
            if self._labelled or self._chance(0.8):
                labels[key] = dice.choice(values)
        if self._chance(0.6):
            labels["size"] = dice.choice(_SIZES)
        resources = {}
        if self._chance(0.4):
            resources["example.com/card"] = dice.choice(("0", "1", "4"))
        if self._chance(0.3):
            resources["ephemeral-storage"] = dice.choice(("1Gi", "10Gi"))
        cordoned = self._chance(0.15)
        made = node(
            name,
            cpu=dice.choice(("1", "2", "3900m", "8")),
            memory=dice.choice(("1Gi", "4Gi", "7800Mi", "8000000k")),
            pods=dice.choice(("2", "4", "110")),
            resources=resources,
            labels=labels,
            unschedulable=cordoned,
            ready=not self._chance(0.1),
        )
        if not self._labelled and self._chance(0.1):
            del made["metadata"]["labels"][HOST]
        taints = [self._taint() for _ in range(dice.choice((0, 0, 0, 1, 2)))]
        if cordoned and self._chance(0.7):
            taints.append({"key": CORDON, "effect": "NoSchedule"})
        if taints:
            made["spec"]["taints"] = taints
        return made

    def _taint(self) -> Object:
        dice = self._dice
        effect = dice.choice(("NoSchedule", "PreferNoSchedule", "NoExecute"))
        taint = {"key": dice.choice(("dedicated", "gpu")), "effect": effect}
        value = dice.choice((None, "", "a", "7"))
        return taint if value is None else taint | {"value": value}

    # ---- pods

    def _pod(self, name: str) -> Object:
        dice = self._dice
        labels = {"app": dice.choice(_APPS)}
        if self._chance(0.5):
            labels["tier"] = dice.choice(("x", "y"))
        if self._chance(0.5):
            labels["pod-template-hash"] = dice.choice(("1", "2"))
        space = dice.choice(("shop", "shop", "bank", "lab"))
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": space,
                "uid": f"uid-{name}",
                "labels": labels,
                "creationTimestamp": CREATED,
            },
            "spec": self._containers(),
            "status": {"phase": "Pending"},
        }

    def _containers(self) -> Object:
        dice = self._dice
        spec: Object = {
            "containers": [self._container(f"c{i}") for i in range(dice.choice((1, 1, 2)))]
        }
        if self._chance(0.2):
            first = self._container("first")
            if self._chance(0.5):
                first["restartPolicy"] = "Always"
            spec["initContainers"] = [first]
        if self._chance(0.1):
            spec["overhead"] = {"cpu": "100m", "memory": "64Mi"}
        if self._chance(0.1):
            spec["resources"] = {"requests": {"cpu": "1500m", "memory": "1500Mi"}}
        return spec

    def _container(self, name: str) -> Object:
        dice = self._dice
        made: Object = {"name": name, "image": "registry.example/main:1"}
        requests = self._amounts()
        if self._chance(0.15):
            requests["example.com/card"] = dice.choice(("0", "1", "2"))
        if self._chance(0.1):
            requests["ephemeral-storage"] = "1Gi"
        if requests:
            made["resources"] = {"requests": requests}
        if self._chance(0.25):
            made["ports"] = [self._port() for _ in range(dice.randint(1, 2))]
        return made

    def _amounts(self) -> Object:
        dice = self._dice
        found = {}
        if self._named or self._chance(0.6):
            found["cpu"] = dice.choice(("0", "1m", "250m", "333m", "1", "2"))
        if self._named or self._chance(0.6):
            found["memory"] = dice.choice(("0", "1", "100M", "333Mi", "1Gi", "3Gi"))
        return found

    def _port(self) -> Object:
        dice = self._dice
        port: Object = {"containerPort": 80, "protocol": dice.choice(("TCP", "TCP", "UDP"))}
        if self._chance(0.8):
            port["hostPort"] = dice.choice((80, 443))
        if self._chance(0.4):
            port["hostIP"] = dice.choice(("0.0.0.0", "10.0.0.1", "10.0.0.2"))  # noqa: S104
        return port

    # ---- pods that are there

    def _other(self, name: str, nodes: list[str]) -> Object:
        made = self._pod(name)
        metadata, spec, status = made["metadata"], made["spec"], made["status"]
        if self._chance(0.1):
            return made  # pending
        spec["nodeName"] = self._dice.choice((*nodes, *nodes, "unknown"))
        status["phase"] = self._dice.choice(("Running",) * 6 + ("Pending", "Succeeded", "Failed"))
        if self._chance(0.2):
            metadata |= {"deletionTimestamp": CREATED, "deletionGracePeriodSeconds": 30}
        if self._chance(0.25):
            self._resize(spec, status)
        return made

    def _resize(self, spec: Object, status: Object) -> None:
        """Gives the pod the status of a resize in place: under way, deferred or infeasible."""
        for field in ("container", "initContainer"):
            status[f"{field}Statuses"] = [
                {
                    "name": container["name"],
                    "resources": {"requests": self._amounts()},
                    "allocatedResources": self._amounts(),
                }
                for container in spec.get(f"{field}s", ())
            ]
        if "resources" in spec and self._chance(0.5):
            status["resources"] = {"requests": self._amounts()}
            status["allocatedResources"] = self._amounts()
        if self._chance(0.5):
            reason = self._dice.choice(("Infeasible", "Deferred"))
            status["conditions"] = [
                {"type": "PodResizePending", "status": "True", "reason": reason}
            ]

    # ---- the pod to place

    def _asked(self, nodes: list[str]) -> Object:
        made = self._pod("asked")
        spec = made["spec"]
        if self._chance(0.3):
            spec["nodeSelector"] = {"arch": self._dice.choice(("arm64", "amd64"))}
        if tolerations := [self._toleration() for _ in range(self._dice.choice((0, 0, 1, 2)))]:
            spec["tolerations"] = tolerations
        affinity = {}
        if self._chance(0.5):
            affinity["nodeAffinity"] = self._node_affinity(nodes)
        if self._chance(0.5):
            terms = [self._pod_term(made) for _ in range(self._dice.choice((1, 1, 2)))]
            affinity["podAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
        if self._chance(0.5):
            terms = [self._pod_term(made) for _ in range(self._dice.choice((1, 1, 2)))]
            affinity["podAntiAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
        if affinity:
            spec["affinity"] = affinity
        if self._chance(0.7):
            keys = self._dice.sample((ZONE, RACK, HOST), self._dice.choice((1, 1, 2)))
            spec["topologySpreadConstraints"] = [self._constraint(key) for key in keys]
        return made

    def _toleration(self) -> Object:
        dice = self._dice
        found: Object = {}
        if self._chance(0.9):
            found["key"] = dice.choice(("dedicated", "gpu", CORDON))
            found["operator"] = dice.choice(("Exists", "Equal", "Equal", "Gt"))
            if self._chance(0.2):
                del found["operator"]
        else:
            found["operator"] = "Exists"
        if found.get("operator") != "Exists" and self._chance(0.8):
            found["value"] = dice.choice(("", "a", "7", "5"))
        if self._chance(0.5):
            found["effect"] = dice.choice(("NoSchedule", "NoExecute", "PreferNoSchedule"))
        return found

    def _node_affinity(self, nodes: list[str]) -> Object:
        terms = [self._node_term(nodes) for _ in range(self._dice.randint(1, 3))]
        found: Object = {}
        if self._chance(0.7):
            found["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
        if self._chance(0.5) or not found:
            found["preferredDuringSchedulingIgnoredDuringExecution"] = [
                {"weight": self._dice.randint(1, 100), "preference": term}
                for term in map(self._node_term, [nodes] * self._dice.randint(1, 3))
                if _is_valid_preference(term)
            ]
        return found

    def _node_term(self, nodes: list[str]) -> Object:
        dice = self._dice
        term: Object = {}
        if self._chance(0.15):
            operator = dice.choice(("In", "NotIn"))
            values = [dice.choice(nodes)]
            term["matchFields"] = [{"key": "metadata.name", "operator": operator, "values": values}]
        if self._chance(0.9) or not term:
            count = dice.choice((1, 1, 2))
            term["matchExpressions"] = [self._requirement() for _ in range(count)]
        return term

    def _requirement(self) -> Object:
        dice = self._dice
        key, values = dice.choice(
            (("arch", ("arm64", "amd64", "")), (ZONE, tuple("abcd")), ("size", _SIZES))
        )
        operator = dice.choice(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))
        found: Object = {"key": key, "operator": operator}
        if operator in ("In", "NotIn"):
            found["values"] = dice.sample(values, dice.randint(1, 2))
        elif operator in _ORDERED:
            found |= {"key": "size", "values": [dice.choice(_WANTED)]}
        return found

    def _constraint(self, key: str) -> Object:
        dice = self._dice
        found: Object = {
            "maxSkew": dice.choice((1, 1, 2)),
            "topologyKey": key,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": self._selector(),
        }
        if self._chance(0.3):
            found["minDomains"] = dice.randint(1, 4)
        if self._chance(0.3):
            found["matchLabelKeys"] = ["pod-template-hash"]
        if self._chance(0.3):
            policy = dice.choice((("Honor", "Honor"), ("Ignore", "Ignore"), ("Honor", "Ignore")))
            found["nodeAffinityPolicy"], found["nodeTaintsPolicy"] = policy
        return found

    def _selector(self) -> Object:
        dice = self._dice
        found: Object = {}
        if self._chance(0.7):
            found["matchLabels"] = {"app": dice.choice(_APPS)}
        if self._chance(0.4):
            operator = dice.choice(("In", "NotIn", "Exists", "DoesNotExist"))
            requirement: Object = {"key": "tier", "operator": operator}
            if operator in ("In", "NotIn"):
                requirement["values"] = dice.sample(("x", "y", "z"), dice.randint(1, 2))
            found["matchExpressions"] = [requirement]
        return found

    def _pod_term(self, asked: Object) -> Object:
        """A term of affinity between pods, with `matchLabelKeys` as the API server stores it."""
        dice = self._dice
        selector = self._selector()
        found: Object = {"topologyKey": dice.choice((ZONE, RACK, HOST)), "labelSelector": selector}
        labels = asked["metadata"]["labels"]
        if self._chance(0.2) and "pod-template-hash" in labels:
            key = "pod-template-hash"
            found["matchLabelKeys"] = [key]
            requirement = {"key": key, "operator": "In", "values": [labels[key]]}
            selector.setdefault("matchExpressions", []).append(requirement)
        match dice.randint(0, 5):
            case 0:
                found["namespaceSelector"] = {}
            case 1:
                found["namespaceSelector"] = {"matchLabels": {"team": dice.choice("ab")}}
            case 2:
                found["namespaces"] = dice.sample(("shop", "bank"), dice.randint(1, 2))
            case _:
                pass
        return found


def _is_valid_preference(term: Object) -> bool:
    """Whether kube-scheduler can read a preferred term: if it cannot, it places no pod at all."""
    values = (r["values"][0] for r in term.get("matchExpressions", ()) if r["operator"] in _ORDERED)
    return all(value.isdigit() for value in values)

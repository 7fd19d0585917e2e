"""Random manifests of pods and nodes, stored by a real API server and by us: the same amounts."""

from __future__ import annotations

import json
import os
from random import Random
from typing import Any

import pytest

from engine.objects.workload_pods import as_stored
from tests.e2e.api import Api, ApiError
from tests.e2e.cluster import Cluster
from tests.e2e.conftest import cluster, plane, programs
from tests.e2e.control_plane import ControlPlane
from tests.e2e.manifests import priority_class
from tests.support.engines import CODEC

__all__ = ["cluster", "plane", "programs"]

pytestmark = pytest.mark.e2e

PODS = int(os.environ.get("PODS") or 300)
SEED = int(os.environ.get("SEED") or 1)
CLASSES = [priority_class("low", 10), priority_class("high", 1000)]
VALUES = {
    "cpu": ("1", "500m", "2", "0.1"),
    "memory": ("1Gi", "64Mi", "1G"),
    "hugepages-2Mi": ("4Mi",),
    "example.com/card": ("1",),
    "ephemeral-storage": ("1Gi",),
}


IMAGES = (
    *("example/main", "example/main:1", "example/main:latest", "host:5000/main"),
    *(f"example/main{tag}@sha256:{'a' * 64}" for tag in ("", ":1", ":latest")),
)
TOLERATIONS = (
    {"operator": "Exists"},
    {"key": "node.kubernetes.io/not-ready", "operator": "Exists"},
    {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoSchedule"},
    {"key": "a", "value": "b", "effect": "NoExecute"},
)


def amounts(dice: Random, names: tuple[str, ...], chance: float = 0.4) -> dict[str, str]:
    return {name: dice.choice(VALUES[name]) for name in names if dice.random() < chance}


def resources(dice: Random, names: tuple[str, ...]) -> dict[str, Any]:
    """Limits, requests, both, or neither; the API server refuses some."""
    found: dict[str, Any] = {}
    if dice.random() < 0.7:
        found["limits"] = amounts(dice, names)
    if dice.random() < 0.4:
        # Equal ones are always valid.
        both = found.get("limits") or amounts(dice, ("cpu", "memory"))
        found["requests"] = {name: each for name, each in both.items() if dice.random() < 0.6}
    return found


def manifest(dice: Random, name: str, where: str) -> dict[str, Any]:
    def containers(prefix: str, most: int) -> list[dict[str, Any]]:
        found = []
        for number in range(dice.randint(1 if prefix == "c" else 0, most)):
            made: dict[str, Any] = {"name": f"{prefix}{number}", "image": dice.choice(IMAGES)}
            made["resources"] = resources(dice, tuple(VALUES))
            if dice.random() < 0.4:
                ports = [{"containerPort": 8000 + dice.randrange(50)}]
                made["ports"] = ports
            if prefix == "i" and dice.random() < 0.5:
                made["restartPolicy"] = "Always"
            found.append(made)
        return found

    spec: dict[str, Any] = {"containers": containers("c", 3)}
    if its := containers("i", 2):
        spec["initContainers"] = its
    if dice.random() < 0.5:
        spec["resources"] = resources(dice, ("cpu", "memory", "hugepages-2Mi"))
    if dice.random() < 0.4:
        spec["hostNetwork"] = True
    if dice.random() < 0.5:
        spec["priorityClassName"] = dice.choice(["low", "high"])
    if dice.random() < 0.5:
        spec["tolerations"] = dice.sample(TOLERATIONS, dice.randint(0, 3))
    if dice.random() < 0.3:
        spec["restartPolicy"] = dice.choice(["Always", "Never", "OnFailure"])
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": where},
        "spec": spec,
    }


# The tests have no service accounts, and amounts are written in several ways.
_APART = {"serviceAccountName", "resources", "containers", "initContainers"}


def _container(found: dict[str, Any]) -> dict[str, Any]:
    return {key: each for key, each in found.items() if key != "resources"}


def seen(document: bytes) -> dict[str, Any]:
    """What counts of a pod."""
    pod, peer, written = CODEC.pod(document), CODEC.peer(document), json.loads(document)
    spec = written["spec"]
    return {
        "spec": {key: each for key, each in spec.items() if key not in _APART},
        "containers": [*map(_container, spec["containers"])],
        "initContainers": [*map(_container, spec.get("initContainers", ()))],
        "status": written["status"],
        "requests": {r: each.nanos for r, each in pod.requests.items() if each.nanos},
        "limits": {r: each.nanos for r, each in pod.limits.items() if each.nanos},
        "peer": {r: each.nanos for r, each in peer.requests.items() if each.nanos},
        "ports": sorted((each.hostPort, each.protocol) for each in pod.hostPorts),
        "priority": pod.priority,
    }


def test_pods_are_as_the_api_server_stores_them(plane: ControlPlane, cluster: Cluster) -> None:
    cluster.apply(*CLASSES)
    api, dice, where = Api(plane), Random(SEED), cluster.namespace
    compared = refused = 0
    for number in range(PODS):
        made = manifest(dice, f"p{number}", where)
        try:
            wanted = api.request("POST", f"/api/v1/namespaces/{where}/pods", made)
        except ApiError:
            refused += 1
            continue
        files = [json.dumps(each).encode() for each in (*CLASSES, made)]
        found = as_stored(files)[-1]
        assert seen(found) == seen(json.dumps(wanted).encode()), json.dumps(made)
        compared += 1
    assert compared > PODS / 5, (compared, refused)


def test_nodes_are_as_the_api_server_stores_them(plane: ControlPlane, cluster: Cluster) -> None:
    del cluster
    api, dice = Api(plane), Random(SEED)
    for number in range(20):
        status = {"capacity": amounts(dice, tuple(VALUES), 0.8)}
        if dice.random() < 0.3:
            status["allocatable"] = amounts(dice, ("cpu", "memory"))
        made = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"d{number}"}}
        made["status"] = status
        wanted = api.request("POST", "/api/v1/nodes", made)
        (found,) = as_stored([json.dumps(made).encode()])
        here, there = CODEC.node(found), CODEC.node(json.dumps(wanted).encode())
        assert here.allocatable == there.allocatable, made

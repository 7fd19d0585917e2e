"""Workloads under the manifests of the placement-policy plugins, where their tests have them.

The scenarios are those of test/e2e and test/integration of Azure's
placement-policy-scheduler-plugins, with the manifests of its `examples`: two nodes that are wanted,
one that is not, and pods with `app: nginx`. Each has a namespace of its own, and all of them run at
once.
"""

import secrets
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.control_plane import DEPLOYMENTS, ControlPlane, controller_manager
from tests.e2e.kube_scheduler import extender, kube_scheduler
from tests.e2e.kubelets import kubelets
from tests.e2e.manifests import controller, node, pod
from tests.e2e.placet import Placet
from tests.e2e.policies import define, wait_ready
from tests.e2e.process import until
from tests.e2e.stage import Stage

pytestmark = pytest.mark.e2e

WANT = {"node": "want"}
UNSELECTED = "else"


@dataclass(frozen=True, slots=True)
class Scenario:
    """A policy and workloads, and how many of their pods are on wanted nodes and elsewhere."""

    mode: str
    action: str
    size: str
    workloads: tuple[tuple[str, int], ...]
    expected: tuple[int, int]

    def policy(self, namespace: str) -> dict[str, Any]:
        """The object as the plugins' users write it."""
        return {
            "apiVersion": "placement-policy.scheduling.x-k8s.io/v1alpha1",
            "kind": "PlacementPolicy",
            "metadata": {"name": "nginx", "namespace": namespace},
            "spec": {
                "weight": 100,
                "enforcementMode": self.mode,
                "podSelector": {"matchLabels": {"app": "nginx"}},
                "nodeSelector": {"matchLabels": WANT},
                "policy": {"action": self.action, "targetSize": self.size},
            },
        }


SCENARIOS = {
    "TestDifferentDeploymentObjects deployment": Scenario(
        "Strict", "Must", "40%", (("Deployment", 1),), (0, 1)
    ),
    "TestDifferentDeploymentObjects statefulset": Scenario(
        "Strict", "Must", "40%", (("StatefulSet", 1),), (0, 1)
    ),
    "TestMustStrictDeployment": Scenario("Strict", "Must", "40%", (("Deployment", 10),), (4, 6)),
    "TestMustBestEffortDeployment": Scenario(
        "BestEffort", "Must", "40%", (("Deployment", 3),), (1, 2)
    ),
    # The plugins put this pod on a wanted node: they round what stays off, 40 % of one pod, down.
    "TestMustNotStrictDeployment": Scenario(
        "Strict", "MustNot", "40%", (("Deployment", 1),), (0, 1)
    ),
    "TestConcurrentDeployments deployment": Scenario(
        "Strict", "Must", "40%", (("Deployment", 5), ("Deployment", 5)), (4, 6)
    ),
    "TestConcurrentDeployments statefulset": Scenario(
        "Strict", "Must", "40%", (("StatefulSet", 5),), (2, 3)
    ),
    "TestPlacementPolicyPlugins strict must": Scenario(
        "Strict", "Must", "80%", (("Deployment", 5),), (4, 1)
    ),
    "TestPlacementPolicyPlugins strict must not": Scenario(
        "Strict", "MustNot", "80%", (("Deployment", 5),), (1, 4)
    ),
}


@pytest.fixture
def running(
    plane: ControlPlane, cluster: Cluster, served: Stage, tmp_path: Path
) -> Iterator[Placet]:
    """Run Placet, kube-scheduler and the controllers of workloads for the three nodes."""
    define(cluster)
    cluster.create_nodes([node("w1", WANT), node("w2", WANT), node("w3", {"node": "unwant"})])
    server = served.watch_objects()
    address = f"http://127.0.0.1:{server.port}"
    # The weight of `placet scheduler-config`: with less, kube-scheduler rather spreads pods.
    entry = {**extender(address, node_cache_capable=True), "weight": 10}
    with controller_manager(plane, tmp_path, (*DEPLOYMENTS, "statefulset-controller")):
        server.wait_ready()
        server.wait_leading()
        with kube_scheduler(plane, tmp_path, [entry]):
            yield server


def workload(cluster: Cluster, kind: str, name: str, replicas: int, **spec: object) -> None:
    """Create a workload of pods that the policy selects."""
    made = controller(kind, name, cluster.namespace)
    labels = {"app": "nginx"}
    template = pod("", cluster.namespace, labels, cpu="1m", **spec)
    made["spec"] = {
        "replicas": replicas,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": template["spec"]},
    }
    cluster.create(made)


def grow(cluster: Cluster, server: Placet, name: str, replicas: int) -> None:
    """Create a Deployment pod after pod, each when the server knows where the last one is.

    A preference counts a pod on its way where it probably ends, and only a bound one for certain.
    """
    workload(cluster, "Deployment", name, 1)
    for number in range(1, replicas + 1):
        cluster.kubectl(
            "scale", "deployment", name, f"--replicas={number}", "-n", cluster.namespace
        )
        until(partial(_are_placed, cluster, number), 60.0, lambda: f"{sides(cluster)} pods")
        assert server.compare()["count"] == 0


def _are_placed(cluster: Cluster, number: int) -> bool:
    return sum(sides(cluster)) == number


def sides(cluster: Cluster) -> tuple[int, int]:
    """How many of the pods that the policy selects are on wanted nodes, and how many elsewhere."""
    where = [node for name, node in cluster.placements().items() if name != UNSELECTED]
    wanted = sum(each in ("w1", "w2") for each in where)
    return wanted, len(where) - wanted


def test_workloads_under_manifests_of_the_plugins(
    plane: ControlPlane, cluster: Cluster, running: Placet
) -> None:
    """What their tests assert, and the exact numbers, and then that the policy is deleted."""
    with ExitStack() as stack:
        spaces = {name: Cluster(plane, f"e2e-{secrets.token_hex(4)}") for name in SCENARIOS}
        for name, space in spaces.items():
            stack.callback(space.clear)
            stack.enter_context(kubelets(plane, space.namespace, lambda _: None))
            space.apply(SCENARIOS[name].policy(space.namespace))
        # Another policy, whose pods may only be on wanted nodes anyhow.
        cluster.apply(SCENARIOS["TestMustStrictDeployment"].policy(cluster.namespace))
        for space in (*spaces.values(), cluster):
            wait_ready(space, "nginx", "True")
        for name, space in spaces.items():
            for number, (kind, replicas) in enumerate(SCENARIOS[name].workloads):
                if SCENARIOS[name].mode == "BestEffort":
                    grow(space, running, f"nginx-{number}", replicas)
                else:
                    workload(space, kind, f"nginx-{number}", replicas)
            space.create_pods([pod(UNSELECTED, space.namespace, {"app": UNSELECTED}, cpu="1m")])
        workload(cluster, "Deployment", "nginx", 10, nodeSelector=WANT)

        def others() -> dict[str, tuple[int, int]]:
            """What is not as expected."""
            found = {name: sides(space) for name, space in spaces.items()}
            return {name: now for name, now in found.items() if now != SCENARIOS[name].expected}

        until(lambda: not others(), 60.0, lambda: f"sides as in SCENARIOS, but {others()}")
        assert all(UNSELECTED in space.placements() for space in spaces.values())

        until(lambda: sides(cluster) == (4, 0), 30.0, lambda: f"(4, 0), not {sides(cluster)}")
        cluster.kubectl("delete", "placementpolicy", "nginx", "-n", cluster.namespace)
        # They are woken at once, not after kube-scheduler's five minutes.
        until(lambda: sides(cluster) == (10, 0), 30.0, lambda: f"(10, 0), not {sides(cluster)}")

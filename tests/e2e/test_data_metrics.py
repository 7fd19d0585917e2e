"""Load of nodes from metrics.k8s.io, served by an aggregated API server, as metrics-server is."""

import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.api import Api
from tests.e2e.cluster import Cluster
from tests.e2e.control_plane import ControlPlane
from tests.e2e.kube_scheduler import extender, kube_scheduler
from tests.e2e.manifests import node, pod
from tests.e2e.placet import placet
from tests.e2e.process import until
from tests.e2e.recorder import answering_tls
from tests.e2e.test_data import allow, offered

pytestmark = pytest.mark.e2e

GROUP, VERSION = "metrics.k8s.io", "v1beta1"
API_SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
SECONDS = 60.0
POLICY = """\
cluster policy hot {{
  for pods where pod.metadata.namespace == "{namespace}"
  data "load" {{ from metrics every 1s for at most 20s }}
  filter "not hot" {{ require data.load[node.name].cpu < "6" missing pass }}
}}
"""


class Metrics:
    """What the aggregated API server says of nodes: samples of `at`, or `age` seconds old."""

    def __init__(self) -> None:
        self.cpu: dict[str, str] = {}
        self.age = 0.0
        self.at: datetime | None = None

    def answer(self, path: str) -> dict[str, Any]:
        version = f"{GROUP}/{VERSION}"
        if not path.startswith(f"/apis/{version}/nodes"):
            names = {"name": "nodes", "namespaced": False, "kind": "NodeMetrics", "verbs": ["list"]}
            return {"kind": "APIResourceList", "groupVersion": version, "resources": [names]}
        time = self.at or datetime.now(UTC) - timedelta(seconds=self.age)
        items = [
            {
                "metadata": {"name": name},
                "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ"),
                "window": "10s",
                "usage": {"cpu": cpu, "memory": "1Gi"},
            }
            for name, cpu in self.cpu.items()
        ]
        return {"kind": "NodeMetricsList", "apiVersion": version, "metadata": {}, "items": items}


@contextmanager
def aggregated(plane: ControlPlane, cluster: Cluster, metrics: Metrics) -> Iterator[None]:
    """The server behind the API server, for as long as the block runs."""

    def answer(path: str) -> tuple[int, str, bytes]:
        return 200, "application/json", json.dumps(metrics.answer(path)).encode()

    with answering_tls("localhost", answer) as port, registered(plane, cluster, port):
        yield


@contextmanager
def registered(plane: ControlPlane, cluster: Cluster, port: int) -> Iterator[None]:
    """Whoever listens on a port is behind the API server, for as long as the block runs."""
    api, name = Api(plane), f"{VERSION}.{GROUP}"
    service = {"name": "metrics", "namespace": cluster.namespace}
    spec = {"type": "ExternalName", "externalName": "localhost"}
    path = f"/api/v1/namespaces/{cluster.namespace}/services"
    api.request("POST", path, {"metadata": service, "spec": spec})
    reached = {**service, "port": port}
    entry = {
        "metadata": {"name": name},
        "spec": {
            "group": GROUP,
            "version": VERSION,
            "service": reached,
            "insecureSkipTLSVerify": True,
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
        },
    }
    api.request("POST", API_SERVICES, entry)
    try:
        yield
    finally:
        api.request("DELETE", f"{API_SERVICES}/{name}")


def test_the_load_of_nodes_is_that_of_the_metrics_api(
    plane: ControlPlane, cluster: Cluster, tmp_path: Path
) -> None:
    """Another sample changes who is offered; one that gets old is missing."""
    namespace, names = cluster.namespace, ["n1", "n2"]
    cluster.create_nodes(node(name) for name in names)
    allow(
        plane,
        f"{namespace}-metrics",
        [{"apiGroups": [GROUP], "resources": ["nodes"], "verbs": ["get", "list"]}],
    )
    policies = tmp_path / "hot.policy"
    policies.write_text(POLICY.format(namespace=namespace))
    metrics = Metrics()
    metrics.cpu = {"n1": "7", "n2": "500m"}
    with (
        aggregated(plane, cluster, metrics),
        placet(tmp_path, policies, f"--kubeconfig={plane.placet_kubeconfig}") as server,
    ):
        server.wait_ready()

        def become(*wanted: str) -> None:
            until(
                lambda: offered(server, namespace, names) == [*wanted],
                SECONDS,
                lambda: server.get("/readyz?verbose")[1] + server.process.tail(),
            )

        become("n2")
        cluster.create_pods([pod("web", namespace)])
        words = ["explain", "web", "-n", namespace, "--kubeconfig", str(plane.admin_kubeconfig)]
        command = [sys.executable, "-m", "cli", *words, "--policies", str(policies)]
        told = subprocess.run(command, capture_output=True, text=True, check=False)
        assert re.search(r"n1 +fails +hot: not hot", told.stdout), told
        assert re.search(r"n2 +passes", told.stdout), told
        assert "has no rows" not in told.stderr
        metrics.cpu = {"n1": "100m", "n2": "6500m"}
        become("n1")
        metrics.age = 3600.0
        become("n1", "n2")
        metrics.age = 0.0
        become("n1")


# ---- a burst

NODES, PODS = 10, 200
BURST = """\
cluster policy {name} {{
  for pods where pod.metadata.namespace == "{namespace}" && pod.labels["rule"] == "{name}"
  data "load" {{ from metrics every 1s for at most 10m }}
  score "load" weight 1 {{ value {value} / node.allocatable["cpu"] range 0.6 .. 0.1 missing 50 }}
}}
"""
VALUES = {
    "sample": "data.load[node.name].cpu",
    "recent": '(data.load[node.name].cpu + node.since(data.load[node.name].time)["cpu"])',
}


def test_a_burst_that_is_younger_than_the_sample(
    plane: ControlPlane, cluster: Cluster, tmp_path: Path
) -> None:
    """Of ten nodes three were less loaded a minute ago. By that alone they get all pods.

    kube-scheduler has ten steps for a score, here of 1.6 CPUs each, which are three pods. Level
    ground is 23 pods on each of the three. On a busy machine, kube-scheduler is some pods ahead of
    the bindings that Placet has seen, so there may be more.
    """
    namespace, names = cluster.namespace, [f"n{number}" for number in range(NODES)]
    cluster.create_nodes(node(name, cpu="32") for name in names)
    rights = {"apiGroups": [GROUP], "resources": ["nodes"], "verbs": ["get", "list"]}
    allow(plane, f"{namespace}-metrics", [rights])
    policies, metrics = tmp_path / "burst.policy", Metrics()
    policies.write_text(
        "".join(BURST.format(name=n, namespace=namespace, value=v) for n, v in VALUES.items())
    )
    metrics.cpu = {name: "4" if name in names[:3] else "6" for name in names}
    metrics.at = datetime.now(UTC) - timedelta(seconds=60)
    with (
        aggregated(plane, cluster, metrics),
        placet(tmp_path, policies, f"--kubeconfig={plane.placet_kubeconfig}") as server,
    ):
        server.wait_ready()
        until(
            lambda: "[+]data/load ok" in server.get("/readyz?verbose")[1],
            SECONDS,
            lambda: server.get("/readyz?verbose")[1],
        )
        address = f"http://127.0.0.1:{server.port}"
        entry = {**extender(address, node_cache_capable=True), "weight": 100}
        with kube_scheduler(plane, tmp_path, [entry], 100):
            most = {}
            for rule in VALUES:
                pods = [f"{rule}-{number}" for number in range(PODS)]
                cluster.create_pods(
                    pod(name, namespace, {"rule": rule}, cpu="500m") for name in pods
                )
                placed = cluster.wait_placed(pods, 3 * SECONDS)
                most[rule] = max(Counter(placed.values()).values())
                cluster.delete_pods()
    fair = PODS / NODES
    assert most["sample"] > 2 * fair
    assert most["recent"] <= 2 * fair

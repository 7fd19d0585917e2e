"""Load of nodes from a real metrics-server, which scrapes a server in the place of kubelets."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.api import Api
from tests.e2e.cluster import Cluster
from tests.e2e.control_plane import ControlPlane
from tests.e2e.installation import prometheus
from tests.e2e.manifests import node, pod
from tests.e2e.placet import placet
from tests.e2e.process import built_tool, free_port, running, until
from tests.e2e.recorder import answering_tls
from tests.e2e.service_account import GROUP
from tests.e2e.test_data import allow
from tests.e2e.test_data_metrics import POLICY, registered

pytestmark = pytest.mark.e2e

NAMES = ["n1", "n2"]
# metrics-server scrapes every ten seconds at most, and needs two samples of a counter.
SECONDS = 120.0
RESOURCE_METRICS = """\
# TYPE node_cpu_usage_seconds_total counter
node_cpu_usage_seconds_total {cpu:.3f} {at}
# TYPE node_memory_working_set_bytes gauge
node_memory_working_set_bytes 1.073741824e+09 {at}
"""


class Kubelet:
    """Says over TLS what its node has used since it was made: so many CPUs, all the time."""

    def __init__(self, cpus: float) -> None:
        self.cpus = cpus
        self._used, self._at = 1000.0, time.time()

    def text(self) -> str:
        now = time.time()
        self._used += self.cpus * (now - self._at)
        self._at = now
        return RESOURCE_METRICS.format(cpu=self._used, at=int(now * 1000))


@contextmanager
def served(kubelet: Kubelet) -> Iterator[int]:
    """The port of a kubelet, as long as the block runs."""

    def answer(path: str) -> tuple[int, str, bytes]:
        status = 200 if path == "/metrics/resource" else 404
        return status, "text/plain; version=0.0.4", kubelet.text().encode()

    with answering_tls("127.0.0.1", answer) as port:
        yield port


def reached(name: str, port: int) -> dict[str, Any]:
    """A node whose kubelet has a port."""
    made = node(name)
    made["status"]["addresses"] = [{"type": "InternalIP", "address": "127.0.0.1"}]
    made["status"]["daemonEndpoints"] = {"kubeletEndpoint": {"Port": port}}
    return made


def test_metrics_server(
    plane: ControlPlane, cluster: Cluster, pytestconfig: pytest.Config, tmp_path: Path
) -> None:
    program = built_tool(pytestconfig, "metrics-server")
    namespace, port = cluster.namespace, free_port()
    nodes = {"apiGroups": ["metrics.k8s.io"], "resources": ["nodes"], "verbs": ["get", "list"]}
    found = {"nonResourceURLs": ["/apis/*"], "verbs": ["get"]}
    allow(plane, f"{namespace}-metrics", [nodes, found])
    # The API server has no certificate for its requests to others, so these are of nobody.
    anonymous = {"kind": "User", "name": "system:anonymous", "apiGroup": GROUP}
    role = {"kind": "ClusterRole", "apiGroup": GROUP, "name": f"{namespace}-metrics"}
    binding = {"metadata": {"name": f"{namespace}-anonymous"}, "subjects": [anonymous]}
    path = f"/apis/{GROUP}/v1/clusterrolebindings"
    Api(plane).request("POST", path, {**binding, "roleRef": role})
    policies = tmp_path / "hot.policy"
    policies.write_text(POLICY.format(namespace=namespace).replace("after 20s", "after 60s"))
    idle, busy = Kubelet(0.5), Kubelet(7.0)
    admin = str(plane.admin_kubeconfig)
    command: list[str | Path] = [
        program,
        f"--secure-port={port}",
        f"--cert-dir={tmp_path}",
        f"--kubeconfig={admin}",
        f"--authentication-kubeconfig={admin}",
        f"--authorization-kubeconfig={admin}",
        "--authentication-tolerate-lookup-failure",
        "--kubelet-insecure-tls",
        "--kubelet-use-node-status-port",
        "--kubelet-preferred-address-types=InternalIP",
        "--metric-resolution=10s",
        "--kubelet-request-timeout=5s",
    ]
    with served(idle) as first, served(busy) as second:
        cluster.create_nodes([reached("n1", first), reached("n2", second)])
        with (
            running(command, tmp_path / "metrics-server.log") as metrics_server,
            registered(plane, cluster, port),
            placet(tmp_path, policies, f"--kubeconfig={plane.placet_kubeconfig}") as server,
        ):
            server.wait_ready()

            def becomes(*wanted: str) -> None:
                asked = pod("web", namespace)
                until(
                    lambda: (server.filter(asked, NAMES)["NodeNames"] or []) == [*wanted],
                    SECONDS,
                    lambda: f"{server.get('/readyz?verbose')[1]} {metrics_server.tail()}",
                )

            becomes("n1")
            idle.cpus, busy.cpus = 7.0, 0.5
            becomes("n2")


# ---- A table of data from a real Prometheus


PROMETHEUS_SECONDS = 60.0
POWER = """\
cluster policy power {{
  for pods where true
  data "power" {{
    from prometheus "http://127.0.0.1:{port}" query 'label_replace(up, "node", "n1", "", "")'
    by "node" every 1s
  }}
  filter "up" {{ require data.power[node.name].value > 0.5 missing fail }}
}}
"""


def test_prometheus(
    plane: ControlPlane, cluster: Cluster, pytestconfig: pytest.Config, tmp_path: Path
) -> None:
    program = built_tool(pytestconfig, "prometheus")
    cluster.create_nodes([node("n1"), node("n2")])
    policies, rules = tmp_path / "power.policy", tmp_path / "rules.yaml"
    policies.write_text("cluster policy power { for pods where false }")
    made = pod("web", cluster.namespace)
    rules.write_text(json.dumps({"groups": []}))
    with placet(tmp_path, policies, f"--kubeconfig={plane.placet_kubeconfig}") as server:
        server.wait_ready()
        with prometheus(program, tmp_path, server.port, rules) as scraper:
            policies.write_text(POWER.format(port=scraper.port))
            until(
                lambda: server.filter(made, ["n1", "n2"])["NodeNames"] == ["n1"],
                PROMETHEUS_SECONDS,
                lambda: server.get("/readyz?verbose")[1] + server.process.tail(),
            )

"""A table of data from a real Prometheus."""

import json
from pathlib import Path

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.control_plane import ControlPlane
from tests.e2e.manifests import node, pod
from tests.e2e.placet import placet
from tests.e2e.programs import built_tool
from tests.e2e.prometheus import prometheus
from tests.e2e.waiting import until

pytestmark = pytest.mark.e2e

SECONDS = 60.0
POWER = """\
cluster policy power {{
  for pods where true
  data "power" {{
    from prometheus "http://127.0.0.1:{port}" query 'label_replace(up, "node", "n1", "", "")'
    key "node" every 1s
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
                SECONDS,
                lambda: server.get("/readyz?verbose")[1] + server.process.tail(),
            )

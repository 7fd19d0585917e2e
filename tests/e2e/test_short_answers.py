"""Pods spread over equal nodes as they do where every host is in the answers to prioritize."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.control_plane import ControlPlane
from tests.e2e.kube_scheduler import extender, started_kube_scheduler
from tests.e2e.manifests import node, pod
from tests.e2e.placet import placet
from tests.e2e.recorder import recorder
from tests.e2e.stage import GOVERNED

pytestmark = pytest.mark.e2e

NODES = 200
PODS = 2_000
# The equal hosts that an answer lists.
HANDFUL = 32
PLACED_SECONDS = 120.0
POLICY = """policy web in namespace "{namespace}" {{
  for pods where pod.labels["app"] == "web"
  score "equal" weight 1 {{ value node.labels["zone"] == pod.name missing 70 }}
}}
"""
# Our scores alone decide: those of kube-scheduler's own plugins would spread pods by themselves.
SCORES_OF_OURS = {
    "percentageOfNodesToScore": 100,
    "profiles": [{"plugins": {"score": {"disabled": [{"name": "*"}]}}}],
}


def test_equal_nodes_are_filled_evenly(
    plane: ControlPlane, cluster: Cluster, tmp_path: Path
) -> None:
    cluster.create_nodes(node(f"n{number}", cpu="32") for number in range(NODES))
    short = placed(plane, cluster, tmp_path / "short", "cli", hosts=HANDFUL)
    full = placed(plane, cluster, tmp_path / "full", "tests.support.full_answers", hosts=NODES)
    assert max(short.values()) <= 1.5 * max(full.values())


def placed(
    plane: ControlPlane, cluster: Cluster, folder: Path, program: str, hosts: int
) -> Counter[str]:
    """The number of pods by node; every answer had so many hosts, none above the others."""
    folder.mkdir()
    policies = folder / "web.policy"
    policies.write_text(POLICY.format(namespace=cluster.namespace))
    names = [f"{folder.name}-{number}" for number in range(PODS)]
    cluster.create_pods(pod(name, cluster.namespace, GOVERNED) for name in names)
    live = f"--kubeconfig={plane.placet_kubeconfig}"
    with placet(folder, policies, live, "--lease=none", program=program) as server:
        server.wait_ready()
        with recorder(server.port) as calls:
            entry = extender(calls.address, node_cache_capable=True)
            with started_kube_scheduler(plane, folder, [entry], SCORES_OF_OURS):
                nodes = cluster.wait_placed(names, PLACED_SECONDS)
            answers = [call.answer for call in calls.calls("prioritize")]
    cluster.delete_pods()
    assert len(answers) >= PODS
    assert {len(answer) for answer in answers} == {hosts}
    assert all(len({host["Score"] for host in answer}) == 1 for answer in answers)
    assert calls.failures() == []
    return Counter(nodes.values())

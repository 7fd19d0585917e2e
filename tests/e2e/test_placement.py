"""Placement of pods: filters confine them, scores draw them, in names and in full-node mode."""

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.manifests import node, pod
from tests.e2e.stage import GOVERNED, Mode, Stage

pytestmark = pytest.mark.e2e

SSD_ONLY = """
  filter "ssd only" {
    require node.labels["disk"] == "ssd"
    message "needs an ssd"
  }
"""
PREFER_ARM = """
  score "prefer arm" weight 100 { value node.labels["kubernetes.io/arch"] == "arm64" missing 0 }
"""
PODS = [f"web-{number}" for number in range(6)]
MIXED = [
    node(f"n{number}", {"kubernetes.io/arch": "arm64" if number < 2 else "amd64"})
    for number in range(8)
]
ARM = {"n0", "n1"}


@pytest.mark.parametrize("mode", ["names", "full"])
def test_filter_confines_pods_to_labelled_nodes(
    cluster: Cluster, served: Stage, mode: Mode
) -> None:
    """Twelve empty node, three of them with an SSD: kube-scheduler alone would use more."""
    nodes = [node(f"n{number}", {"disk": "ssd" if number < 3 else "hdd"}) for number in range(12)]
    cluster.create_nodes(nodes)
    calls = served.start(SSD_ONLY, mode)

    cluster.create_pods(pod(name, cluster.namespace, GOVERNED) for name in PODS)

    assert set(cluster.wait_placed(PODS).values()) <= {"n0", "n1", "n2"}
    assert {call.nodes for call in calls.calls("filter")} == {len(nodes)}
    # Three nodes are left after the filter, so kube-scheduler has a choice to ask about.
    assert {call.pod for call in calls.calls("prioritize")} == set(PODS)
    assert calls.failures() == []


@pytest.mark.parametrize("mode", ["names", "full"])
def test_rejection_says_why_on_the_pod(cluster: Cluster, served: Stage, mode: Mode) -> None:
    """Users read the policy's message where kube-scheduler puts it: the pod's condition."""
    cluster.create_nodes(node(f"n{number}", {"disk": "hdd"}) for number in range(3))
    calls = served.start(SSD_ONLY, mode)

    cluster.create_pods([pod("web", cluster.namespace, GOVERNED)])

    condition = cluster.wait_refused("web")
    assert condition["reason"] == "Unschedulable"
    assert "0/3 nodes are available: 3 policy web: needs an ssd" in condition["message"]
    assert calls.failures() == []


@pytest.mark.parametrize("mode", ["names", "full"])
def test_score_draws_pods_to_labelled_nodes(cluster: Cluster, served: Stage, mode: Mode) -> None:
    """Every pod lands on an arm64 node, although there is as much room on six others."""
    cluster.create_nodes(MIXED)
    calls = served.start(PREFER_ARM, mode)

    cluster.create_pods(pod(name, cluster.namespace, GOVERNED, cpu="500m") for name in PODS)

    assert set(cluster.wait_placed(PODS).values()) <= ARM
    assert calls.failures() == []


def test_pods_without_a_policy_spread(cluster: Cluster, served: Stage) -> None:
    """What the score works against; and a pod that no policy selects is placed as ever.

    Names mode only: in full-node mode kube-scheduler goes on with the nodes as the extender
    returned them, which carry no pods, so its own scores no longer see who is where.
    """
    cluster.create_nodes(MIXED)
    calls = served.start(PREFER_ARM)

    cluster.create_pods(pod(name, cluster.namespace, {}, cpu="500m") for name in PODS)

    assert len(set(cluster.wait_placed(PODS).values())) > len(ARM)
    assert calls.failures() == []

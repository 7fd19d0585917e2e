"""A rejected pod stays quiet: kube-scheduler is not led into asking about it over and over.

Two answers that look harmless make kube-scheduler retry without backoff: rejections it believes an
eviction could cure, and a condition text that differs from one attempt to the next.
"""

import time

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.manifests import node, pod, priority_class
from tests.e2e.stage import GOVERNED, Stage

pytestmark = pytest.mark.e2e

WATCHED_SECONDS = 20.0

NO_SPAN = """
  filter "nowhere" { require node.labels["disk"] == "ssd" message "needs an ssd" }
"""
THREE_REASONS = """
  filter "not a" { require node.labels["part"] in ["b", "c"] message "part a is closed" }
  filter "not b" { require node.labels["part"] in ["a", "c"] message "part b is closed" }
  filter "not c" { require node.labels["part"] in ["a", "b"] message "part c is closed" }
"""
PARTS = [node(f"n{number}", {"part": "abc"[number % 3]}) for number in range(600)]


def test_rejected_high_priority_pod_among_victims(cluster: Cluster, served: Stage) -> None:
    """Every node holds a pod that could be evicted, and no eviction would help."""
    cluster.apply(priority_class("low", 10), priority_class("high", 1000))
    names = [f"n{number}" for number in range(12)]
    cluster.create_nodes(node(name, {"disk": "hdd"}, cpu="2") for name in names)
    cluster.create_pods(
        pod(f"low-{name}", cluster.namespace, cpu="1", priorityClassName="low", nodeName=name)
        for name in names
    )
    calls = served.start(NO_SPAN)

    cluster.create_pods(
        [pod("critical", cluster.namespace, GOVERNED, cpu="1", priorityClassName="high")]
    )
    time.sleep(WATCHED_SECONDS)

    assert "12 policy web: needs an ssd" in cluster.scheduled_condition("critical")["message"]
    assert 1 <= len(calls.calls("filter", "critical")) <= 4
    assert cluster.placements().keys() == {f"low-{name}" for name in names}
    assert calls.failures() == []


def test_rejected_pod_in_a_sampled_cluster(cluster: Cluster, served: Stage) -> None:
    """From 100 nodes on kube-scheduler offers a rotating sample: the counts in its text change."""
    cluster.create_nodes(PARTS)
    calls = served.start(THREE_REASONS)

    cluster.create_pods([pod("web", cluster.namespace, GOVERNED)])
    time.sleep(WATCHED_SECONDS)

    condition = cluster.scheduled_condition("web")
    assert condition["reason"] == "Unschedulable", "autoscalers see it"
    # With their counts, or in one text for all nodes once kube-scheduler has asked often.
    message = condition["message"]
    assert all(f"policy web: part {part} is closed" in message for part in "abc")
    asked = calls.calls("filter", "web")
    assert max(call.nodes for call in asked) < len(PARTS)
    assert len(asked) <= 8
    assert calls.failures() == []
    time.sleep(WATCHED_SECONDS)
    assert len(calls.calls("filter", "web")) == len(asked), "it has settled"


def test_rejected_pod_when_every_node_is_offered(cluster: Cluster, served: Stage) -> None:
    """At the percentage Placet asks for the text never changes, and so nothing is repeated."""
    cluster.create_nodes(PARTS)
    calls = served.start(THREE_REASONS, percentage=100)

    cluster.create_pods([pod("web", cluster.namespace, GOVERNED)])
    time.sleep(WATCHED_SECONDS)

    message = cluster.scheduled_condition("web")["message"]
    assert all(f"200 policy web: part {part} is closed" in message for part in "abc")
    asked = calls.calls("filter", "web")
    assert {call.nodes for call in asked} == {len(PARTS)}
    assert len(asked) <= 4
    assert calls.failures() == []

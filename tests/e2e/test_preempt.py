"""Preemption: who must not go does not, and nobody goes for a pod that could not come."""

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.manifests import node, pod, priority_class
from tests.e2e.process import until
from tests.e2e.stage import GOVERNED, Stage

pytestmark = pytest.mark.e2e

POLICY = """
  filter "pool" { require node.labels["pool"] == "web" message "not of the pool" }
  preempt "spare databases" { protect pods where victim.labels["tier"] == "db" }
"""


def test_only_a_victim_that_may_go_goes_and_only_where_the_pod_may_come(
    cluster: Cluster, served: Stage
) -> None:
    """Three full nodes: one with a database, one of another pool, and one that will do.

    By itself kube-scheduler would take whichever it likes: all victims have the same priority.
    """
    cluster.apply(priority_class("high", 1000))
    pools = {"n-db": "web", "n-other": "batch", "n-web": "web"}
    cluster.create_nodes(node(name, {"pool": pool}, cpu="2") for name, pool in pools.items())
    there = {"db": "n-db", "batch": "n-other", "web": "n-web"}
    cluster.create_pods(
        pod(name, cluster.namespace, {"tier": name}, cpu="2", nodeName=where)
        for name, where in there.items()
    )
    server = served.watch(POLICY)
    server.wait_ready()
    calls = served.schedule(server)

    asked = pod("asked", cluster.namespace, GOVERNED, cpu="2", priorityClassName="high")
    cluster.create_pods([asked])

    assert cluster.wait_placed(["asked"]) == {"asked": "n-web"}
    assert cluster.placements() == {"asked": "n-web", "db": "n-db", "batch": "n-other"}
    [call] = calls.calls("preempt")
    assert call.status == 200
    assert list(call.answer["NodeNameToMetaVictims"]) == ["n-web"]


def test_a_limit_holds_where_others_are_evicted(cluster: Cluster, served: Stage) -> None:
    """One of a kind on each node: evicting another kind makes no room beside one's own."""
    cluster.apply(priority_class("high", 1000))
    cluster.create_nodes(node(name, cpu="2") for name in ("n1", "n2"))
    cluster.create_pods(
        [
            # As important as the one that asks, or it could be the one that is evicted.
            pod(
                "own",
                cluster.namespace,
                GOVERNED,
                cpu="1",
                nodeName="n1",
                priorityClassName="high",
            ),
            pod("other-1", cluster.namespace, cpu="1", nodeName="n1"),
            pod("other-2", cluster.namespace, cpu="2", nodeName="n2"),
        ]
    )
    server = served.watch("""
      limit "one a node" {
        pods where peer.labels["app"] == "web" per node at most 1 strict message "one is there"
      }
    """)
    server.wait_ready()
    server.wait_leading()
    served.schedule(server)

    asked = pod("asked", cluster.namespace, GOVERNED, cpu="1", priorityClassName="high")
    cluster.create_pods([asked])

    assert cluster.wait_placed(["asked"]) == {"asked": "n2"}
    until(lambda: "other-2" not in cluster.placements(), 10.0, lambda: str(cluster.placements()))
    assert set(cluster.placements()) == {"asked", "own", "other-1"}


def test_a_disruption_budget_is_kept_where_another_victim_will_do(
    cluster: Cluster, served: Stage
) -> None:
    """Three full nodes: one pod has a budget, one is protected by the policy, one may go."""
    cluster.apply(priority_class("high", 1000))
    names = ("budgeted", "db", "spare")
    cluster.create_nodes(node(f"n-{name}", {"pool": "web"}, cpu="2") for name in names)
    cluster.create_pods(
        pod(name, cluster.namespace, {"tier": name}, cpu="2", nodeName=f"n-{name}")
        for name in names
    )
    cluster.forbid_disruption("budget", {"tier": "budgeted"})
    server = served.watch(POLICY)
    server.wait_ready()
    calls = served.schedule(server)

    asked = pod("asked", cluster.namespace, GOVERNED, cpu="2", priorityClassName="high")
    cluster.create_pods([asked])

    assert cluster.wait_placed(["asked"]) == {"asked": "n-spare"}
    assert set(cluster.placements()) == {"asked", "budgeted", "db"}
    [call] = calls.calls("preempt")
    kept = call.answer["NodeNameToMetaVictims"]
    # Placet keeps what kube-scheduler counted: that is what it chooses by.
    assert {name: each["NumPDBViolations"] for name, each in kept.items()} == {
        "n-budgeted": 1,
        "n-spare": 0,
    }

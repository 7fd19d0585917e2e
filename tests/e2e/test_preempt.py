"""Preemption: who must not go does not, and nobody goes for a pod that could not come."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.manifests import node, pod, priority_class
from tests.e2e.placet import Placet
from tests.e2e.process import until
from tests.e2e.stage import GOVERNED, Mode, Stage

pytestmark = pytest.mark.e2e

POLICY = """
  filter "pool" { require node.labels["pool"] == "web" message "not of the pool" }
  preempt "spare databases" { protect victim where victim.labels["tier"] == "db" }
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


TWO_A_NODE = """
  limit "two a node" {
    pods where peer.labels["app"] == "web" per node at most 2 strict message "two are there"
  }
"""


def full_node(
    cluster: Cluster,
    name: str,
    *,
    classes: tuple[str, str] = ("least", "low"),
    seconds: int = 0,
    labels: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """A node of 3 CPUs with two pods under the limit, and one that is less important than both.

    `classes` are the priority classes of that one and of the less important of the two, which takes
    some seconds to end, and has further labels.
    """
    cluster.create_nodes([node(name, cpu="3")])

    def there(kind: str, priority: str, labels: dict[str, str], seconds: int = 0) -> dict[str, Any]:
        return pod(
            f"{name}-{kind}",
            cluster.namespace,
            labels,
            cpu="1",
            nodeName=name,
            priorityClassName=priority,
            terminationGracePeriodSeconds=seconds,
        )

    cluster.create_pods(
        [
            there("other", classes[0], {}),
            there("web-1", classes[1], {**GOVERNED, **labels}, seconds),
            there("web-2", "mid", GOVERNED),
        ]
    )


def create_classes(cluster: Cluster) -> None:
    values = {"least": 1, "low": 10, "mid": 20, "high": 1000}
    cluster.apply(*(priority_class(name, value) for name, value in values.items()))


def ask(cluster: Cluster) -> None:
    important = pod("asked", cluster.namespace, GOVERNED, cpu="1", priorityClassName="high")
    cluster.create_pods([important])


def leading(served: Stage) -> Placet:
    server = served.watch(TWO_A_NODE)
    server.wait_ready()
    server.wait_leading()
    return server


@pytest.mark.parametrize("mode", ["names", "full"])
def test_one_more_victim_than_kube_scheduler_gave(
    cluster: Cluster, served: Stage, mode: Mode
) -> None:
    """kube-scheduler needs a CPU, and takes it from the pod that the limit does not count.

    With that one gone the limit still rejects the pod, so the less important of the two that it
    counts goes as well.
    """
    create_classes(cluster)
    full_node(cluster, "n1")
    server = leading(served)
    calls = served.schedule(server, mode=mode)

    ask(cluster)

    assert cluster.wait_placed(["asked"]) == {"asked": "n1"}
    until(lambda: len(cluster.placements()) == 2, 10.0, lambda: str(cluster.placements()))
    assert cluster.placements() == {"asked": "n1", "n1-web-2": "n1"}
    [call] = calls.calls("preempt")
    victims = call.answer["NodeNameToMetaVictims"]["n1"]
    assert (len(victims["Pods"]), victims["NumPDBViolations"]) == (2, 0)
    name = f"{cluster.namespace}/asked"
    found = server.decision(name)["preemption"]
    assert (found["offered"], found["kept"], found["cutShort"]) == (1, 1, False)
    policy = f"{cluster.namespace}/web"
    assert found["extended"] == [
        {
            "node": "n1",
            "victims": 2,
            "budgetViolations": 0,
            "added": [
                {"pod": f"{cluster.namespace}/n1-web-1", "policy": policy, "clause": "two a node"}
            ],
        }
    ]
    metric = f'placet_victims_added_total{{clause="two a node",policy="{policy}"}} 1.0'
    assert metric in server.get("/metrics")[1]


def test_a_pod_waits_for_an_added_victim_that_takes_its_time(
    cluster: Cluster, served: Stage
) -> None:
    """The added victim ends after the others: meanwhile nobody is evicted on a second node."""
    create_classes(cluster)
    full_node(cluster, "n1", seconds=30)
    full_node(cluster, "n2", classes=("low", "mid"))
    server = leading(served)
    calls = served.schedule(server)
    ask(cluster)
    until(lambda: "n1-other" not in cluster.placements(), 20.0, lambda: str(cluster.placements()))
    until(lambda: len(calls.calls("preempt")) >= 2, 30.0, lambda: str(calls.calls("preempt")))
    second = {f"n2-{name}": "n2" for name in ("other", "web-1", "web-2")}
    assert cluster.placements() == {"n1-web-1": "n1", "n1-web-2": "n1", **second}
    assert all(not call.answer["NodeNameToMetaVictims"] for call in calls.calls("preempt")[1:])

    cluster.delete_pod("n1-web-1")

    assert cluster.wait_placed(["asked"]) == {"asked": "n1"}
    assert cluster.placements() == {"asked": "n1", "n1-web-2": "n1", **second}


def test_a_pod_with_a_budget_is_spared_if_another_one_will_do(
    cluster: Cluster, served: Stage
) -> None:
    """The less important of the two has a budget, so the other one goes."""
    create_classes(cluster)
    full_node(cluster, "n1", labels={"has": "budget"})
    cluster.forbid_disruption("budget", {"has": "budget"})
    server = leading(served)
    until(
        lambda: server.resources()["poddisruptionbudgets"]["synced"],
        10.0,
        lambda: str(server.resources()),
    )
    calls = served.schedule(server)

    ask(cluster)

    assert cluster.wait_placed(["asked"]) == {"asked": "n1"}
    assert cluster.placements() == {"asked": "n1", "n1-web-1": "n1"}
    [call] = calls.calls("preempt")
    assert call.answer["NodeNameToMetaVictims"]["n1"]["NumPDBViolations"] == 0

"""Pods that were refused and now could run: kube-scheduler need not have heard of what changed."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.control_plane import ControlPlane
from tests.e2e.manifests import node, pod
from tests.e2e.policies import cluster_policy, define, policy, wait_ready
from tests.e2e.process import kubeconfig, until
from tests.e2e.stage import GOVERNED, Stage
from tests.support.api_proxy import ApiProxy, api_proxy

pytestmark = pytest.mark.e2e

PROMISED_SECONDS = 15.0
# As far as our view is behind in some of these tests.
LATE_SECONDS = 4.0


@pytest.fixture
def proxy(plane: ControlPlane, tmp_path: Path) -> Iterator[ApiProxy]:
    """Return a proxy before the API server."""
    with api_proxy(plane.url, plane.authority, tmp_path / "proxy.crt") as running:
        yield running


@pytest.fixture
def behind(plane: ControlPlane, proxy: ApiProxy, tmp_path: Path) -> Path:
    """Return a kubeconfig for a Placet whose watches go through the proxy."""
    return kubeconfig(
        tmp_path / "placet.kubeconfig",
        proxy.url,
        tmp_path / "proxy.crt",
        {"token": plane.placet_token},
    )


def test_what_time_cures(cluster: Cluster, served: Stage) -> None:
    """No event says that a node is old enough."""
    age = 20.0
    rule = 'filter "settled" { require node.age > "20s" message "a new node" }'
    # The Lease that an ended replica leaves behind takes as long as is promised.
    server = served.watch(rule, None, "--lease=none")
    server.wait_ready()
    cluster.create_nodes([node("n1")])
    created = time.monotonic()
    served.schedule(server)
    cluster.create_pods([pod("web", cluster.namespace, GOVERNED)])
    cluster.wait_refused("web")

    cluster.wait_placed(["web"], age + PROMISED_SECONDS)

    assert time.monotonic() - created >= age - 1.0


def test_a_bound_that_rises_with_the_time(cluster: Cluster, served: Stage) -> None:
    """No event says so, and no more pods come than it allows."""
    cluster.create_nodes([node("n1"), node("n2")])
    rises = datetime.now(UTC) + timedelta(seconds=15)
    rule = f"""limit "by time" {{
      pods where true per cluster at most now < timestamp("{rises.isoformat()}") ? 1 : 3 strict
      message "later"
    }}"""
    server = served.watch(rule, None, "--lease=none")
    server.wait_ready()
    served.schedule(server)
    names = [f"web-{number}" for number in range(5)]
    cluster.create_pods(pod(name, cluster.namespace, GOVERNED) for name in names)
    until(lambda: len(cluster.placements()) == 1, 10.0, lambda: str(cluster.placements()))
    while datetime.now(UTC) < rises - timedelta(seconds=1):
        assert len(cluster.placements()) == 1
        time.sleep(0.5)
    until(lambda: len(cluster.placements()) == 3, PROMISED_SECONDS, lambda: "three pods")
    for name in set(names) - cluster.placements().keys():
        cluster.wait_refused(name, text="later")
    assert len(cluster.placements()) == 3


def test_what_we_hear_of_late(
    cluster: Cluster, served: Stage, proxy: ApiProxy, behind: Path
) -> None:
    """kube-scheduler asks when a node gets its label; we hear of that seconds later."""
    cluster.create_nodes([node("n1")])
    server = served.watch(
        'filter "pool" { require node.labels["pool"] == "web" message "not of the pool" }', behind
    )
    server.wait_ready()
    proxy.delay = LATE_SECONDS
    calls = served.schedule(server)
    cluster.create_pods([pod("web", cluster.namespace, GOVERNED)])
    cluster.wait_refused("web")

    cluster.label_node("n1", {"pool": "web"})

    cluster.wait_placed(["web"], LATE_SECONDS + PROMISED_SECONDS)
    assert calls.failures() == []


def test_a_slot_that_becomes_free(
    cluster: Cluster, served: Stage, proxy: ApiProxy, behind: Path
) -> None:
    """It does for kube-scheduler at once, and for us seconds later."""
    cluster.create_nodes([node("n1")])
    server = served.watch(
        'limit "one" { pods where peer.labels["app"] == "web" per cluster at most 1 strict }',
        behind,
    )
    server.wait_ready()
    proxy.delay = LATE_SECONDS
    served.schedule(server)
    cluster.create_pods([pod("first", cluster.namespace, GOVERNED)])
    cluster.wait_placed(["first"])
    time.sleep(LATE_SECONDS)
    cluster.create_pods([pod("second", cluster.namespace, GOVERNED)])
    cluster.wait_refused("second")

    cluster.delete_pod("first")

    cluster.wait_placed(["second"], LATE_SECONDS + PROMISED_SECONDS)


def test_a_policy_that_is_edited(cluster: Cluster, served: Stage) -> None:
    """kube-scheduler knows nothing of our resources."""
    define(cluster)
    cluster.create_nodes([node("n1")])
    rules = 'filter "pool" { require node.labels["pool"] == "web" message "not of the pool" }'
    cluster.apply(policy(cluster, rules=rules))
    server = served.watch_objects()
    server.wait_ready()
    server.wait_leading()
    served.schedule(server)
    cluster.create_pods([pod("web", cluster.namespace, GOVERNED)])
    cluster.wait_refused("web")

    cluster.apply(policy(cluster, rules='filter "ready" { require node.ready }'))

    cluster.wait_placed(["web"], PROMISED_SECONDS)


def test_a_pod_that_another_replica_refused(cluster: Cluster, served: Stage) -> None:
    """The one that knew of it is killed; the policy goes; the next one wakes the pod up."""
    define(cluster)
    cluster.create_nodes([node("n1")])
    cluster.apply(cluster_policy("none", 'filter "no" { require node.name == "" message "no" }'))
    try:
        first = served.watch_objects()
        first.wait_ready()
        served.schedule(first)
        cluster.create_pods([pod("web", cluster.namespace, GOVERNED)])
        cluster.wait_refused("web")
        second = served.watch_objects()
        second.wait_ready()
        first.process.kill()
        second.wait_leading()
        before = cluster.pod("web")["status"]["conditions"]

        cluster.apply(cluster_policy("none", 'filter "yes" { require node.ready }'))

        def nudged() -> bool:
            conditions = cluster.pod("web")["status"]["conditions"]
            return any(each["type"].endswith("/Evaluate") for each in conditions)

        until(nudged, PROMISED_SECONDS, lambda: f"{before}; {second.process.tail()}")
    finally:
        cluster.kubectl("delete", "clusterplacementpolicies", "--all")


def test_status_is_finished_by_the_next_holder(cluster: Cluster, served: Stage) -> None:
    """Killed at any moment, the holder leaves nothing that the next one does not put right."""
    define(cluster)
    cluster.create_nodes([node("n1")])
    first = served.watch_objects()
    first.wait_ready()
    first.wait_leading()
    names = [f"p{number}" for number in range(20)]
    cluster.apply(*(policy(cluster, "50%", name=name) for name in names))
    # In the middle of the first writes, or near it.
    until(
        lambda: any("status" in cluster.get("placementpolicies", name) for name in names),
        10.0,
        first.process.tail,
    )
    first.process.kill()
    second = served.watch_objects()
    second.wait_ready()
    second.wait_leading()
    for name in names:
        wait_ready(cluster, name, "True")

"""Gangs when a process ends that has to do with them, and with whole nodes in requests.

Each test has a Placet and a kube-scheduler of its own: another kube-scheduler would place pods too.
"""

import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.control_plane import ControlPlane
from tests.e2e.gangs import (
    GangServer,
    by_group,
    entries,
    gang_server,
    group,
    hold,
    policy,
    wait_whole,
)
from tests.e2e.kube_scheduler import kube_scheduler
from tests.e2e.manifests import node
from tests.e2e.replicas import Replicas
from tests.e2e.waiting import until

pytestmark = pytest.mark.e2e

# How late places may be free after what ends a gang.
FREE_SECONDS = 1.0


def test_full_nodes(plane: ControlPlane, cluster: Cluster, tmp_path: Path) -> None:
    """With nodeCacheCapable false the same: one of two gangs is whole, the other waits."""
    cluster.create_nodes(node(f"n{number}", cpu="5") for number in range(2))
    with gang_server(plane, tmp_path, policy("job"), node_cache_capable=False) as gangs:
        both = [group(cluster, name, 6) for name in ("a", "b")]
        cluster.create_pods(member for pair in zip(*both, strict=True) for member in pair)
        until(lambda: len(cluster.placements()) >= 6, 20.0, gangs.server.process.tail)
        time.sleep(1)
        assert len(by_group(cluster.placements())) == 1
        assert gangs.held() == 0


def test_a_kube_scheduler_that_is_killed(
    plane: ControlPlane, cluster: Cluster, tmp_path: Path
) -> None:
    """Its calls end with it, so the gang is given up; the next one binds it whole."""
    cluster.create_nodes([node("n0", cpu="4")])
    with gang_server(plane, tmp_path, policy("job")) as gangs:
        hold(cluster, gangs)
        gangs.scheduler.kill()
        gangs.wait_held(0, FREE_SECONDS)
        assert gangs.given_up("client_gone") == 1
        cluster.delete_pod("g-3")
        with kube_scheduler(plane, tmp_path, entries(f"http://127.0.0.1:{gangs.server.port}")):
            cluster.create_pods(group(cluster, "g", 4)[3:])
            wait_whole(cluster, gangs, "g", size=4, seconds=20)


def test_a_placet_that_ends_while_it_holds_calls(
    plane: ControlPlane, cluster: Cluster, tmp_path: Path
) -> None:
    """Another replica decides from then on: nobody is bound alone, and in the end all are."""
    cluster.create_nodes([node("n0", cpu="4")])
    with ExitStack() as running:
        replicas = Replicas(plane, tmp_path, running, policy("job"), "--bind")
        address = f"http://127.0.0.1:{replicas.switch.port}"
        scheduler = running.enter_context(kube_scheduler(plane, tmp_path, entries(address)))
        hold(cluster, GangServer(replicas.asked(), scheduler, tmp_path))
        assert replicas.restart() == 0
        asked = GangServer(replicas.asked(), scheduler, tmp_path)
        asked.wait_held(3)
        assert cluster.placements() == {}
        replicas.kill()
        cluster.delete_pod("g-3")
        cluster.create_pods(group(cluster, "g", 4)[3:])
        wait_whole(cluster, asked, "g", size=4)

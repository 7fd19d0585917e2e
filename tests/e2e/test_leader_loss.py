"""Bursts under strict counts with two replicas: nothing happens to them, or the leader is lost."""

import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.control_plane import ControlPlane
from tests.e2e.kube_scheduler import extender, kube_scheduler
from tests.e2e.manifests import node, pod
from tests.e2e.replicas import Replicas
from tests.e2e.stage import GOVERNED
from tests.e2e.waiting import until

pytestmark = pytest.mark.e2e

ZONES, A_ZONE = "abc", 5
SHARE = """
  share "on spot" {
    of pods where peer.labels["app"] == "web"
    on nodes where node.labels["capacity"] == "spot"
    at most 40%
    strict
  }
"""
ALL_THREE = f"""
  {SHARE}
  spread "zones" {{
    pods where peer.labels["app"] == "web" over node.zone skew at most 1 strict
  }}
  limit "a node" {{ pods where peer.labels["app"] == "web" per node at most 25 strict }}
"""
LOST_IN = 60


@contextmanager
def scheduled(
    plane: ControlPlane, cluster: Cluster, folder: Path, clauses: str
) -> Iterator[Replicas]:
    """Two replicas that bind, and fifteen nodes in three zones, a third of them spot."""
    cluster.create_nodes(
        node(
            f"n{number}",
            {
                "topology.kubernetes.io/zone": ZONES[number % len(ZONES)],
                "capacity": "spot" if number < A_ZONE else "steady",
            },
            cpu="64",
        )
        for number in range(len(ZONES) * A_ZONE)
    )
    policies = (
        f'policy web in namespace "{cluster.namespace}" {{\n'
        f'  for pods where pod.labels["app"] == "web"\n{clauses}\n}}\n'
    )
    with ExitStack() as running:
        replicas = Replicas(plane, folder, running, policies, "--bind")
        address = f"http://127.0.0.1:{replicas.switch.port}"
        entry = extender(address, node_cache_capable=True, binds=True)
        running.enter_context(kube_scheduler(plane, folder, [entry]))
        yield replicas


def create(cluster: Cluster, count: int) -> list[str]:
    """Create so many pods at once; return their names."""
    names = [f"web-{number}" for number in range(count)]
    cluster.create_pods(pod(name, cluster.namespace, GOVERNED, cpu="10m") for name in names)
    return names


def on_spot(where: dict[str, str]) -> int:
    return sum(int(name[1:]) < A_ZONE for name in where.values())


def test_a_large_burst_under_every_kind_of_count(
    plane: ControlPlane, cluster: Cluster, tmp_path: Path
) -> None:
    """About 20 s on a machine that does nothing else; the bounds are exact in the end."""
    with scheduled(plane, cluster, tmp_path, ALL_THREE):
        began = time.monotonic()
        where = cluster.wait_placed(create(cluster, 300), 120.0)
        print(f"300 pods in {time.monotonic() - began:.1f} s")  # noqa: T201 - for -rP

    zones = Counter(int(name[1:]) % len(ZONES) for name in where.values())
    assert zones == {0: 100, 1: 100, 2: 100}
    assert max(Counter(where.values()).values()) <= 25
    assert on_spot(where) <= 120


@pytest.mark.parametrize("loss", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
def test_leader_is_lost_in_a_burst(
    plane: ControlPlane, cluster: Cluster, tmp_path: Path, loss: signal.Signals
) -> None:
    """The other one leads when the Lease has expired, and nothing is bound twice or above."""
    with scheduled(plane, cluster, tmp_path, SHARE) as replicas:
        lost = replicas.asked()
        assert replicas.leading() == [lost]
        (other,) = (each for each in replicas.servers if each is not lost)
        names = create(cluster, LOST_IN)
        until(lambda: len(cluster.placements()) > 3, 60.0, lost.process.tail)

        lost.process.child.send_signal(loss)
        try:
            other.wait_leading()
            # What comes after the loss needs the other one.
            cluster.create_pods([pod("last", cluster.namespace, GOVERNED, cpu="10m")])
            cluster.wait_placed([*names, "last"], 90.0)
        finally:
            lost.process.child.send_signal(signal.SIGCONT)

        assert on_spot(cluster.placements()) <= (LOST_IN + 1) * 40 // 100
        assert other.compare()["count"] == 0

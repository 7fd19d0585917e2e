"""A pod with a claim that kube-scheduler waits for, and a Placet that is restarted meanwhile."""

import time
from pathlib import Path

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.control_plane import ControlPlane
from tests.e2e.kube_scheduler import extender, kube_scheduler
from tests.e2e.manifests import node, pod
from tests.e2e.stage import GOVERNED, Stage
from tests.e2e.volumes import Volume
from tests.e2e.waiting import until
from tests.support.tcp_switch import tcp_switch

pytestmark = pytest.mark.e2e

LIMIT = '  limit "one" { all pods where true per node at most 1 strict }'
# Pods without claims would count no longer after a restart.
LONGER_THAN_OTHERS_SECONDS = 35.0
SECONDS = 90.0


def test_a_pod_that_waits_for_its_volume_counts_after_a_restart(
    plane: ControlPlane, cluster: Cluster, served: Stage, tmp_path: Path
) -> None:
    """Nobody knows then which node kube-scheduler has for it, so the other pod gets none."""
    cluster.create_nodes([node("n0"), node("n1")])
    volume = Volume(plane, cluster.namespace)
    server = served.watch(LIMIT)
    server.wait_ready()
    with tcp_switch([server.port]) as switch:
        entry = extender(f"http://127.0.0.1:{switch.port}", node_cache_capable=True)
        with kube_scheduler(plane, tmp_path, [entry]):
            volumes = [volume.claimed()]
            cluster.create_pods([pod("claims", cluster.namespace, GOVERNED, volumes=volumes)])
            until(lambda: volume.chosen() is not None, SECONDS, server.process.tail)
            server.process.stop()
            server = served.watch(LIMIT)
            switch.ports = (server.port,)
            server.wait_ready()
            cluster.create_pods([pod("other", cluster.namespace, GOVERNED)])
            end = time.monotonic() + LONGER_THAN_OTHERS_SECONDS
            while time.monotonic() < end:
                assert cluster.placements() == {}, server.process.tail()
                time.sleep(1.0)
            volume.bind()
            placed = cluster.wait_placed(["claims", "other"], SECONDS)
    volume.delete()
    assert placed["claims"] == volume.chosen()
    assert placed["other"] != placed["claims"]

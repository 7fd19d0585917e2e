"""A pod with a claim that kube-scheduler waits for, and a Placet that is restarted meanwhile."""

import time
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.api import Api
from tests.e2e.cluster import Cluster
from tests.e2e.control_plane import ControlPlane
from tests.e2e.kube_scheduler import extender, kube_scheduler
from tests.e2e.manifests import node, pod
from tests.e2e.stage import GOVERNED, Stage
from tests.e2e.waiting import until
from tests.support.tcp_switch import tcp_switch

pytestmark = pytest.mark.e2e

LIMIT = '  limit "one" { all pods where true per node at most 1 strict }'
CHOSEN = "volume.kubernetes.io/selected-node"
# Pods without claims would count no longer after a restart.
LONGER_THAN_OTHERS_SECONDS = 35.0
SECONDS = 90.0


class Volume:
    """A claim whose volume is made once a pod has a node, by the test in place of a provisioner."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self._api = Api(plane)
        self._claims = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"
        self.name = namespace
        size = {"storage": "1Gi"}
        classes = {
            "metadata": {"name": self.name},
            "provisioner": "placet.example/volumes",
            "volumeBindingMode": "WaitForFirstConsumer",
        }
        claim: dict[str, Any] = {
            "metadata": {"name": self.name},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": size},
                "storageClassName": self.name,
            },
        }
        self._volume: dict[str, Any] = {
            "metadata": {"name": self.name},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "capacity": size,
                "storageClassName": self.name,
                "hostPath": {"path": "/data"},
            },
        }
        self._api.request("POST", "/apis/storage.k8s.io/v1/storageclasses", classes)
        self._api.request("POST", self._claims, claim)

    def chosen(self) -> str | None:
        """The node that kube-scheduler has chosen for the pod with the claim."""
        found = self._api.request("GET", f"{self._claims}/{self.name}")["metadata"]
        node: str | None = found.get("annotations", {}).get(CHOSEN)
        return node

    def bind(self) -> None:
        """Make the volume and bind it to the claim, both ways."""
        claim = self._api.request("GET", f"{self._claims}/{self.name}")["metadata"]
        names = {key: claim[key] for key in ("namespace", "name", "uid")}
        self._volume["spec"]["claimRef"] = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            **names,
        }
        self._api.request("POST", "/api/v1/persistentvolumes", self._volume)
        volumes = f"/api/v1/persistentvolumes/{self.name}/status"
        self._api.request("PATCH", volumes, {"status": {"phase": "Bound"}})
        bound = {
            "metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
            "spec": {"volumeName": self.name},
        }
        self._api.request("PATCH", f"{self._claims}/{self.name}", bound)
        status = {"status": {"phase": "Bound"}}
        self._api.request("PATCH", f"{self._claims}/{self.name}/status", status)

    def delete(self) -> None:
        self._api.request("DELETE", f"/apis/storage.k8s.io/v1/storageclasses/{self.name}")


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
            claims = {"claimName": volume.name}
            volumes = [{"name": "data", "persistentVolumeClaim": claims}]
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

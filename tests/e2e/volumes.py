"""Claims that kube-scheduler waits for, and their volumes."""

from __future__ import annotations

from typing import Any

from tests.e2e.api import Api
from tests.e2e.control_plane import ControlPlane

CHOSEN = "volume.kubernetes.io/selected-node"


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

    def claimed(self) -> dict[str, Any]:
        """The volume of a pod that has the claim."""
        return {"name": "data", "persistentVolumeClaim": {"claimName": self.name}}

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

"""Kubelets: start the pods of a namespace when they have a node, and end those that are deleted.

They follow the pods by a watch, so they also know every state that there was, in its order.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, Literal

from tests.e2e.api import Api, ApiError, watched_bindings
from tests.e2e.cluster import AT_ONCE
from tests.e2e.control_plane import ControlPlane

WORKERS = 4
# A pod needs a while to end; until then it takes its place.
END_SECONDS = 0.5
RUNNING = {
    "phase": "Running",
    "conditions": [{"type": each, "status": "True"} for each in ("PodScheduled", "Ready")],
}

# The method, path and object of a request.
_Work = tuple[str, str, dict[str, Any]]
Phase = Literal["Succeeded", "Failed"]


@dataclass(frozen=True, slots=True)
class PlacedPod:
    """A pod with a node, as of one state of it."""

    name: str
    labels: Mapping[str, str]
    node: str
    terminating: bool
    uid: str


class Kubelets:
    """The pods that have a node, by name, as of the last state; a thread keeps them up to date."""

    def __init__(self, api: Api, namespace: str, bound: Callable[[PlacedPod], None]) -> None:
        """`bound` is told of each pod that has got a node, when `pods` has it."""
        self.pods: dict[str, PlacedPod] = {}
        self._api = api
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        self._bound = bound
        # A pod always has the same worker, so that it does not run again after its end.
        self._work: list[SimpleQueue[_Work | None]] = [SimpleQueue() for _ in range(WORKERS)]
        self._workers = [
            threading.Thread(target=self._run, args=(work,), daemon=True) for work in self._work
        ]
        for worker in self._workers:
            worker.start()

    def stop(self) -> None:
        """Start and end no more pods, once those are done whose time has come."""
        for work in self._work:
            work.put(None)
        for worker in self._workers:
            worker.join()

    def event(self, line: bytes) -> None:
        """Takes an event of the watch."""
        event = json.loads(line)
        pod = event["object"]
        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        if event["type"] == "DELETED":
            self.pods.pop(name, None)
            return
        terminating = "deletionTimestamp" in pod["metadata"]
        labels = pod["metadata"].get("labels", {})
        now = PlacedPod(name, labels, pod["spec"]["nodeName"], terminating, uid)
        before, self.pods[name] = self.pods.get(name), now
        if before is None:
            change = {"metadata": {"uid": uid}, "status": RUNNING}
            self._put(("PATCH", f"{self._path}/{name}/status", change))
            self._bound(now)
        if terminating and (before is None or not before.terminating):
            options = {**AT_ONCE, "preconditions": {"uid": uid}}
            self._later(END_SECONDS, ("DELETE", f"{self._path}/{name}", options))

    def end(self, pod: PlacedPod, phase: Phase, seconds: float = 0.0) -> None:
        """Let the containers of a pod end in some seconds; they run no more."""
        conditions = [{"type": "PodScheduled", "status": "True"}]
        conditions.append({"type": "Ready", "status": "False", "reason": "PodCompleted"})
        status = {"phase": phase, "conditions": conditions}
        change = {"metadata": {"uid": pod.uid}, "status": status}
        self._later(seconds, ("PATCH", f"{self._path}/{pod.name}/status", change))

    def _later(self, seconds: float, work: _Work) -> None:
        timer = threading.Timer(seconds, self._put, (work,))
        timer.daemon = True
        timer.start()

    def _put(self, work: _Work) -> None:
        self._work[hash(work[1].removesuffix("/status")) % WORKERS].put(work)

    def _run(self, waiting: SimpleQueue[_Work | None]) -> None:
        with self._api.kept() as request:
            while (work := waiting.get()) is not None:
                # The pod may be gone, or another one of its name may be there.
                with suppress(ApiError):
                    try:
                        request(*work)
                    except OSError:
                        # The API server has closed a connection that was idle for long.
                        request(*work)


@contextmanager
def kubelets(
    plane: ControlPlane, namespace: str, bound: Callable[[PlacedPod], None]
) -> Iterator[Kubelets]:
    """Run the kubelets of a namespace for the length of the block."""
    running = Kubelets(Api(plane), namespace, bound)
    try:
        with watched_bindings(plane, namespace, running.event):
            yield running
    finally:
        running.stop()


# ---- claims that kube-scheduler waits for, and their volumes


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

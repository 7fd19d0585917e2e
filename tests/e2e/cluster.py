"""Cluster: the nodes and pods of one test, created and read through the API server."""

import json
import subprocess
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.e2e.api import Api, ApiError
from tests.e2e.control_plane import ControlPlane
from tests.e2e.manifests import namespace
from tests.e2e.process import until

KUBECTL_SECONDS = 60.0
POLICIES = "placement-policy.scheduling.x-k8s.io/v1"
# What a test may leave beside pods, by group and kind.
_LEFT = (
    *(("apps/v1", kind) for kind in ("deployments", "replicasets", "statefulsets")),
    ("batch/v1", "jobs"),
    ("policy/v1", "poddisruptionbudgets"),
)
_BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
AT_ONCE = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}


class Cluster:
    """One test's view of the control plane: all nodes, and the pods of a namespace of its own."""

    def __init__(self, plane: ControlPlane, name: str) -> None:
        """Create the namespace `name`."""
        self._plane = plane
        self._api = Api(plane)
        self.namespace = name
        self._pods = f"/api/v1/namespaces/{name}/pods"
        self._api.create("/api/v1/namespaces", [namespace(name)])

    def kubectl(self, *arguments: str, text: str | None = None) -> str:
        """Run kubectl as the administrator with `text` on its input; return what it prints."""
        done = self.try_kubectl(*arguments, text=text)
        assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stderr}"
        return done.stdout

    def try_kubectl(
        self, *arguments: str, text: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl likewise; return what it prints and how it ends, which may be badly."""
        return subprocess.run(
            [
                str(self._plane.programs / "kubectl"),
                f"--kubeconfig={self._plane.admin_kubeconfig}",
                f"--cache-dir={self._plane.admin_kubeconfig.parent / 'kubectl'}",
                *arguments,
            ],
            input=text,
            capture_output=True,
            text=True,
            check=False,
            timeout=KUBECTL_SECONDS,
        )

    def apply(self, *objects: dict[str, Any]) -> None:
        """Apply objects of any kind, as users do."""
        documents = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
        self.kubectl("apply", "-f", "-", text=json.dumps(documents))

    def write_snapshot(self, file: Path) -> Path:
        """Write all nodes and pods to `file`, in the form `kubectl get -o json` gives them."""
        file.write_text(self.kubectl("get", "nodes,pods", "-A", "-o", "json"))
        return file

    def create(self, document: dict[str, Any]) -> dict[str, Any]:
        """Create a controller of apps/v1 in this test's namespace; return it with its uid."""
        path = f"/apis/apps/v1/namespaces/{self.namespace}/{document['kind'].lower()}s"
        return self._api.request("POST", path, document)

    def create_nodes(self, nodes: Iterable[dict[str, Any]]) -> None:
        """Register nodes as a kubelet does, status included."""
        self._api.create("/api/v1/nodes", nodes)

    def create_pods(self, pods: Iterable[dict[str, Any]]) -> None:
        """Create pods in this test's namespace."""
        self._api.create(self._pods, pods)

    def label_node(self, name: str, labels: dict[str, str]) -> None:
        """Give a node labels."""
        self._api.request("PATCH", f"/api/v1/nodes/{name}", {"metadata": {"labels": labels}})

    def delete_node(self, name: str) -> None:
        """Remove a node; its pods stay."""
        self._api.request("DELETE", f"/api/v1/nodes/{name}")

    def delete_pod(self, name: str) -> None:
        """Remove a pod at once."""
        self._api.request("DELETE", f"{self._pods}/{name}", AT_ONCE)

    def delete_pods(self) -> None:
        """Remove this test's pods at once."""
        self._api.request("DELETE", self._pods, AT_ONCE)

    def forbid_disruption(self, name: str, labels: dict[str, str]) -> None:
        """Create a disruption budget that none of its pods may leave; no controller runs here."""
        path = f"/apis/policy/v1/namespaces/{self.namespace}/poddisruptionbudgets"
        spec = {"maxUnavailable": 0, "selector": {"matchLabels": labels}}
        self._api.request("POST", path, {"metadata": {"name": name}, "spec": spec})
        counts = dict.fromkeys(("currentHealthy", "desiredHealthy", "expectedPods"), 1)
        status = {"status": {**counts, "disruptionsAllowed": 0, "observedGeneration": 1}}
        self._api.request("PATCH", f"{path}/{name}/status", status)

    def get(self, resource: str, name: str) -> dict[str, Any]:
        """Return one of our objects in this test's namespace."""
        group = "/apis/placement-policy.scheduling.x-k8s.io/v1"
        return self._api.request("GET", f"{group}/namespaces/{self.namespace}/{resource}/{name}")

    def events(self, kind: str) -> list[dict[str, Any]]:
        """Return the events about objects of a kind in this test's namespace."""
        path = f"/apis/events.k8s.io/v1/namespaces/{self.namespace}/events"
        events: list[dict[str, Any]] = self._api.request("GET", path)["items"]
        return [each for each in events if each["regarding"]["kind"] == kind]

    def pod(self, name: str) -> dict[str, Any]:
        """Return a pod of this test's namespace."""
        return self._api.request("GET", f"{self._pods}/{name}")

    def placements(self) -> dict[str, str]:
        """Return the node of each pod in this test's namespace that has one."""
        pods = self._api.request("GET", self._pods)["items"]
        return {
            each["metadata"]["name"]: each["spec"]["nodeName"]
            for each in pods
            if "nodeName" in each["spec"]
        }

    def _waiting(self) -> set[str]:
        """The pods without a node; of thousands of pods, mostly the few that there are."""
        pods = self._api.request("GET", f"{self._pods}?fieldSelector=spec.nodeName%3D")["items"]
        return {each["metadata"]["name"] for each in pods}

    def wait_placed(self, names: Sequence[str], seconds: float = 60.0) -> dict[str, str]:
        """Return the nodes of these pods as soon as each has one."""
        until(
            lambda: not set(names) & self._waiting(),
            seconds,
            lambda: (
                f"pods on nodes; placed {self.placements()}, conditions "
                f"{ {name: self.scheduled_condition(name) for name in names} }"
            ),
        )
        placed = self.placements()
        return {name: placed[name] for name in names}

    def scheduled_condition(self, name: str) -> dict[str, Any]:
        """Return a pod's PodScheduled condition; an empty one where there is none yet."""
        conditions: list[dict[str, Any]] = self.pod(name)["status"].get("conditions", [])
        return next((each for each in conditions if each["type"] == "PodScheduled"), {})

    def wait_refused(self, name: str, seconds: float = 30.0, text: str = "") -> dict[str, Any]:
        """Return a pod's PodScheduled condition once kube-scheduler has given up on it for now.

        With a `text`, once it has said that.
        """

        def is_refused() -> bool:
            condition = self.scheduled_condition(name)
            return condition.get("status") == "False" and text in condition.get("message", "")

        until(
            is_refused,
            seconds,
            lambda: f"{name} refused {text}; condition {self.scheduled_condition(name)}",
        )
        return self.scheduled_condition(name)

    def clear(self) -> None:
        """Remove what this test has, and every node; the namespace stays: nobody finalises it."""
        for group, kind in _LEFT:
            self._api.request("DELETE", f"/apis/{group}/namespaces/{self.namespace}/{kind}")
        self.delete_pods()
        self._api.request("DELETE", "/api/v1/nodes", AT_ONCE)
        # Rights of all tests are Placet's, so one test's would be the next one's.
        for each in self._api.request("GET", _BINDINGS)["items"]:
            if (name := each["metadata"]["name"]).startswith(f"{self.namespace}-"):
                self._api.request("DELETE", f"{_BINDINGS}/{name}")
        # Not every test defines our kinds.
        with suppress(ApiError):
            path = f"namespaces/{self.namespace}/placementpolicies"
            self._api.request("DELETE", f"/apis/{POLICIES}/{path}")
            self._api.request("DELETE", f"/apis/{POLICIES}/clusterplacementpolicies")

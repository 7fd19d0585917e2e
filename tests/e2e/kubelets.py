"""Kubelets: start the pods of a namespace when they have a node, and end those that are deleted.

They follow the pods by a watch, so they also know every state that there was, in its order.
"""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any

from tests.e2e.api import Api, ApiError
from tests.e2e.bound_pods import watched_bindings
from tests.e2e.cluster import AT_ONCE
from tests.e2e.control_plane import ControlPlane

WORKERS = 4
# A pod needs a while to end; until then it takes its place.
END_SECONDS = 0.5
RUNNING = {
    "phase": "Running",
    "conditions": [{"type": each, "status": "True"} for each in ("PodScheduled", "Ready")],
}


@dataclass(frozen=True, slots=True)
class PlacedPod:
    """A pod with a node, as of one state of it."""

    name: str
    labels: Mapping[str, str]
    node: str
    terminating: bool


class Kubelets:
    """The pods that have a node, by name, as of the last state; a thread keeps them up to date."""

    def __init__(self, api: Api, namespace: str, bound: Callable[[PlacedPod], None]) -> None:
        """`bound` is told of each pod that has got a node, when `pods` has it."""
        self.pods: dict[str, PlacedPod] = {}
        self._api = api
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        self._bound = bound
        self._workers = ThreadPoolExecutor(WORKERS)

    def stop(self) -> None:
        """Start no more pods."""
        self._workers.shutdown(cancel_futures=True)

    def event(self, line: bytes) -> None:
        """Takes an event of the watch."""
        event = json.loads(line)
        pod = event["object"]
        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        if event["type"] == "DELETED":
            self.pods.pop(name, None)
            return
        terminating = "deletionTimestamp" in pod["metadata"]
        now = PlacedPod(name, pod["metadata"]["labels"], pod["spec"]["nodeName"], terminating)
        before, self.pods[name] = self.pods.get(name), now
        if before is None:
            self._bound(now)
            self._workers.submit(self._start, name, uid)
        if terminating and (before is None or not before.terminating):
            timer = threading.Timer(END_SECONDS, self._end, (name, uid))
            timer.daemon = True
            timer.start()

    def _start(self, name: str, uid: str) -> None:
        change = {"metadata": {"uid": uid}, "status": RUNNING}
        with suppress(ApiError):
            self._api.request("PATCH", f"{self._path}/{name}/status", change)

    def _end(self, name: str, uid: str) -> None:
        options: dict[str, Any] = {**AT_ONCE, "preconditions": {"uid": uid}}
        # The pod may be gone, and so may the API server when a test has ended.
        with suppress(ApiError, OSError, HTTPException):
            self._api.request("DELETE", f"{self._path}/{name}", options)


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

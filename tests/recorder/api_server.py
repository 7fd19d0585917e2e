"""API server: objects by kind, with lists and watches, as far as `placet serve` needs them.

It belongs to one process of `placet serve`. Each change has the next resource version, and a world
waits for that version to be known before it asks. Statuses and events that are written are taken
and dropped; Bindings put a pod on its node and are kept for the record.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from tests.support.fake_api_server import FakeApiServer, listening, refusal

Object = dict[str, Any]

POLICIES = "/apis/placement-policy.scheduling.x-k8s.io/v1"
PATHS = {
    "Node": "/api/v1/nodes",
    "Pod": "/api/v1/pods",
    "Namespace": "/api/v1/namespaces",
    "ReplicaSet": "/apis/apps/v1/replicasets",
    "Deployment": "/apis/apps/v1/deployments",
    "StatefulSet": "/apis/apps/v1/statefulsets",
    "Job": "/apis/batch/v1/jobs",
    "PlacementPolicy": f"{POLICIES}/placementpolicies",
    "ClusterPlacementPolicy": f"{POLICIES}/clusterplacementpolicies",
}
_ENDED = ("Succeeded", "Failed")


def key_of(item: Object) -> str:
    """`namespace/name`, or the name of what has no namespace."""
    metadata = item["metadata"]
    namespace = metadata.get("namespace")
    return f"{namespace}/{metadata['name']}" if namespace else str(metadata["name"])


class ApiServer(FakeApiServer):
    """The objects of one cluster. Make one with `api_server`, which serves it at `url`.

    `kinds_of` has all objects by kind, and `told` the version of the last event of each kind that
    watches get. While pods are held, events about them wait.
    """

    def __init__(self) -> None:
        super().__init__()
        self.kinds_of: dict[str, dict[str, Object]] = {kind: {} for kind in PATHS}
        self.told = dict.fromkeys(PATHS, 0)
        self.bindings: list[Object] = []
        self._last_of_pods = 0
        self._pods_flow = asyncio.Event()
        self._pods_flow.set()
        for path in PATHS.values():
            self.open(path)

    # ---- what a world does

    @property
    def pods_are_held(self) -> bool:
        return not self._pods_flow.is_set()

    def hold_pods(self) -> None:
        self._pods_flow.clear()

    def release_pods(self) -> None:
        if self.pods_are_held:
            self._pods_flow.set()
            self.told["Pod"] = self._last_of_pods

    def store(self, kind: str, item: Object) -> None:
        """Makes or changes an object. Pods that have ended are not shown: nobody selects them."""
        path, key = PATHS[kind], key_of(item)
        if item.get("status", {}).get("phase") not in _ENDED:
            self.put(path, key, **item)
            self.kinds_of[kind][key] = self.objects(path)[key]
        else:
            self.kinds_of[kind][key] = item
            if key not in self.objects(path):
                return
            self.objects(path)[key] = item
            self.delete(path, key)
        self._tells(kind)

    def remove(self, kind: str, key: str) -> None:
        del self.kinds_of[kind][key]
        if key in self.objects(PATHS[kind]):
            self.delete(PATHS[kind], key)
            self._tells(kind)

    def _tells(self, kind: str) -> None:
        if kind == "Pod":
            self._last_of_pods = self.version
        if kind != "Pod" or not self.pods_are_held:
            self.told[kind] = self.version

    def clear(self) -> None:
        """Deletes all objects but policies: the end of a world."""
        self.release_pods()
        for kind in PATHS:
            if not kind.endswith("Policy"):
                for key in list(self.kinds_of[kind]):
                    self.remove(kind, key)
        self.bindings.clear()

    def bind(self, key: str, node: str) -> None:
        """Puts a pod on a node, as any binder does."""
        pod = self.kinds_of["Pod"][key]
        status = {**pod["status"], "conditions": [{"type": "PodScheduled", "status": "True"}]}
        spec = {**pod["spec"], "nodeName": node}
        self.store("Pod", {**pod, "spec": spec, "status": status})

    # ---- what clients get

    async def handle(self, request: web.Request) -> web.StreamResponse:
        match request.method, request.path.split("/")[3:]:
            case "POST", ["namespaces", namespace, "pods", name, "binding"]:
                return self._bound(f"{namespace}/{name}", await request.json())
            case "GET", ["namespaces", namespace, "pods", name]:
                found = self.kinds_of["Pod"].get(f"{namespace}/{name}")
                missing = refusal(404, "NotFound", "NotFound")
                return missing if found is None else web.json_response(found)
            case "GET", _:
                return await super().handle(request)
            case _:
                return web.json_response(await request.json())

    def _bound(self, key: str, binding: Object) -> web.Response:
        pod = self.kinds_of["Pod"].get(key)
        if pod is None:
            return refusal(404, "NotFound", "NotFound")
        if pod["spec"].get("nodeName") or pod["metadata"]["uid"] != binding["metadata"]["uid"]:
            return refusal(409, "Conflict", "Conflict")
        self.bindings.append(binding)
        self.bind(key, binding["target"]["name"])
        return web.json_response({"kind": "Status", "status": "Success"}, status=201)

    async def send_line(
        self, response: web.StreamResponse, lines: asyncio.Queue[bytes], line: bytes
    ) -> None:
        if isinstance(lines, _PodLines):
            await self._pods_flow.wait()
        await super().send_line(response, lines, line)

    def lines(self, request: web.Request) -> asyncio.Queue[bytes]:
        return _PodLines() if request.path == PATHS["Pod"] else super().lines(request)


class _PodLines(asyncio.Queue[bytes]):
    """The lines of a watch of pods."""


@asynccontextmanager
async def api_server(objects: Iterable[Object] = ()) -> AsyncIterator[ApiServer]:
    """A server that listens on loopback, with these objects of its kinds."""
    server = ApiServer()
    for item in objects:
        server.store(item["kind"], item)
    async with listening(server):
        yield server

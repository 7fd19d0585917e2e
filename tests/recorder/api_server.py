"""API server: objects by collection, with lists and watches, as far as `placet serve` needs them.

It belongs to one process of `placet serve`. Each change has the next resource version, and a world
waits for that version to be known before it asks. Statuses and events that are written are taken
and dropped; Bindings put a pod on its node and are kept for the record.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

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


@dataclass
class Collection:
    """The objects of one kind, and whoever watches them.

    `version` is that of the last event which the watches were sent. While it is held, events wait.
    """

    kind: str
    objects: dict[str, Object] = field(default_factory=dict)
    history: list[tuple[int, bytes]] = field(default_factory=list)
    watches: list[asyncio.Queue[bytes]] = field(default_factory=list)
    version: int = 0
    is_held: bool = False
    _waiting: list[tuple[int, bytes]] = field(default_factory=list)

    def tell(self, version: int, event: str, item: Object) -> None:
        self._waiting.append((version, _line(event, item)))
        if not self.is_held:
            self.release()

    def release(self) -> None:
        self.is_held = False
        for version, line in self._waiting:
            self.version = version
            self.history.append((version, line))
            for watch in self.watches:
                watch.put_nowait(line)
        self._waiting.clear()


class ApiServer:
    """The objects of one cluster. Make one with `api_server`, which serves it at `url`."""

    def __init__(self) -> None:
        self.url = ""
        self.collections = {kind: Collection(kind) for kind in PATHS}
        self.bindings: list[Object] = []
        self._version = 100
        self._by_path = {path: self.collections[kind] for kind, path in PATHS.items()}

    # ---- what a world does

    def put(self, kind: str, item: Object) -> Object:
        """Makes or changes an object; returns it with its resource version."""
        self._version += 1
        collection = self.collections[kind]
        metadata = {**item["metadata"], "resourceVersion": str(self._version)}
        known = collection.objects.get(key_of(item))
        made: Object = {**item, "metadata": metadata}
        collection.objects[key_of(item)] = made
        was, shown = known is not None and _is_shown(known), _is_shown(made)
        if shown:
            collection.tell(self._version, "MODIFIED" if was else "ADDED", made)
        elif was:
            collection.tell(self._version, "DELETED", made)
        return made

    def delete(self, kind: str, key: str) -> None:
        self._version += 1
        gone = self.collections[kind].objects.pop(key)
        if _is_shown(gone):
            metadata = {**gone["metadata"], "resourceVersion": str(self._version)}
            self.collections[kind].tell(self._version, "DELETED", {**gone, "metadata": metadata})

    def clear(self) -> None:
        """Deletes all objects but policies: the end of a world."""
        for kind, collection in self.collections.items():
            if not kind.endswith("Policy"):
                collection.release()
                for key in list(collection.objects):
                    self.delete(kind, key)
        self.bindings.clear()

    def bind(self, key: str, node: str) -> None:
        """Puts a pod on a node, as any binder does."""
        pod = self.collections["Pod"].objects[key]
        scheduled = {"type": "PodScheduled", "status": "True"}
        self.put(
            "Pod",
            {
                **pod,
                "spec": {**pod["spec"], "nodeName": node},
                "status": {**pod["status"], "conditions": [scheduled]},
            },
        )

    # ---- what clients get

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        if request.method != "GET":
            return self._written(request, body)
        collection = self._by_path.get(request.path)
        if collection is None:
            return self._one(request.path)
        if "watch" in request.query:
            return await self._watch(request, collection)
        items = [item for item in collection.objects.values() if _is_shown(item)]
        metadata = {"resourceVersion": str(self._version)}
        return web.json_response({"metadata": metadata, "items": items})

    def _one(self, path: str) -> web.Response:
        match path.split("/")[3:]:
            case ["namespaces", namespace, "pods", name]:
                found = self.collections["Pod"].objects.get(f"{namespace}/{name}")
                if found is not None:
                    return web.json_response(found)
            case _:
                pass
        return _status(404, "NotFound")

    def _written(self, request: web.Request, body: bytes) -> web.Response:
        match request.path.split("/")[3:]:
            case ["namespaces", namespace, "pods", name, "binding"]:
                return self._bound(f"{namespace}/{name}", json.loads(body))
            case _:
                return web.json_response(json.loads(body), status=200)

    def _bound(self, key: str, binding: Object) -> web.Response:
        pod = self.collections["Pod"].objects.get(key)
        if pod is None:
            return _status(404, "NotFound")
        if pod["spec"].get("nodeName") or pod["metadata"]["uid"] != binding["metadata"]["uid"]:
            return _status(409, "Conflict")
        self.bindings.append(binding)
        self.bind(key, binding["target"]["name"])
        return web.json_response({"kind": "Status", "status": "Success"}, status=201)

    async def _watch(self, request: web.Request, collection: Collection) -> web.StreamResponse:
        since = int(request.query.get("resourceVersion") or 0)
        lines = [line for version, line in collection.history if version > since]
        if "sendInitialEvents" in request.query:
            lines = [_line("ADDED", i) for i in collection.objects.values() if _is_shown(i)]
            end = {"k8s.io/initial-events-end": "true"}
            metadata = {"resourceVersion": str(self._version), "annotations": end}
            lines.append(_line("BOOKMARK", {"metadata": metadata}))
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        queue: asyncio.Queue[bytes] = asyncio.Queue()
        collection.watches.append(queue)
        try:
            await response.prepare(request)
            for line in lines:
                await response.write(line)
            while True:
                await response.write(await queue.get())
        except ConnectionError:
            return response
        finally:
            collection.watches.remove(queue)


@asynccontextmanager
async def api_server(objects: Iterable[Object] = ()) -> AsyncIterator[ApiServer]:
    """A server that listens on loopback, with these objects of its kinds."""
    server = ApiServer()
    for item in objects:
        server.put(item["kind"], item)
    app = web.Application(client_max_size=2**26)
    app.router.add_route("*", "/{path:.*}", server.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None, handler_cancellation=True)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield server
    finally:
        await runner.cleanup()


def _is_shown(item: Object) -> bool:
    """Pods that have ended are not: `placet serve` selects the others."""
    return item.get("status", {}).get("phase") not in _ENDED


def _line(event: str, item: Object) -> bytes:
    return json.dumps({"type": event, "object": item}).encode() + b"\n"


def _status(code: int, reason: str) -> web.Response:
    content = {"kind": "Status", "code": code, "reason": reason, "message": reason}
    return web.json_response(content, status=code)

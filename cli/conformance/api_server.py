"""A stand-in for an API server on loopback: what an extender needs to start, and to bind pods.

It has the objects of a cluster, and those that are written. It keeps the Bindings that it gets.
Without it an extender that reads a cluster could be held to the contract in a cluster only.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any

from aiohttp import web

from cli.conformance.exchange import ConformanceCluster, Json
from cli.written_objects import merged

_KINDS = {"nodes": "Node", "pods": "Pod"}
_VERBS = ["get", "list", "watch"]
_RESOURCES = [
    {"name": name, "singularName": "", "namespaced": name == "pods", "kind": kind, "verbs": _VERBS}
    for name, kind in _KINDS.items()
]
# What clients look up before they ask for objects; only the core group has any.
_FIXED: Mapping[str, object] = {
    "/version": {"major": "1", "minor": "36", "gitVersion": "v1.36.0"},
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": []},
    "/api/v1": {"kind": "APIResourceList", "groupVersion": "v1", "resources": _RESOURCES},
    **dict.fromkeys(("/healthz", "/livez", "/readyz"), "ok"),
}


@dataclass(frozen=True, slots=True)
class ReceivedBinding:
    """A Binding that came, and the status of its answer."""

    pod: str
    uid: str
    node: str
    status: int


@dataclass(slots=True)
class StandInApi:
    """A stand-in with its objects by resource and key, and the Bindings that came."""

    objects: dict[str, dict[str, Json]] = field(default_factory=lambda: defaultdict(dict))
    bindings: list[ReceivedBinding] = field(default_factory=list)
    refuses_bindings: bool = False
    url: str = ""
    _version: int = 100
    _watches: list[tuple[str, asyncio.Queue[Json]]] = field(default_factory=list)

    def add(self, resource: str, item: Json) -> Json:
        """Creates an object, or replaces it, which open watches see; the object as it is kept."""
        held, metadata = self.objects[resource], item.get("metadata") or {}
        key = "/".join(filter(None, (metadata.get("namespace"), metadata.get("name"))))
        self._version += 1
        item = {**item, "metadata": {**metadata, "resourceVersion": str(self._version)}}
        event = {"type": "MODIFIED" if key in held else "ADDED", "object": item}
        held[key] = item
        for watched, events in self._watches:
            if watched == resource:
                events.put_nowait(event)
        return item

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answers any request of a client of Kubernetes."""
        if (fixed := _FIXED.get(request.path.rstrip("/"))) is not None:
            return web.json_response(fixed)
        parts = request.path.strip("/").split("/")
        rest = parts[2:] if parts[0] == "api" else parts[3:]
        namespace = rest[1] if rest[:1] == ["namespaces"] and len(rest) > 2 else ""
        resource, name, part, *_ = (*rest[2 if namespace else 0 :], "", "", "")
        held, key = self.objects[resource], "/".join(filter(None, (namespace, name)))
        if not resource or (request.method == "GET" and name and key not in held):
            return _status(HTTPStatus.NOT_FOUND)
        if request.method == "GET" and name:
            return web.json_response(held[key])
        if request.method == "GET":
            is_watch = request.query.get("watch") in ("true", "1")
            return await self._watch(request, resource) if is_watch else self._list(resource)
        if request.method == "DELETE":
            held.pop(key, None)
            return _status(HTTPStatus.OK)
        try:
            given = json.loads(await request.read() or b"{}")
        except ValueError:
            return _status(HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
        if part == "binding":
            return self._bind(key, given)
        if resource.endswith("accessreviews"):
            return web.json_response({**given, "status": {"allowed": True}}, status=201)
        if request.method == "PATCH":
            patched = _edited if isinstance(given, list) else merged
            given = patched(held.get(key, {}), given)
        status = 201 if request.method == "POST" else 200
        return web.json_response(self.add(resource, given), status=status)

    def _list(self, resource: str) -> web.Response:
        items = list(self.objects[resource].values())
        first = items[0] if items else {"kind": _KINDS.get(resource, "")}
        listed = {
            "kind": f"{first.get('kind', '')}List",
            "apiVersion": first.get("apiVersion", "v1"),
            "metadata": {"resourceVersion": str(self._version)},
            "items": items,
        }
        return web.json_response(listed)

    async def _watch(self, request: web.Request, resource: str) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        events: asyncio.Queue[Json] = asyncio.Queue()
        if request.query.get("sendInitialEvents") == "true":
            for each in self.objects[resource].values():
                events.put_nowait({"type": "ADDED", "object": each})
            annotations = {"k8s.io/initial-events-end": "true"}
            metadata = {"resourceVersion": str(self._version), "annotations": annotations}
            end = {"kind": _KINDS.get(resource, ""), "apiVersion": "v1", "metadata": metadata}
            events.put_nowait({"type": "BOOKMARK", "object": end})
        watch = (resource, events)
        self._watches.append(watch)
        try:
            while True:
                await response.write(json.dumps(await events.get()).encode() + b"\n")
        except ConnectionError:
            return response
        finally:
            self._watches.remove(watch)

    def _bind(self, key: str, binding: Json) -> web.Response:
        uid = (binding.get("metadata") or {}).get("uid") or ""
        node = (binding.get("target") or {}).get("name", "")
        pod = self.objects["pods"].get(key)
        status = HTTPStatus.CREATED
        if self.refuses_bindings:
            status = HTTPStatus.INTERNAL_SERVER_ERROR
        elif pod is None:
            status = HTTPStatus.NOT_FOUND
        elif pod["spec"].get("nodeName") or uid not in ("", pod["metadata"]["uid"]):
            status = HTTPStatus.CONFLICT
        else:
            self.add("pods", {**pod, "spec": {**pod["spec"], "nodeName": node}})
        self.bindings.append(ReceivedBinding(key, uid, node, status))
        return _status(status)


@asynccontextmanager
async def stand_in_api(cluster: ConformanceCluster) -> AsyncIterator[StandInApi]:
    """The server with the cluster, while the block runs."""
    api = StandInApi()
    for resource, items in (("nodes", cluster.nodes), ("pods", (*cluster.bound, *cluster.pods))):
        for item in items:
            api.add(resource, {"kind": _KINDS[resource], **item})
    for item in cluster.others:
        api.add(_plural(item["kind"]), item)
    app = web.Application(client_max_size=1 << 24)
    app.router.add_route("*", "/{path:.*}", api.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None, handler_cancellation=True)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        api.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield api
    finally:
        await runner.cleanup()


def write_kubeconfig(folder: Path, url: str) -> Path:
    """Writes a kubeconfig for the server, and returns its path."""
    name = "conformance"
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": name, "cluster": {"server": url}}],
        "users": [{"name": name, "user": {}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
    }
    path = folder / "kubeconfig"
    path.write_text(json.dumps(content), "utf-8")
    return path


def _edited(value: Any, operations: Sequence[Json]) -> Any:
    """The value after a JSON patch, RFC 6902: `add`, `replace` and `remove` of members."""
    made = deepcopy(value)
    for each in operations:
        parts = [part.replace("~1", "/").replace("~0", "~") for part in each["path"].split("/")]
        at = made
        for part in parts[1:-1]:
            at = at.setdefault(part, {})
        if each["op"] in ("add", "replace"):
            at[parts[-1]] = each.get("value")
        elif each["op"] == "remove":
            at.pop(parts[-1], None)
    return made


def _plural(kind: str) -> str:
    """The resource of a kind, as most are named: `TASPolicy` is `taspolicies`."""
    low = kind.lower()
    return f"{low[:-1]}ies" if low.endswith("y") else f"{low}es" if low.endswith("s") else f"{low}s"


def _status(status: HTTPStatus) -> web.Response:
    reason = "" if status < 400 else status.phrase.replace(" ", "")
    said = {"status": "Failure" if reason else "Success", "reason": reason, "message": reason}
    body = {"kind": "Status", "apiVersion": "v1", "code": status, **said}
    return web.json_response(body, status=status)

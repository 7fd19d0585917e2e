"""A stand-in for an API server on loopback: what an extender needs to start, and to bind pods.

It has the objects of a cluster; every other list is empty, and every other object that is written
is answered with itself. It keeps the Bindings that it gets. Without it an extender that reads a
cluster could be held to the contract in a cluster only.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any

import yaml
from aiohttp import web

from cli.conformance.exchange import ConformanceCluster, Json, merge_patched

_HELD = ("nodes", "pods")
_KINDS = {"nodes": "Node", "pods": "Pod"}
_INITIAL_END = "k8s.io/initial-events-end"


@dataclass(frozen=True, slots=True)
class ReceivedBinding:
    """A Binding that came, and the status of its answer."""

    pod: str
    uid: str
    node: str
    status: int


@dataclass(slots=True)
class StandInApi:
    """A stand-in with its objects by resource and `namespace/name`, and the Bindings that came."""

    objects: dict[str, dict[str, Json]]
    bindings: list[ReceivedBinding] = field(default_factory=list)
    refuses_bindings: bool = False
    url: str = ""
    _version: int = 100
    _watches: list[tuple[str, asyncio.Queue[bytes]]] = field(default_factory=list)
    _written: dict[str, Json] = field(default_factory=dict)

    def add_pod(self, pod: Json) -> None:
        """Creates a pod, which open watches see."""
        self._store("pods", _key(pod), pod, "ADDED")

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answers any request of a client of Kubernetes."""
        body = await request.read()
        parts = request.path.strip("/").split("/")
        if request.path == "/version":
            return web.json_response({"major": "1", "minor": "36", "gitVersion": "v1.36.0"})
        if request.path.startswith(("/healthz", "/livez", "/readyz")):
            return web.Response(text="ok")
        if len(parts) <= 2 or parts[:1] == ["openapi"]:
            return _discovery(parts)
        if parts[-1] == "binding":
            return self._bind(f"{parts[3]}/{parts[5]}", json.loads(body))
        if request.method != "GET":
            return self._write(request, body)
        resource, name = _asked(parts)
        if name:
            found = self._object(request.path, resource, name)
            return web.json_response(found) if found is not None else _status(404, "NotFound")
        if request.query.get("watch") in ("true", "1"):
            return await self._watch(request, resource)
        items = list(self.objects.get(resource, {}).values())
        kind = items[0]["kind"] if items else _KINDS.get(resource, "")
        listed = {
            "kind": f"{kind}List",
            "apiVersion": items[0].get("apiVersion", "v1") if items else "v1",
            "metadata": {"resourceVersion": str(self._version)},
            "items": items,
        }
        return web.json_response(listed)

    def _object(self, path: str, resource: str, name: str) -> Json | None:
        return self.objects.get(resource, {}).get(name) or self._written.get(path)

    async def _watch(self, request: web.Request, resource: str) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        lines: asyncio.Queue[bytes] = asyncio.Queue()
        if request.query.get("sendInitialEvents") == "true":
            for each in self.objects.get(resource, {}).values():
                lines.put_nowait(_event("ADDED", each))
            annotations = {_INITIAL_END: "true"}
            metadata = {"resourceVersion": str(self._version), "annotations": annotations}
            end = {"kind": _KINDS.get(resource, ""), "apiVersion": "v1", "metadata": metadata}
            lines.put_nowait(_event("BOOKMARK", end))
        watch = (resource, lines)
        self._watches.append(watch)
        try:
            while True:
                await response.write(await lines.get())
        except ConnectionError:
            return response
        finally:
            self._watches.remove(watch)

    def _store(self, resource: str, key: str, item: Json, event: str) -> None:
        self._version += 1
        item["metadata"]["resourceVersion"] = str(self._version)
        self.objects.setdefault(resource, {})[key] = item
        for watched, lines in self._watches:
            if watched == resource:
                lines.put_nowait(_event(event, item))

    def _bind(self, key: str, binding: Json) -> web.Response:
        metadata = binding.get("metadata") or {}
        node = (binding.get("target") or {}).get("name", "")
        pod = self.objects["pods"].get(key)
        status = HTTPStatus.CREATED
        if self.refuses_bindings:
            status = HTTPStatus.INTERNAL_SERVER_ERROR
        elif pod is None:
            status = HTTPStatus.NOT_FOUND
        elif pod["spec"].get("nodeName") or metadata.get("uid", "") not in (
            "",
            pod["metadata"]["uid"],
        ):
            status = HTTPStatus.CONFLICT
        self.bindings.append(ReceivedBinding(key, metadata.get("uid") or "", node, status))
        if pod is None or status is not HTTPStatus.CREATED:
            return _status(status, status.phrase.replace(" ", ""))
        pod["spec"]["nodeName"] = node
        self._store("pods", key, pod, "MODIFIED")
        return _status(status, "")

    def _write(self, request: web.Request, body: bytes) -> web.Response:
        """Takes an object, as a Lease, an Event or a patch of a pod."""
        resource, name = _asked(request.path.strip("/").split("/"))
        if request.method == "DELETE":
            self._written.pop(request.path, None)
            return _status(200, "")
        try:
            given = json.loads(body or b"{}")
        except ValueError:
            return _status(415, "UnsupportedMediaType")
        if "accessreviews" in request.path:
            return web.json_response({**given, "status": {"allowed": True}}, status=201)
        known = self._object(request.path, resource, name) or {}
        if request.method == "PATCH":
            given = (
                _edited(known, given) if isinstance(given, list) else merge_patched(known, given)
            )
        if not isinstance(given, dict):
            return _status(400, "BadRequest")
        metadata = given.setdefault("metadata", {})
        self._version += 1
        metadata["resourceVersion"] = str(self._version)
        if resource in _HELD and name in self.objects.get(resource, {}):
            self._store(resource, name, given, "MODIFIED")
        else:
            path = request.path if name else f"{request.path}/{metadata.get('name', '')}"
            self._written[path] = given
        return web.json_response(given, status=201 if request.method == "POST" else 200)


@asynccontextmanager
async def stand_in_api(cluster: ConformanceCluster) -> AsyncIterator[StandInApi]:
    """The server with the cluster, while the block runs."""
    nodes = {node["metadata"]["name"]: {"kind": "Node", **node} for node in cluster.nodes}
    pods = {_key(pod): {"kind": "Pod", **pod} for pod in (*cluster.bound, *cluster.pods)}
    api = StandInApi({"nodes": nodes, "pods": pods})
    for item in cluster.others:
        api.objects.setdefault(_plural(item["kind"]), {})[_key(item)] = item
    app = web.Application(client_max_size=1 << 24)
    app.router.add_route("*", "/{path:.*}", api.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None, handler_cancellation=True)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
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
    path.write_text(yaml.safe_dump(content), "utf-8")
    return path


def _asked(parts: list[str]) -> tuple[str, str]:
    """The resource of a path and the key of an object: `pods` and `default/web`."""
    rest = parts[2:] if parts[0] == "api" else parts[3:]
    namespace = ""
    if rest[:1] == ["namespaces"] and len(rest) > 2:
        namespace, rest = f"{rest[1]}/", rest[2:]
    return rest[0] if rest else "", f"{namespace}{rest[1]}" if len(rest) > 1 else ""


def _key(item: Mapping[str, Any]) -> str:
    metadata = item["metadata"]
    return f"{metadata.get('namespace', 'default')}/{metadata['name']}"


def _edited(value: Any, operations: Sequence[Json]) -> Any:
    """The value after a JSON patch, RFC 6902: `add`, `replace` and `remove` of members."""
    made = deepcopy(value)
    for each in operations:
        *path, last = (
            part.replace("~1", "/").replace("~0", "~") for part in each["path"].split("/")[1:]
        )
        at = made
        for part in path:
            at = at.setdefault(part, {})
        if each["op"] == "remove":
            at.pop(last, None)
        elif each["op"] in ("add", "replace"):
            at[last] = each.get("value")
    return made


def _plural(kind: str) -> str:
    """The resource of a kind, as most are named: `TASPolicy` is `taspolicies`."""
    low = kind.lower()
    return f"{low[:-1]}ies" if low.endswith("y") else f"{low}es" if low.endswith("s") else f"{low}s"


def _discovery(parts: list[str]) -> web.Response:
    """The groups and resources that clients look up; only the core group has any."""
    if parts == ["api"]:
        return web.json_response({"kind": "APIVersions", "versions": ["v1"]})
    if parts == ["apis"]:
        return web.json_response({"kind": "APIGroupList", "apiVersion": "v1", "groups": []})
    if parts == ["api", "v1"]:
        resources = [
            {
                "name": name,
                "singularName": "",
                "namespaced": name == "pods",
                "kind": _KINDS[name],
                "verbs": ["get", "list", "watch"],
            }
            for name in _HELD
        ]
        found = {"kind": "APIResourceList", "groupVersion": "v1", "resources": resources}
        return web.json_response(found)
    return _status(404, "NotFound")


def _event(kind: str, item: Mapping[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": item}).encode() + b"\n"


def _status(code: int, reason: str) -> web.Response:
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure" if reason else "Success",
        "code": code,
        "reason": reason,
        "message": reason,
    }
    return web.json_response(body, status=code)

"""A small API server on loopback: lists, watches, and the faults that a test asks for."""

from __future__ import annotations

import asyncio
import json
import re
from collections import deque
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ssl import SSLContext
from typing import Any

from aiohttp import web

from engine.errors import ApiError
from tests.support.object_api import ObjectApi

END = "k8s.io/initial-events-end"
# The line that tells a watch that its version is forgotten.
EXPIRED = b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}'
# The kinds of lists that commands read, by their resources, and the parts of a path.
KINDS = {
    "nodes": "Node",
    "pods": "Pod",
    "namespaces": "Namespace",
    "replicasets": "ReplicaSet",
    "deployments": "Deployment",
    "statefulsets": "StatefulSet",
    "jobs": "Job",
    "podgroups": "PodGroup",
    "resourcequotas": "ResourceQuota",
}
_KIND = re.compile(r"/(?:api/(v1)|apis/([^/]+/[^/]+))(?:/namespaces/[^/]+)?/(\w+)\Z")
_PHASE = re.compile(r"status\.phase(!?=)(\w+)")
_CUT = b"<cut>"
_CLOSE = b"<close>"


@dataclass(frozen=True)
class Request:
    """What a client asked for."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes

    @property
    def kind(self) -> str:
        """One word: `stream`, `watch`, `page` (of a list, not the first), `list`, or a method."""
        if self.method != "GET":
            return self.method
        if "watch" in self.query:
            return "stream" if "sendInitialEvents" in self.query else "watch"
        return "page" if "continue" in self.query else "list"


@dataclass(frozen=True)
class Answer:
    """What a request gets in place of its own answer."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass
class _Collection:
    objects: dict[str, dict[str, Any]] = field(default_factory=dict)
    history: list[tuple[int, bytes]] = field(default_factory=list)
    watches: list[asyncio.Queue[bytes]] = field(default_factory=list)


class FakeApiServer:
    """Objects by path and key, every change of which gets the next resource version.

    Its attributes are switches: `streams` (it knows streaming lists), `authorization` (the only
    one that it takes), `answers` (given first, in order), `initial_lines` (after so many, the next
    streaming list is closed), `dropped` (so many of the next changes are shown to no open watch),
    `forbidden` (paths that nobody may read), `held` (what ends so is answered once `go_on` is
    set). `single` has objects that clients get and change.
    """

    def __init__(self) -> None:
        self.url = ""
        self.version = 100
        self.streams = True
        self.authorization: str | None = None
        self.answers: deque[Answer] = deque()
        self.initial_lines: int | None = None
        self.dropped = 0
        self.forbidden: set[str] = set()
        self.held: str | None = None
        self.go_on = asyncio.Event()
        self.single = ObjectApi()
        self.requests: list[Request] = []
        self._changed = asyncio.Event()
        self._floor = self.version
        self._collections: dict[str, _Collection] = {}
        self._lists: dict[str, tuple[int, list[dict[str, Any]]]] = {}

    # ---- what tests do

    def put(self, path: str, name: str, **fields: Any) -> None:
        """Makes or changes an object; `namespace/name` is in a namespace."""
        collection = self._collection(path)
        self.version += 1
        namespace, _, short = name.rpartition("/")
        metadata = {"name": short, "resourceVersion": str(self.version)}
        if namespace:
            metadata["namespace"] = namespace
        kind = "MODIFIED" if name in collection.objects else "ADDED"
        collection.objects[name] = {**fields, "metadata": fields.get("metadata", {}) | metadata}
        self._tell(collection, kind, collection.objects[name])

    def open(self, path: str) -> None:
        """Makes an empty collection."""
        self._collection(path)

    def delete(self, path: str, name: str) -> None:
        """Deletes an object that is there."""
        collection = self._collection(path)
        self.version += 1
        gone = collection.objects.pop(name)
        metadata = {**gone["metadata"], "resourceVersion": str(self.version)}
        self._tell(collection, "DELETED", {**gone, "metadata": metadata})

    def objects(self, path: str) -> dict[str, dict[str, Any]]:
        """The objects there are, by `namespace/name`."""
        return self._collection(path).objects

    def remove_path(self, path: str) -> None:
        """Takes a resource away, as when its definition is deleted."""
        for queue in self._collections.pop(path, _Collection()).watches:
            queue.put_nowait(_CLOSE)

    def compact(self) -> None:
        """Forgets every state but the newest: watches and continued lists of others get 410."""
        self._floor = self.version
        self._lists.clear()

    def send(self, path: str, line: bytes) -> None:
        """Sends a line of the test's choice to every watch."""
        for queue in self._collection(path).watches:
            queue.put_nowait(line + b"\n")

    def bookmark(self, path: str) -> None:
        self.send(path, _event("BOOKMARK", {"metadata": {"resourceVersion": str(self.version)}}))

    def close_watches(self, path: str, *, within_a_line: bool = False) -> None:
        """Ends every watch; after that, its client has seen all there was before."""
        for queue in self._collection(path).watches:
            queue.put_nowait(_CUT if within_a_line else _CLOSE)

    def stall_watches(self, path: str) -> None:
        """Leaves every watch open, and never sends it a byte again."""
        self._collection(path).watches.clear()

    def watches(self, path: str) -> int:
        """How many there are at the moment."""
        return len(self._collection(path).watches)

    async def left(self, path: str) -> None:
        """Waits until the last watch is gone."""
        while self._collection(path).watches:
            self._changed.clear()
            await self._changed.wait()

    def has_been_asked(self, times: int) -> bool:
        return len(self.requests) == times

    def kinds(self) -> list[str]:
        """What was asked for, a word a request."""
        return [request.kind for request in self.requests]

    # ---- what clients get

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        asked = Request(request.method, request.path, dict(request.query), request.headers, body)
        self.requests.append(asked)
        if self.held is not None and asked.path.endswith(self.held):
            await self.go_on.wait()
        if self.authorization not in (None, request.headers.get("Authorization")):
            return refusal(401, "Unauthorized", "Unauthorized")
        if asked.path in self.forbidden:
            return refusal(403, "Forbidden", f'User "web" cannot list path "{asked.path}"')
        if self.answers:
            answer = self.answers.popleft()
            return web.Response(status=answer.status, body=answer.body, headers=answer.headers)
        if self.single.knows(asked.path):
            try:
                return web.json_response(self.single.act(asked.method, asked.path, body))
            except ApiError as error:
                return refusal(error.status, error.reason, error.message)
        if asked.path not in self._collections:
            return refusal(404, "NotFound", "the server could not find the requested resource")
        if asked.kind in ("stream", "watch"):
            return await self._watch(request, self._collections[asked.path])
        return self._list(request.query, asked.path)

    def _list(self, query: Mapping[str, str], path: str) -> web.Response:
        collection = self._collections[path]
        if token := query.get("continue"):
            if "resourceVersion" in query or "resourceVersionMatch" in query:
                return refusal(400, "BadRequest", "a version is forbidden with continue")
            if token not in self._lists:
                return refusal(410, "Expired", "The provided continue parameter is too old")
            version, items = self._lists.pop(token)
        else:
            if int(query.get("resourceVersion") or 0) > self.version:
                return _too_large()
            version, items = self.version, sorted(collection.objects.values(), key=_name)
        phases = _PHASE.findall(query.get("fieldSelector", ""))
        items = [each for each in items if _is_selected(each, phases)]
        limit = int(query.get("limit", 0)) or len(items)
        metadata = {"resourceVersion": str(version)}
        if items[limit:]:
            metadata["continue"] = f"{version}-{_name(items[limit])}"
            self._lists[metadata["continue"]] = version, items[limit:]
        kind, _, api = _KIND.sub(r"\3 \1\2", path).partition(" ")
        head = {"kind": f"{KINDS.get(kind, kind)}List", "apiVersion": api}
        return web.json_response({**head, "metadata": metadata, "items": items[:limit] or None})

    async def _watch(self, request: web.Request, collection: _Collection) -> web.StreamResponse:
        since = int(request.query.get("resourceVersion") or 0)
        initial = "sendInitialEvents" in request.query
        if initial and not self.streams:
            return refusal(422, "Invalid", "sendInitialEvents is forbidden for watch")
        if since > self.version:
            return _too_large()
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        if not initial and since < self._floor:
            status = _status_object(410, "Expired", f"too old resource version: {since}")
            await response.write(_event("ERROR", status) + b"\n")
            return response
        queue = self.lines(request)
        phases = _PHASE.findall(request.query.get("fieldSelector", ""))
        shown = set() if initial else {*collection.objects}
        for line in self._initial(collection) if initial else _since(collection, since):
            queue.put_nowait(line)
        collection.watches.append(queue)
        try:
            while (line := await queue.get()) != _CLOSE:
                if line == _CUT:
                    await response.write(b'{"type":"MODIFIED","object":{"metad')
                    assert request.transport is not None
                    request.transport.close()
                    break
                if line := _as_selected(line, phases, shown):
                    await self.send_line(response, queue, line)
        except ConnectionError:
            pass
        finally:
            if queue in collection.watches:
                collection.watches.remove(queue)
            self._changed.set()
        return response

    def lines(self, _request: web.Request) -> asyncio.Queue[bytes]:
        """What a new watch takes its lines from."""
        return asyncio.Queue()

    async def send_line(
        self, response: web.StreamResponse, _lines: asyncio.Queue[bytes], line: bytes
    ) -> None:
        """Sends a line of a watch."""
        await response.write(line)

    def _initial(self, collection: _Collection) -> Iterator[bytes]:
        lines = [
            _event("ADDED", it) + b"\n" for it in sorted(collection.objects.values(), key=_name)
        ]
        if self.initial_lines is not None:
            yield from lines[: self.initial_lines]
            yield _CLOSE
            self.initial_lines = None
            return
        yield from lines
        metadata = {"resourceVersion": str(self.version), "annotations": {END: "true"}}
        yield _event("BOOKMARK", {"metadata": metadata}) + b"\n"

    def _tell(self, collection: _Collection, kind: str, item: dict[str, Any]) -> None:
        line = _event(kind, item) + b"\n"
        collection.history.append((self.version, line))
        if self.dropped:
            self.dropped -= 1
            return
        for queue in collection.watches:
            queue.put_nowait(line)

    def _collection(self, path: str) -> _Collection:
        return self._collections.setdefault(path, _Collection())

    def stop(self) -> None:
        for path in self._collections:
            self.close_watches(path)


@asynccontextmanager
async def fake_api_server(tls: SSLContext | None = None) -> AsyncIterator[FakeApiServer]:
    """A server that listens, and has no objects yet."""
    server = FakeApiServer()
    async with listening(server, tls):
        yield server


@asynccontextmanager
async def listening(server: FakeApiServer, tls: SSLContext | None = None) -> AsyncIterator[None]:
    """The server listens while the block runs."""
    app = web.Application(client_max_size=2**24)
    app.router.add_route("*", "/{path:.*}", server.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    server.url = f"{'https' if tls else 'http'}://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield
    finally:
        server.stop()
        await runner.cleanup()


def _since(collection: _Collection, version: int) -> list[bytes]:
    return [line for changed, line in collection.history if changed > version]


def _is_selected(item: dict[str, Any], phases: list[tuple[str, str]]) -> bool:
    """Whether the phase of a pod is as a field selector says it."""
    # The API server gives a new pod this one.
    phase = item.get("status", {}).get("phase", "Pending")
    return all((phase == wanted) == (sign == "=") for sign, wanted in phases)


def _as_selected(line: bytes, phases: list[tuple[str, str]], shown: set[str]) -> bytes:
    """The line of a watch with a selector: what is not selected any more is deleted there."""
    if not phases or not line.startswith((b'{"type": "ADDED"', b'{"type": "MODIFIED"')):
        return line
    item = json.loads(line)["object"]
    name = _name(item).lstrip("/")
    if _is_selected(item, phases):
        shown.add(name)
        return line
    if name not in shown:
        return b""
    shown.remove(name)
    return _event("DELETED", item) + b"\n"


def _name(item: dict[str, Any]) -> str:
    return f"{item['metadata'].get('namespace', '')}/{item['metadata']['name']}"


def _event(kind: str, item: Mapping[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": item}).encode()


def _status_object(code: int, reason: str, message: str) -> dict[str, Any]:
    return {"kind": "Status", "code": code, "reason": reason, "message": message}


def refusal(code: int, reason: str, message: str) -> web.Response:
    """The answer of an API server that refuses a request."""
    return web.json_response(_status_object(code, reason, message), status=code)


def _too_large() -> web.Response:
    return refusal(504, "Timeout", "Too large resource version: 999, current: 1")

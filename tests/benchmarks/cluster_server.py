"""An API server with a large cluster that it makes up while it sends it; prints its address.

Arguments: how many nodes and pods. `POST /changes?count=N&rate=R` changes N pods, R a second, or as
fast as they can be sent where R is 0. With `&churn=1` a pod goes and comes back for every two
changes, so that nodes have others on them; else they have new versions and say nothing new.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

from aiohttp import web

from engine.cache.informers import BUDGETS, CONTROLLERS, NAMESPACES, POLICIES
from tests.e2e.manifests import large_node, large_pod
from tests.support.fake_api_server import END

# Lines are sent together until there is this much of them.
_CHUNK = 1 << 18
_IN_A_SET = 50
_NAMESPACES, _TEAMS = 200, 50

Line = Callable[[str, int, int], bytes]


class LargeCluster:
    """Objects of realistic size: a node is 9 kB of JSON, a pod 6 kB."""

    def __init__(self, nodes: int, pods: int) -> None:
        self._nodes = nodes
        self._pods = pods
        self._version = nodes + pods
        self._node = node_lines()
        self._pod = pod_lines(nodes)
        self._namespace = namespace_lines()
        self._lease: dict[str, Any] = {}
        self._changes: asyncio.Queue[tuple[int, float, bool]] = asyncio.Queue()

    async def nodes(self, request: web.Request) -> web.StreamResponse:
        if "watch" not in request.query:
            return self._page(request, self._node, self._nodes)
        response = await self._initial(request, self._node, self._nodes)
        await asyncio.Event().wait()
        return response

    async def namespaces(self, request: web.Request) -> web.StreamResponse:
        if "watch" not in request.query:
            return self._page(request, self._namespace, _NAMESPACES)
        response = await self._initial(request, self._namespace, _NAMESPACES)
        await asyncio.Event().wait()
        return response

    async def nothing(self, request: web.Request) -> web.StreamResponse:
        """Controllers, budgets and policies, of which there are none."""
        if "watch" not in request.query:
            return self._page(request, self._node, 0)
        response = await self._initial(request, self._node, 0)
        await asyncio.Event().wait()
        return response

    async def pods(self, request: web.Request) -> web.StreamResponse:
        if "watch" not in request.query:
            return self._page(request, self._pod, self._pods)
        response = await self._initial(request, self._pod, self._pods)
        while True:
            count, rate, churn = await self._changes.get()
            began = asyncio.get_running_loop().time()
            for number in range(count):
                self._version += 1
                kind, which = "MODIFIED", number
                if churn:
                    kind, which = "ADDED" if number % 2 else "DELETED", number // 2
                await response.write(self._pod(kind, which % self._pods, self._version))
                if rate:
                    due = began + number / rate
                    await asyncio.sleep(max(0.0, due - asyncio.get_running_loop().time()))

    async def lease(self, request: web.Request) -> web.Response:
        """The only Lease, as an API server keeps it; anybody's writing is accepted."""
        if request.method != "GET":
            lease = json.loads(await request.read())
            self._version += 1
            lease["metadata"]["resourceVersion"] = str(self._version)
            self._lease = lease
        status = web.HTTPOk.status_code if self._lease else web.HTTPNotFound.status_code
        return web.json_response(self._lease, status=status)

    async def change(self, request: web.Request) -> web.Response:
        count, rate = int(request.query["count"]), float(request.query["rate"])
        self._changes.put_nowait((count, rate, "churn" in request.query))
        return web.json_response({"resourceVersion": str(self._version + count)})

    def _page(self, request: web.Request, line: Line, count: int) -> web.Response:
        """A page of a list, whose token is the number of its first object."""
        first = int(request.query.get("continue", 0))
        # Without a limit, a client gets all in one page.
        limit = int(request.query.get("limit", count))
        last = min(first + limit, count)
        items = b",".join(_object(line("ADDED", n, n + 1)) for n in range(first, last))
        metadata = {"resourceVersion": str(self._version)}
        if last < count:
            metadata["continue"] = str(last)
        kind = self._kind(line).encode() + b"List"
        head = json.dumps(metadata).encode()
        body = b'{"kind":"%b","apiVersion":"v1","metadata":%b,"items":[%b]}' % (kind, head, items)
        return web.Response(body=body, content_type="application/json")

    def _kind(self, line: Line) -> str:
        return {self._pod: "Pod", self._namespace: "Namespace"}.get(line, "Node")

    async def _initial(self, request: web.Request, line: Line, count: int) -> web.StreamResponse:
        # client-go reads no stream of another type, and no bookmark without a kind.
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        lines = (line("ADDED", number, number + 1) for number in range(count))
        for chunk in _chunks(lines):
            await response.write(chunk)
        metadata = {"resourceVersion": str(self._version), "annotations": {END: "true"}}
        mark = {"kind": self._kind(line), "apiVersion": "v1", "metadata": metadata}
        end = {"type": "BOOKMARK", "object": mark}
        await response.write(json.dumps(end).encode() + b"\n")
        return response


def _object(event: bytes) -> bytes:
    """The object of an event."""
    return event[event.index(b'"object": ') + len(b'"object": ') : event.rindex(b"}")]


def _chunks(lines: Iterator[bytes]) -> Iterator[bytes]:
    together = bytearray()
    for line in lines:
        together += line
        if len(together) >= _CHUNK:
            yield bytes(together)
            together.clear()
    yield bytes(together)


def node_lines() -> Line:
    """Makes the event of a kind that tells of the node of a number in a version."""
    node = large_node(0, {"pool": "@pool", "topology.kubernetes.io/zone": "@zone"})
    node["metadata"] |= {"name": "@name", "uid": "@uid", "resourceVersion": "@version"}
    parts = _Parts(node)

    def line(kind: str, number: int, version: int) -> bytes:
        return parts.line(
            kind,
            name=f"n{number}",
            uid=f"{number:036x}",
            version=str(version),
            pool="web" if number % 2 else "batch",
            zone=f"eu-1{'abc'[number % 3]}",
        )

    return line


def namespace_lines() -> Line:
    """Makes the event of a kind that tells of the namespace of a number in a version."""
    labels = {"kubernetes.io/metadata.name": "@name", "team": "@team"}
    metadata = {"name": "@name", "uid": "@uid", "resourceVersion": "@version", "labels": labels}
    parts = _Parts({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})

    def line(kind: str, number: int, version: int) -> bytes:
        name, team, uid = f"team-{number}", f"t{number % _TEAMS}", f"{number:036x}"
        return parts.line(kind, name=name, team=team, uid=uid, version=str(version))

    return line


def pod_lines(nodes: int) -> Line:
    """Makes the event of a kind that tells of the pod of a number in a version."""
    pod = large_pod("@name", "@space", {"app": "@app"}, nodeName="@node")
    pod["metadata"] |= {"uid": "@uid", "resourceVersion": "@version"}
    pod["metadata"]["ownerReferences"][0] |= {"name": "@app", "uid": "@owner"}
    pod["status"] = {
        "phase": "Running",
        "podIP": "10.0.0.1",
        "conditions": [
            {"type": what, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
            for what in ("Initialized", "Ready", "ContainersReady", "PodScheduled")
        ],
    }
    parts = _Parts(pod)

    def line(kind: str, number: int, version: int) -> bytes:
        owner = number // _IN_A_SET
        return parts.line(
            kind,
            name=f"web-{owner:x}-{number:x}",
            space=f"team-{owner % _NAMESPACES}",
            app=f"web-{owner:x}",
            owner=f"{owner:036x}",
            uid=f"{number:036x}",
            node=f"n{number % nodes}",
            version=str(version),
        )

    return line


class _Parts:
    """An object's event as text, cut where something has to be filled in."""

    def __init__(self, document: dict[str, Any]) -> None:
        text = json.dumps({"type": "@kind", "object": document})
        first, *others = text.split('"@')
        self._parts = [first.encode()]
        self._names = []
        for other in others:
            name, _, rest = other.partition('"')
            self._names.append(name)
            self._parts.append(f'"{rest}'.encode())

    def line(self, kind: str, **values: str) -> bytes:
        """One event as a watch sends it."""
        filled = {"kind": kind, **values}
        pieces = [self._parts[0]]
        for name, part in zip(self._names, self._parts[1:], strict=True):
            pieces += (b'"', filled[name].encode(), part)
        pieces.append(b"\n")
        return b"".join(pieces)


async def main() -> None:
    cluster = LargeCluster(*(int(argument) for argument in sys.argv[1:]))
    app = web.Application()
    app.router.add_get("/api/v1/nodes", cluster.nodes)
    app.router.add_get("/api/v1/pods", cluster.pods)
    app.router.add_get(NAMESPACES.path, cluster.namespaces)
    for resource in (BUDGETS, *CONTROLLERS.values(), *POLICIES):
        app.router.add_get(resource.path, cluster.nothing)
    app.router.add_post("/changes", cluster.change)
    leases = "/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
    app.router.add_post(leases, cluster.lease)
    app.router.add_get(f"{leases}/{{name}}", cluster.lease)
    app.router.add_put(f"{leases}/{{name}}", cluster.lease)
    runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    sys.stdout.write(f"http://127.0.0.1:{runner.addresses[0][1]}\n")
    sys.stdout.flush()
    # Until whoever started it closes its input.
    await asyncio.to_thread(sys.stdin.read)
    await runner.cleanup()


if __name__ == "__main__":
    asyncio.run(main())

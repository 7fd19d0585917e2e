"""API server: that of a simulated cluster, over HTTP, with a door for each of its clients.

A client is known by the user that it acts as. What a nemesis does to the connection of one client,
it does at the door of that client. Whatever is stored is told to an observer at once, as etcd does.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter, deque
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from aiohttp import web

from engine.cache.informers import BUDGETS, CONTROLLERS, NAMESPACES
from engine.errors import ApiError
from tests.chaos.observer import EVICTED, NODES, PODS, POLICY_OBJECTS
from tests.e2e.control_plane import Change
from tests.support.api_proxy import ApiDoor
from tests.support.fake_api_server import EXPIRED, FakeApiServer, Request, refusal
from tests.support.lease_api import LeaseApi

Object = dict[str, Any]
_FAST, _SLOW = (0.002, 0.02), (0.3, 2.0)
_WATCH_SECONDS = 0.02
# A pod that is evicted needs a moment to end.
_END_SECONDS = 1.0
PODS_PATH, NODES_PATH = "/api/v1/pods", "/api/v1/nodes"
REPLICA_SETS = CONTROLLERS["ReplicaSet"].path
POLICIES = "/apis/placement-policy.scheduling.x-k8s.io/v1/placementpolicies"
CLUSTER_POLICIES = "/apis/placement-policy.scheduling.x-k8s.io/v1/clusterplacementpolicies"
_LEASES = "/apis/coordination.k8s.io/"
_PREFIXES = {PODS_PATH: PODS, NODES_PATH: NODES, POLICIES: POLICY_OBJECTS}


class Door(ApiDoor):
    """The way of one client to the simulated server.

    While it is `shut`, nothing passes. While it does not `flow`, everything waits. With a `delay`,
    answers take long too.
    """

    def __init__(self) -> None:
        super().__init__()
        self.shut = False
        self.flow, self.watches_flow = asyncio.Event(), asyncio.Event()
        self.watches: list[_Lines] = []
        self.flow.set()
        self.watches_flow.set()

    def cut(self) -> None:
        for each in self.watches:
            each.transport.abort()

    def expire(self) -> None:
        for each in self.watches:
            each.put_nowait(EXPIRED + b"\n")

    def freeze(self) -> None:
        self.watches_flow.clear()

    def thaw(self) -> None:
        self.watches_flow.set()

    def close(self) -> None:
        """Shut it for ever: its client has ended."""
        self.shut = True
        self.flow.set()
        self.watches_flow.set()
        self.cut()


class _Lines(asyncio.Queue[bytes]):
    """The lines of a watch of a path through a door, each with the time when it came."""

    def __init__(self, path: str, door: Door, transport: asyncio.Transport) -> None:
        super().__init__()
        self.path = path
        self.door = door
        self.transport = transport
        self.came: deque[float] = deque()

    def put_nowait(self, line: bytes) -> None:
        self.came.append(asyncio.get_running_loop().time())
        super().put_nowait(line)


class ClusterApi(FakeApiServer):
    """The objects of the cluster; `down` says that the server does not run.

    `told` takes each change of a pod, node or policy, and `sent` each request, with the user of
    its client.
    """

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.told: Callable[[Change], None] = lambda _: None
        self.sent: Callable[[str, Request], None] = lambda *_: None
        self.down = False
        self.doors: dict[str, Door] = {}
        self.leases: dict[str, LeaseApi] = {}
        # Who has acquired each Lease last, and how it looked then.
        self._holds: dict[str, tuple[str, object]] = {}
        self._seed = seed
        # How often a client has asked the same.
        self._asked: Counter[str] = Counter()
        self._uids = 0
        kinds = (resource.path for resource in CONTROLLERS.values())
        own = (PODS_PATH, NODES_PATH, POLICIES, CLUSTER_POLICIES)
        for path in (*own, NAMESPACES.path, BUDGETS.path, *kinds):
            self.open(path)

    # ---- objects

    def pods(self) -> dict[str, Object]:
        return self.objects(PODS_PATH)

    def nodes(self) -> dict[str, Object]:
        return self.objects(NODES_PATH)

    def create(self, path: str, made: Object) -> bool:
        """Store a new object. Returns whether there was none of its name."""
        key = _key(made)
        if key in self.objects(path):
            return False
        self._uids += 1
        made["metadata"].setdefault("uid", f"uid-{self._uids}")
        made["metadata"].setdefault("creationTimestamp", "2026-01-01T00:00:00Z")
        made["metadata"]["generation"] = 1
        self.change(path, made)
        return True

    def change(self, path: str, changed: Object) -> None:
        """Store a state of an object."""
        key = _key(changed)
        fields = {k: v for k, v in changed.items() if k != "metadata"}
        self.put(path, key, metadata=changed["metadata"], **fields)
        if path in _PREFIXES:
            text = json.dumps(self.objects(path)[key]).encode()
            self.told(Change(f"{_PREFIXES[path]}{key}", self.version, text))

    def remove(self, path: str, key: str) -> None:
        """Delete an object, if it is there."""
        if key not in self.objects(path):
            return
        self.delete(path, key)
        if path in _PREFIXES:
            self.told(Change(f"{_PREFIXES[path]}{key}", self.version, None))

    def bind(self, key: str, sent: Object) -> None:
        """Create a Binding. Raises ApiError."""
        if self.down:
            raise ApiError(503, "ServiceUnavailable", "it does not run")
        pod = self.pods().get(key)
        if pod is None:
            raise ApiError(404, "NotFound", f'pods "{key}" not found')
        metadata = sent["metadata"]
        if metadata.get("uid", pod["metadata"]["uid"]) != pod["metadata"]["uid"]:
            raise ApiError(409, "Conflict", "the UID in the precondition is another")
        if pod["spec"].get("nodeName"):
            raise ApiError(409, "Conflict", f"pod {key} is already assigned to a node")
        annotations = pod["metadata"].get("annotations", {}) | metadata.get("annotations", {})
        spec = pod["spec"] | {"nodeName": sent["target"]["name"]}
        conditions = {"conditions": [{"type": "PodScheduled", "status": "True"}]}
        self.change(
            PODS_PATH,
            pod
            | {
                "metadata": pod["metadata"] | {"annotations": annotations},
                "spec": spec,
                "status": pod.get("status", {}) | conditions,
            },
        )

    def evict(self, key: str) -> None:
        """Have a pod be deleted, a moment later."""
        self.set_condition(key, {"type": "DisruptionTarget", "status": "True", "reason": EVICTED})
        pod = self.pods()[key]
        metadata = pod["metadata"] | {"deletionTimestamp": "2026-01-01T00:00:00Z"}
        self.change(PODS_PATH, pod | {"metadata": metadata})
        later = asyncio.get_running_loop().call_later
        later(_END_SECONDS, self.remove, PODS_PATH, key)

    def set_condition(self, key: str, condition: Object) -> None:
        """Set a condition of a pod that is there."""
        pod = self.pods()[key]
        status = pod.get("status", {})
        others = [c for c in status.get("conditions", []) if c["type"] != condition["type"]]
        self.change(PODS_PATH, pod | {"status": status | {"conditions": [*others, condition]}})

    def lease(self, path: str) -> LeaseApi:
        """The Lease at a path, which may not be there yet."""
        return self.leases.setdefault(path, LeaseApi())

    def leader(self, path: str) -> str:
        """The client that holds a Lease; empty if nobody does, or somebody else has edited it."""
        client, hold = self._holds.get(path, ("", None))
        return client if hold is not None and _hold(self.lease(path).lease) == hold else ""

    # ---- requests

    async def handle(self, request: web.Request) -> web.StreamResponse:
        door = self._door(request)
        body = await request.read()
        asked = Request(request.method, request.path, dict(request.query), request.headers, body)
        self.sent(_client(request.headers), asked)
        await asyncio.sleep(self._dice(asked).uniform(*(_SLOW if door.delay else _FAST)))
        await door.flow.wait()
        if self._is_cut(door) or any(refuses(asked) for refuses in door.refuses):
            return _broken_off(request)
        try:
            found = await self._act(asked)
        except ApiError as error:
            response: web.StreamResponse = refusal(error.status, error.reason, error.message)
        else:
            if found is not None:
                response = web.json_response(found)
            else:
                response = await super().handle(request)
        await door.flow.wait()
        is_watch = asked.kind in ("watch", "stream")
        if not is_watch and (self._is_cut(door) or any(loses(asked) for loses in door.loses)):
            return _broken_off(request)
        return response

    def _dice(self, asked: Request) -> Random:
        """The dice of a request, which are the same whichever of two comes first."""
        name = f"{_client(asked.headers)} {asked.method} {asked.path}"
        self._asked[name] += 1
        return Random(f"{self._seed} {name} {self._asked[name]}")

    def _is_cut(self, door: Door) -> bool:
        return door.shut or self.down

    async def _act(self, asked: Request) -> Object | None:
        """The answer to a request for one object; None for lists and watches."""
        sent = json.loads(asked.body) if asked.body else {}
        if asked.path.startswith(_LEASES):
            name = f"/{sent['metadata']['name']}" if asked.kind == "POST" else ""
            path, kind = asked.path + name, asked.headers.get("Content-Type", "")
            answer = await self.lease(path).request(
                asked.method, asked.path, body=asked.body, content_type=kind
            )
            found: Object = json.loads(answer)
            if asked.method == "PUT":
                self._holds[path] = _client(asked.headers), _hold(found)
            return found
        if asked.path.endswith("/events"):
            return sent
        parts = asked.path.strip("/").split("/")
        match parts:
            case ["api", "v1", "namespaces", namespace, "pods", name, *rest]:
                return self._pod(asked, f"{namespace}/{name}", rest, sent)
            case ["apis", _, "v1", "namespaces", namespace, "placementpolicies", name, "status"]:
                return self._policy_status(POLICIES, f"{namespace}/{name}", sent)
            case ["apis", _, "v1", "clusterplacementpolicies", name, "status"]:
                return self._policy_status(CLUSTER_POLICIES, name, sent)
            case _:
                return None

    def _pod(self, asked: Request, key: str, rest: list[str], sent: Object) -> Object:
        pod = self.pods().get(key)
        if pod is None:
            raise ApiError(404, "NotFound", f'pods "{key}" not found')
        match asked.method, rest:
            case "GET", []:
                pass
            case "POST", ["binding"]:
                self.bind(key, sent)
            case "POST", ["eviction"]:
                wanted = sent["deleteOptions"]["preconditions"]["uid"]
                if wanted != pod["metadata"]["uid"]:
                    raise ApiError(409, "Conflict", "the UID in the precondition is another")
                self.evict(key)
            case "PATCH", ["status"]:
                wanted, its = sent["metadata"], pod["metadata"]
                if any(wanted[name] != its[name] for name in wanted):
                    raise ApiError(409, "Conflict", "a precondition says another")
                for condition in sent["status"].pop("conditions", ()):
                    self.set_condition(key, condition)
                if sent["status"]:
                    merged = _merged(pod.get("status"), sent["status"])
                    self.change(PODS_PATH, pod | {"status": merged})
            case _:
                raise AssertionError(asked)
        return self.pods()[key]

    def _policy_status(self, path: str, key: str, sent: Object) -> Object:
        policy = self.objects(path).get(key)
        if policy is None:
            raise ApiError(404, "NotFound", f'policies "{key}" not found')
        wanted = sent["metadata"].get("resourceVersion")
        if wanted not in (None, policy["metadata"]["resourceVersion"]):
            raise ApiError(409, "Conflict", "it has changed")
        self.change(path, policy | {"status": _merged(policy.get("status"), sent["status"])})
        return self.objects(path)[key]

    # ---- watches

    def lines(self, request: web.Request) -> asyncio.Queue[bytes]:
        assert request.transport is not None
        door = self._door(request)
        made = _Lines(request.path, door, request.transport)
        door.watches = [each for each in door.watches if not each.transport.is_closing()]
        door.watches.append(made)
        return made

    async def send_line(
        self, response: web.StreamResponse, lines: asyncio.Queue[bytes], line: bytes
    ) -> None:
        assert isinstance(lines, _Lines)
        door = lines.door
        due = lines.came.popleft() + _WATCH_SECONDS + door.delay
        await asyncio.sleep(max(0.0, due - asyncio.get_running_loop().time()))
        await door.flow.wait()
        await door.watches_flow.wait()
        if door.shut:
            raise ConnectionResetError
        if line.startswith(EXPIRED):
            edited = [line]
        else:
            edited = [] if door.swallowing else door.edit(lines.path, line.rstrip())
        for each in edited:
            await response.write(each.rstrip() + b"\n")

    def _door(self, request: web.Request) -> Door:
        return self.doors[_client(request.headers)]

    def stop_running(self) -> None:
        """The server ends: every connection breaks off."""
        self.down = True
        for door in self.doors.values():
            door.cut()


def _client(headers: Mapping[str, str]) -> str:
    return headers.get("Impersonate-User", "")


def _hold(lease: Object | None) -> object:
    """What an edit of a Lease changes, but for wishes and renewals; None without a holder."""
    if lease is None or not (spec := lease.get("spec", {})).get("holderIdentity"):
        return None
    found = (spec.get(key) for key in ("holderIdentity", "acquireTime", "leaseTransitions"))
    return lease["metadata"]["uid"], *found


def _merged(target: Any, patch: Any) -> Any:
    """What a merge patch makes of a value: it takes away what it says is null."""
    if not isinstance(patch, dict):
        return patch
    found = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            found.pop(name, None)
        else:
            found[name] = _merged(found.get(name), value)
    return found


def _key(made: Object) -> str:
    metadata = made["metadata"]
    namespace = metadata.get("namespace", "")
    return f"{namespace}/{metadata['name']}" if namespace else str(metadata["name"])


def _broken_off(request: web.Request) -> web.Response:
    """No answer: the client sees a connection that breaks off."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=502)

"""A view on loopback over a journal of the test's, and an API server that forwards to its port."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import struct
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from threading import Event, Thread

import msgspec
from aiohttp import WSMsgType, web
from prometheus_client import CollectorRegistry

from engine.cache.cache import Cache
from engine.cache.cluster_copy import DataText
from engine.cache.informers import Needs
from engine.cache.node_table import Snapshot
from engine.decision.journal import Journal
from engine.decision.recent_answers import AfterDecision
from engine.decision.verb_call import ClusterState
from engine.drift.drift_document import DriftDocument
from engine.enforced import EnforcedPolicies, PolicyNotInForce, enforced
from engine.engine import Engine
from engine.errors import EngineError
from engine.explanation.document import AuditList
from engine.program.policy_time import DecisionTime
from grammar.tree.source import Source
from grammar.values.time import Timestamp
from policies.admission import check_stored
from policies.validation import Validator
from server.admission.checking_process import CheckingProcess
from server.answers import (
    ClauseRejections,
    ClusterStatus,
    LeaseStatus,
    PolicyInForce,
    ReplicaStatus,
    WatchedResource,
)
from server.call import LimitedLog
from server.capabilities.audit import audit_list
from server.capabilities.table import CAPABILITY_ROUTES
from server.http.bodies import ByteBudget
from server.http.connections import Connections
from server.http.sockets import CONNECTIONS, listening
from server.metrics.metrics import Metrics
from server.settings import Settings
from server.view.drafts import Drafts
from server.view.explaining import Explainer
from server.view.history import History
from server.view.overview import Overview
from server.view.policy_states import PolicyStates
from server.view.routes import ViewQuestion
from server.view.view import View, view_app
from server.view.view_access import ViewAccess
from tests.support.builders import Object, node, pod, raw
from tests.support.engines import (
    CODEC,
    NOW,
    SCHEMA,
    Known,
    Silent,
    cache_of,
    engine_over,
    gangs_of,
    peer_of,
)
from tests.support.served import PROCESSES

AT = "2026-11-21T12:00:00Z"
PROTOCOL = "v4.channel.k8s.io"


def status_of(replica: str, journal: Journal) -> ReplicaStatus:
    return ReplicaStatus(
        replica=replica,
        version="1.2.3",
        at=AT,
        started=AT,
        ready=True,
        failing=(),
        policies=[PolicyInForce("shop/web", False, "enforce", 101, "0123456789ab", False, "")],
        notInForce=["shop/broken"],
        broken=[
            PolicyNotInForce("shop/broken", "the pods that it selects wait", "a.policy:1:1: …"),
            PolicyNotInForce(
                "shop/web", "its last valid version is in force instead", "web.policy:2:3: …"
            ),
        ],
        cluster=ClusterStatus(
            lease=LeaseStatus(replica, "placet-0_x", replica == "placet-0", ""),
            resources={"pods": WatchedResource(objects=3, synced=True, secondsSinceLastEvent=2.0)},
        ),
        podsInFlight=0,
        inFlight=(),
        facts={},
        rejections=[ClauseRejections("shop/web", "zone", 7)],
        decisions=journal.number,
        recorded=len(journal),
    )


def on_node(pod: bytes) -> str:
    """The node of a pod, or empty."""
    found: str = msgspec.json.decode(pod)["spec"].get("nodeName", "")
    return found


@dataclass
class Cluster:
    """What a view explains: policies as text, and pods by `namespace/name` as JSON."""

    text: str = ""
    engine: Engine | None = None
    known: Mapping[str, bytes] = field(default_factory=dict)
    failure: EngineError | None = None
    bodies: Mapping[str, bytes] = field(default_factory=dict)
    parts: Sequence[bytes] = ()
    state: ClusterState = field(default_factory=lambda: Known(cache_of([node("n")])))
    drift: DriftDocument | None = None

    @cached_property
    def enforced(self) -> EnforcedPolicies:
        stored = {n: check_stored(n, raw, SCHEMA) for n, raw in self.bodies.items()}
        files = [each.checked.file for each in stored.values()]
        validation = Validator(SCHEMA).validate([Source("p.policy", self.text)], files)
        return enforced(validation, stored)

    async def pods_named(self, keys: Collection[str]) -> Mapping[str, bytes]:
        if self.failure is not None:
            raise self.failure
        return {key: self.known[key] for key in keys if key in self.known}

    async def compare(self) -> Mapping[str, object]:
        """Nothing differs."""
        return {}

    @property
    def pods(self) -> Cache:
        pods = self.state.pods
        assert isinstance(pods, Cache), "nothing is left out"
        return pods

    def snapshot(self) -> Snapshot:
        return self.state.snapshot()

    def policies(self) -> Mapping[str, bytes]:
        return self.bodies

    async def pods_on(self, node: str) -> Mapping[str, bytes | msgspec.Raw]:
        if self.failure is not None:
            raise self.failure
        return {key: raw for key, raw in self.known.items() if on_node(raw) == node}

    async def documents(self, _needs: Needs) -> AsyncIterator[bytes]:
        if self.failure is not None:
            raise self.failure
        for part in self.parts:
            yield part


def history_of(path: Path | None = None) -> History:
    """A history without numbers."""
    return History("placet-0", path, logging.getLogger("placet"))


@dataclass
class Parts:
    """The parts of a view."""

    journal: Journal
    replica: str = "placet-0"
    cluster: Cluster = field(default_factory=Cluster)
    data: Mapping[str, DataText] = field(default_factory=dict)
    status: Callable[[str, Journal], ReplicaStatus] = status_of
    history: History = field(default_factory=history_of)
    process: CheckingProcess = PROCESSES[1]

    async def tables(self) -> Mapping[str, DataText]:
        """The tables that policies read."""
        return self.data

    @cached_property
    def engine(self) -> Engine:
        if self.cluster.engine is not None:
            return self.cluster.engine
        registry = self.cluster.enforced.registry
        return Engine(
            registry,
            self.cluster.state,
            CODEC,
            Silent(),
            after=AfterDecision(journal=self.journal),
        )


def explainer_of(parts: Parts) -> Explainer:
    cluster = parts.cluster
    return Explainer(
        parts.replica, parts.engine, parts.journal, cluster, SCHEMA, lambda: cluster.enforced
    )


def states_of(parts: Parts) -> PolicyStates:
    return PolicyStates(explainer_of(parts), parts.history)


@asynccontextmanager
async def view_of(parts: Parts) -> AsyncIterator[str]:
    """The URL of a view that listens as that of `placet serve` does."""
    app = view_over(parts)
    settings = replace(Settings(), port=0, max_connections=32)
    metrics, log = Metrics(CollectorRegistry(), "0"), LimitedLog(logging.getLogger("placet"))
    app[CONNECTIONS] = Connections(settings, ByteBudget(1 << 20), metrics, log)
    async with listening(app, settings) as url:
        yield url


def view_over(parts: Parts, access: ViewAccess | None = None) -> web.Application:
    """The application of a view."""
    explainer = explainer_of(parts)
    states = PolicyStates(explainer, parts.history)
    drafts = Drafts(parts.process, explainer, parts.tables)
    overview = Overview(explainer, states)

    async def drift(_: ViewQuestion) -> DriftDocument:
        why = "this server watches no cluster"
        return parts.cluster.drift or DriftDocument(replica=parts.replica, problem=why)

    async def audits(_: ViewQuestion) -> AuditList:
        return audit_list(parts.replica, parts.engine.audits.log)

    own = [each.answers for each in (states, explainer, overview, parts.history, drafts)]
    view = View(
        explainer,
        lambda: parts.status(parts.replica, parts.journal),
        parts.cluster.compare if parts.cluster.drift is not None else None,
        [*own, {"drift": drift, "audit": audits}],
        CAPABILITY_ROUTES,
    )
    return view_app(view, access)


# ---- an API server


@dataclass
class ForwardingApi:
    """An API server with pods, each of which has a port on loopback; it forwards as kubelets do.

    A pod without a port gets an error of its kubelet. `forbids`: nobody may forward. `asked` has
    the query of each request.
    """

    pods: dict[str, int | None]
    forbids: bool = False
    phase: str = "Running"
    asked: list[str] = field(default_factory=list)

    def app(self) -> web.Application:
        app = web.Application()
        path = "/api/v1/namespaces/{namespace}/pods"
        app.add_routes(
            [
                web.get(path, self._list),
                web.get(path + "/{name}/portforward", self._forward),
            ]
        )
        return app

    async def _list(self, request: web.Request) -> web.Response:
        self.asked.append(request.query_string)
        items = [{"metadata": {"name": n}, "status": {"phase": self.phase}} for n in self.pods]
        return web.Response(body=json.dumps({"kind": "PodList", "items": items}))

    async def _forward(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request.query_string)
        name = request.match_info["name"]
        if self.forbids:
            return web.Response(status=403, text="no")
        if name not in self.pods:
            return web.Response(status=404, text="no")
        return await forward(request, self.pods[name])


async def forward(request: web.Request, port: int | None) -> web.WebSocketResponse:
    """The part of a kubelet: connects a WebSocket with a port of 127.0.0.1."""
    socket = web.WebSocketResponse(protocols=(PROTOCOL,))
    await socket.prepare(request)
    asked = int(request.query.get("ports") or request.query["port"])
    for channel in (0, 1):
        await socket.send_bytes(bytes([channel]) + struct.pack("<H", asked))
    try:
        assert port is not None
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except (OSError, AssertionError):
        text = f"error forwarding port {asked} to pod: connection refused"
        await socket.send_bytes(b"\x01" + text.encode())
        await socket.close()
        return socket

    async def down() -> None:
        while data := await reader.read(32 * 1024):
            await socket.send_bytes(b"\x00" + data)
        await socket.close()

    async def up() -> None:
        async for message in socket:
            if message.type is WSMsgType.BINARY and message.data[:1] == b"\x00":
                writer.write(message.data[1:])
                await writer.drain()
        writer.close()

    await asyncio.gather(down(), up(), return_exceptions=True)
    return socket


# ---- for tests of commands, which have an event loop of their own


@dataclass
class Running:
    """What runs in a thread: views by URL, in their order, and the API server."""

    urls: Sequence[str]
    api_url: str
    loop: asyncio.AbstractEventLoop


@contextmanager
def running(*views: Parts, api: ForwardingApi | None = None) -> Iterator[Running]:
    """Serves views and an API server, with a pod for each view, in a thread."""
    found: list[Running] = []
    begun, end = Event(), asyncio.Event()

    async def serve() -> None:
        await _serve(views, api or ForwardingApi({}), found, begun, end)

    thread = Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    assert begun.wait(60), "the servers start"
    try:
        yield found[0]
    finally:
        found[0].loop.call_soon_threadsafe(end.set)
        thread.join(60)


async def _serve(
    views: Sequence[Parts],
    api: ForwardingApi,
    found: list[Running],
    begun: Event,
    end: asyncio.Event,
) -> None:
    async with asyncio.timeout(600):
        contexts = [view_of(parts) for parts in views]
        urls = [await context.__aenter__() for context in contexts]
        for parts, url in zip(views, urls, strict=True):
            api.pods.setdefault(parts.replica, int(url.rpartition(":")[2]))
        runner = web.AppRunner(api.app())
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        found.append(Running(urls, f"http://127.0.0.1:{port}", asyncio.get_running_loop()))
        begun.set()
        await end.wait()
        for context in contexts:
            await context.__aexit__(None, None, None)
        await runner.cleanup()


# ---- A replica that holds one of three members of a gang, for 12 seconds


POLICY = """
policy gangs {
  for pods where "job" in pod.labels
  gang "together" { of pods by peer.labels["job"] at least 3 for at most 30s }
}
"""
PODS: list[Object] = [pod(f"a-{n}", "shop", cpu="1", labels={"job": "a"}) for n in range(3)]
NODES = [node(f"n{number}", cpu="2") for number in range(2)]


def held_gang() -> Parts:
    """The parts of its view."""
    journal, seconds = Journal(now=lambda: Timestamp.parse("2026-11-21T12:00:00Z")), [100.0]
    cache = cache_of(NODES)
    after = AfterDecision(journal=journal)
    time = DecisionTime(lambda: seconds[0], lambda: NOW)
    engine: Engine = engine_over(POLICY, cache, time=time, after=after)
    for each in PODS:
        cache.put_pod(peer_of(each), body=raw(each))
    names = [each["metadata"]["name"] for each in NODES]
    decided = engine.filter(raw(PODS[0]), names, None, math.inf)
    (place,) = [n for n, code in zip(names, decided.codes, strict=True) if not code]
    assert engine.admit(raw(PODS[0]), place, math.inf).waits
    cache.assume(peer_of(PODS[0]), place, math.inf)
    gangs_of(engine).hold(peer_of(PODS[0]).uid, lambda _: None)
    seconds[0] += 12
    known = {f"shop/{each['metadata']['name']}": raw(each) for each in PODS}
    return Parts(journal, cluster=Cluster(POLICY, engine, known, state=Known(cache)))

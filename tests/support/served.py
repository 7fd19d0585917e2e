"""Served: a running extender made of parts that a test chooses, and a client to it."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import numpy as np
from aiohttp import ClientSession
from aiohttp.test_utils import TestClient
from aiohttp.web import Application
from prometheus_client import CollectorRegistry

from engine.cluster.binding import BindClient, Binding
from engine.decision.preemption import Victims
from engine.decision.verdict import FEASIBLE, Decision, Rejected, Scores, Verdict, decision
from engine.errors import RefusedError
from grammar.meaning.schema import load_schema
from policies.admission import Examiner
from server.admission.checking_process import CheckingProcess
from server.admission.webhooks import Tell, WebhookParts
from server.app import AppParts, create_app
from server.http.health import ReadinessCheck
from server.http.middleware import MisconfigurationWarnings
from server.http.sockets import Shutdown, listening
from server.metrics.metrics import Metrics
from server.settings import Settings
from server.verbs.bind import PodBinder
from tests.support.fake_clock import until


def rejected(reason: str, *, resolvable: bool = False) -> Rejected:
    """A rejection by the clause `ssd` of the policy `shop/web`."""
    return Rejected(reason, policy="shop/web", clause="ssd", resolvable=resolvable)


@dataclass(frozen=True)
class DeciderCall:
    """The arguments of one call."""

    verb: str
    pod: bytes
    names: Sequence[str]
    nodes: Sequence[bytes] | None
    deadline: float


@dataclass
class TableDecider:
    """A node that is not in `verdicts` is feasible; without `scores` no score applies.

    With `error`, every call raises it instead.
    """

    verdicts: Mapping[str, Verdict] = field(default_factory=dict)
    scores: Mapping[str, int] | None = None
    error: Exception | None = None
    calls: list[DeciderCall] = field(default_factory=list)

    def filter(
        self,
        pod: bytes,
        names: Sequence[str],
        nodes: Sequence[bytes] | None,
        deadline: float,
    ) -> Decision:
        self._record(DeciderCall("filter", pod, names, nodes, deadline))
        return decision(self.verdicts.get(name, FEASIBLE) for name in names)

    def prioritize(
        self,
        pod: bytes,
        names: Sequence[str],
        nodes: Sequence[bytes] | None,
        deadline: float,
    ) -> Scores | None:
        self._record(DeciderCall("prioritize", pod, names, nodes, deadline))
        if self.scores is None:
            return None
        return Scores(np.array([self.scores.get(name, 0) for name in names], np.int64))

    def preempt(
        self, pod: bytes, victims: Mapping[str, Victims], deadline: float
    ) -> Mapping[str, Victims]:
        self._record(DeciderCall("preempt", pod, list(victims), None, deadline))
        return {node: found for node, found in victims.items() if node not in self.verdicts}

    def _record(self, call: DeciderCall) -> None:
        self.calls.append(call)
        if self.error is not None:
            raise self.error


LOG = logging.getLogger("placet")
# Starting a process takes longer than most tests; each starts when the first test needs it.
PROCESSES = tuple(CheckingProcess(load_schema(), niceness=0) for _ in range(2))
POD = {
    "metadata": {"name": "web-1", "namespace": "shop", "uid": "u1"},
    "spec": {"containers": [{"name": "web", "image": "web"}]},
    "status": {"phase": "Pending"},
}


@dataclass(frozen=True)
class Answer:
    """A response that was read to its end."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def text(self) -> str:
        return self.body.decode()


class RefusingBinder:
    """A binder that binds no pod, and says so with this text."""

    def __init__(self, text: str = "the pod is gone") -> None:
        self._text = text

    async def bind(self, _binding: Binding, _deadline: float, _: BindClient) -> None:
        raise RefusedError(self._text)


@dataclass
class Parts:
    """The parts of an application, with defaults for each."""

    decider: TableDecider = field(default_factory=TableDecider)
    settings: Settings = field(default_factory=Settings)
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    checks: Sequence[ReadinessCheck] = ()
    nodes: int = 0
    binder: PodBinder | None = field(default_factory=RefusingBinder)
    examiner: Examiner | None = None
    shutdown: Shutdown = field(default_factory=Shutdown)
    scheduler: str = "placet"
    tell: Tell = lambda _: ()

    def app(self) -> Application:
        webhooks = None
        if self.examiner is not None:
            webhooks = WebhookParts(self.examiner, PROCESSES, self.scheduler, self.tell)
        metrics = Metrics(self.registry, "1.2.3")
        return create_app(
            AppParts(
                self.decider,
                lambda: self.checks,
                self.settings,
                metrics,
                LOG,
                "1.2.3",
                MisconfigurationWarnings(LOG, metrics, lambda: self.nodes),
                self.binder,
                webhooks,
                self.shutdown,
            )
        )


@dataclass(frozen=True)
class Served:
    """A running server: its parts, its host and port, and a client."""

    parts: Parts
    address: tuple[str, int]
    client: ClientSession | TestClient[Any, Any]

    async def post(
        self, path: str, body: object = b"", headers: dict[str, str] | None = None
    ) -> Answer:
        """Posts bytes as they are, and any other body as JSON."""
        data = body if isinstance(body, bytes) else msgspec.json.encode(body)
        return await self.request("POST", path, data, headers)

    async def get(self, path: str) -> Answer:
        return await self.request("GET", path)

    async def request(
        self,
        method: str,
        path: str,
        data: Any = None,
        headers: dict[str, str] | None = None,
    ) -> Answer:
        """Sends one request; does not follow redirects."""
        async with self.client.request(
            method, path, data=data, headers=headers, allow_redirects=False
        ) as response:
            return Answer(response.status, dict(response.headers), await response.read())

    def metric(self, name: str, **labels: str) -> float | None:
        """The value of a sample; None if there is none."""
        return self.parts.registry.get_sample_value(name, labels)

    def calls(self, verb: str, outcome: str, code: int = 200) -> float | None:
        """The number of calls of a verb that ended with this outcome and status."""
        return self.metric("placet_requests_total", verb=verb, code=str(code), outcome=outcome)

    async def until(self, name: str, value: float, **labels: str) -> None:
        """Returns when a sample has this value, in a test that is marked `fake_clock`."""
        await until(lambda: self.metric(name, **labels) == value)


@asynccontextmanager
async def serving(parts: Parts) -> AsyncIterator[Served]:
    """Listens as `placet serve` does, but on a free port."""
    async with (
        listening(parts.app(), replace(parts.settings, port=0)) as url,
        ClientSession(url) as session,
    ):
        host, _, port = url.removeprefix("http://").rpartition(":")
        yield Served(parts, (host, int(port)), session)


def names_request(*names: str) -> dict[str, object]:
    """A request of filter or prioritize with names."""
    return {"Pod": POD, "Nodes": None, "NodeNames": names}


def nodes_request(*names: str) -> dict[str, object]:
    """A request of filter or prioritize with whole nodes."""
    items = [{"metadata": {"name": name}, "status": {}} for name in names]
    return {"Pod": POD, "Nodes": {"metadata": {}, "items": items}, "NodeNames": None}


# ---- waitingBinder: keeps calls of bind in flight for as long as a test wants


BINDING = {"PodName": "p", "PodNamespace": "d", "PodUID": "u", "Node": "n"}


class WaitingBinder:
    """A binder that waits until the test lets it go on."""

    def __init__(self) -> None:
        self.bindings: asyncio.Queue[tuple[Binding, float]] = asyncio.Queue()
        self.may_go_on = asyncio.Event()

    async def bind(self, binding: Binding, deadline: float, _: BindClient) -> None:
        self.bindings.put_nowait((binding, deadline))
        await self.may_go_on.wait()

"""A server on loopback with parts that a test chose, and a client to it."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
from aiohttp import ClientSession
from aiohttp.web import Application
from prometheus_client import CollectorRegistry

from policies.admission import Examiner
from server.app import create_app
from server.debug import Decisions
from server.health import Check
from server.metrics import Metrics
from server.running import listening
from server.runtime.shutdown import Shutdown
from server.settings import Settings
from server.verbs.handlers import Binder
from tests.support.table_decider import TableDecider

LOG = logging.getLogger("placet")
POD = {
    "metadata": {"name": "web-1", "namespace": "shop", "uid": "u1"},
    "spec": {"containers": [{"name": "web", "image": "web"}]},
    "status": {"phase": "Pending"},
}


@dataclass(frozen=True)
class Answer:
    """A response: `json` of its body, for what has one."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Parts:
    """What the server of a test is made of."""

    decider: TableDecider = field(default_factory=TableDecider)
    settings: Settings = field(default_factory=Settings)
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    checks: Sequence[Check] = ()
    cluster_size: int | None = None
    binder: Binder | None = None
    examiner: Examiner | None = None
    decisions: Decisions | None = None
    shutdown: Shutdown = field(default_factory=Shutdown)

    def app(self) -> Application:
        metrics = Metrics(self.registry, "1.2.3")
        return create_app(
            self.decider,
            lambda: self.checks,
            self.settings,
            metrics,
            LOG,
            "1.2.3",
            lambda: self.cluster_size,
            binder=self.binder,
            examiner=self.examiner,
            decisions=self.decisions,
            shutdown=self.shutdown,
        )


@dataclass(frozen=True)
class Served:
    """A running server and its parts."""

    parts: Parts
    url: str
    session: ClientSession

    async def post(
        self, path: str, body: object = b"", headers: dict[str, str] | None = None
    ) -> Answer:
        """Posts bytes as they are, and anything else as JSON; redirects are not followed."""
        data = body if isinstance(body, bytes) else msgspec.json.encode(body)
        return await self.request("POST", path, data, headers)

    async def get(self, path: str) -> Answer:
        return await self.request("GET", path)

    async def request(
        self,
        method: str,
        path: str,
        data: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> Answer:
        async with self.session.request(
            method, path, data=data, headers=headers, allow_redirects=False
        ) as response:
            return Answer(response.status, dict(response.headers), await response.read())

    def metric(self, name: str, **labels: str) -> float | None:
        """The value of a sample; None if there is none."""
        return self.parts.registry.get_sample_value(name, labels)

    @property
    def address(self) -> tuple[str, int]:
        host, _, port = self.url.removeprefix("http://").rpartition(":")
        return host, int(port)


@asynccontextmanager
async def serving(parts: Parts) -> AsyncIterator[Served]:
    """Listens as `placet serve` does, but on a free port."""
    async with (
        listening(parts.app(), replace(parts.settings, port=0)) as url,
        ClientSession(url) as session,
    ):
        yield Served(parts, url, session)


def names_request(*names: str) -> dict[str, object]:
    return {"Pod": POD, "Nodes": None, "NodeNames": names}


def nodes_request(*names: str) -> dict[str, object]:
    items = [{"metadata": {"name": name}, "status": {}} for name in names]
    return {"Pod": POD, "Nodes": {"metadata": {}, "items": items}, "NodeNames": None}

"""The background tasks of a running server: each has a supervisor, and one fails without others."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession
from prometheus_client import CollectorRegistry

from engine.cache.informers import NODES, POLICIES
from engine.cache.informers import PODS as POD_RESOURCE
from engine.cluster.data_fetching import METRICS
from engine.counting.in_flight_pods import Schedulers
from engine.drift.drift_document import RepairMode
from grammar.meaning.schema import load_schema
from server.capabilities.table import CAPABILITIES, CAPABILITY_METRICS
from server.http.tls import Credentials
from server.metrics.metrics import Metrics
from server.options import Options
from server.runtime.server_runtime import serve
from server.settings import SelfSigned, TlsFiles
from tests.e2e.process import free_port
from tests.support.books import section
from tests.support.certificates import Keyring
from tests.support.fake_api_server import FakeApiServer, fake_api_server
from tests.support.kubeconfig import kubeconfig

pytestmark = pytest.mark.fake_clock
LOG = logging.getLogger("placet.test")
OBJECTS = POLICIES[0].path
SECRETS = "/api/v1/namespaces/kube-system/secrets"
# Not background work: connections, and what accepts them for as long as the server lives.
OF_CONNECTIONS = {
    "Listener._accept",
    "Listener._connect",
    # asyncio's own, until a connection that it accepted is made.
    "BaseSelectorEventLoop._accept_connection2",
    "RequestHandler.start",
    "RequestHandler._handle_request",
}


@dataclass(frozen=True)
class Server:
    """A running server and the API server that it watches."""

    url: str
    view: str
    api: FakeApiServer
    registry: CollectorRegistry
    session: ClientSession

    async def get(self, path: str) -> str:
        async with self.session.get(f"{self.url}{path}", ssl=False) as response:
            return await response.text()

    async def background(self) -> dict[str, Any]:
        found: dict[str, Any] = (await self.known())["background"]
        return found

    async def known(self) -> dict[str, Any]:
        """The state of the watched cluster, from the view."""
        async with self.session.get(f"{self.view}/api/v1/status") as response:
            found: dict[str, Any] = (await response.json())["cluster"]
            return found

    async def synced(self) -> None:
        async with asyncio.timeout(20):
            while (await self.known())["missing"]:  # noqa: ASYNC110 - no event says so
                await asyncio.sleep(0.05)

    async def until(self, path: str, holds: Callable[[str], bool]) -> str:
        async with asyncio.timeout(20):
            while True:
                if holds(text := await self.get(path)):
                    return text
                await asyncio.sleep(0.05)


@asynccontextmanager
async def running(
    folder: Path,
    *,
    keyring: Keyring | None = None,
    url: str = "",
    authorization: str | None = None,
    definitions: bool = True,
    **options: Any,
) -> AsyncIterator[Server]:
    """A server with these options, the URL of another API server and a token that this one wants.

    Without `definitions` the API server has no kinds of policies.
    """
    registry = CollectorRegistry()
    metrics = Metrics(registry, "0", CAPABILITY_METRICS)
    credentials = Credentials(keyring.files, metrics, LOG) if keyring is not None else None
    started: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    async with fake_api_server() as api, ClientSession() as session:
        for resource in (NODES, POD_RESOURCE, *(POLICIES if definitions else ())):
            api.put(resource.path, "first")
            api.delete(resource.path, "first")
        api.authorization = authorization
        file = kubeconfig(folder / "kubeconfig", url or api.url, {"token": "static"})
        view_port = free_port()
        api.single.folders = {SECRETS}
        served = Options(
            watches=True,
            kubeconfig=file,
            view_port=view_port,
            **{"port": 0, "lameduck": 0.0, **options},
        )
        serving = asyncio.create_task(
            serve(
                served,
                load_schema(),
                metrics,
                credentials,
                LOG,
                lambda url, _: started.set_result(url),
            ),
        )
        try:
            view = f"http://127.0.0.1:{view_port}"
            yield Server(await asyncio.wait_for(started, 60), view, api, registry, session)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.wait_for(serving, 10)


def documented() -> set[str]:
    """The names in the table of background tasks."""
    rows = re.findall(r"(?m)^\| (`[^|]+`) \| ", section("operations", "Background tasks"))
    return {name for row in rows for name in re.findall(r"`([^`]+)`", row)}


@pytest.mark.parametrize("repair", ["off", "dry-run"])
async def test_what_a_repair_asks_about_is_watched_where_one_is_made(
    tmp_path: Path, repair: RepairMode
) -> None:
    policy = tmp_path / "web.policy"
    clauses = 'repair at most 5 per minute filter "a" { require node.ready }'
    policy.write_text(f'policy web in namespace "shop" {{ {clauses} }}')
    async with (
        running(tmp_path, policies=[policy], repair=repair) as server,
        server.session.get(f"{server.view}/api/v1/status") as response,
    ):
        status = await response.json()
    watched = set(status["cluster"]["resources"])
    asked = {"namespaces", "poddisruptionbudgets", "replicasets", "deployments"}
    assert watched & asked == (set() if repair == "off" else asked)
    assert status["capabilities"] == [each.name for each in CAPABILITIES]


@pytest.mark.parametrize(
    ("binds", "absent"), [(False, "bound-pods"), (True, "in-flight")], ids=["without", "bindVerb"]
)
async def test_every_task_has_a_supervisor_or_serves_a_connection(
    tmp_path: Path, keyring: Keyring, *, binds: bool, absent: str
) -> None:
    """And the documentation lists it."""
    mine = asyncio.current_task()
    file = tmp_path / "kept.pem"
    kept = SelfSigned(("kube-system", "placet-tls"), ("127.0.0.1",))
    async with running(
        tmp_path,
        lease=("kube-system", "placet"),
        health_listen=("127.0.0.1", 0),
        tls=TlsFiles(file, file),
        keyring=keyring,
        self_signed=kept,
        schedulers=Schedulers(call_bind=binds),
        view_listen=("127.0.0.1", 0),
    ) as server:
        # A task that ends at once, such as `sync`, is seen too.
        seen = {task for task in asyncio.all_tasks() if task is not mine}
        await server.synced()
        seen |= {task for task in asyncio.all_tasks() if task is not mine}
        names = set(await server.background())
    kinds = {task: getattr(task.get_coro(), "__qualname__", "") for task in seen}
    supervised = {task.get_name() for task, kind in kinds.items() if kind == "Supervisor._run"}
    assert set(kinds.values()) - OF_CONNECTIONS == {"Supervisor._run", "serve"}
    assert names <= supervised
    # No policy here has data, and no namespace has its policies first.
    others = documented() - {absent, "data/NAME", "policy-first"}
    assert {re.sub("/.*", "/RESOURCE", name) for name in supervised} == others


async def test_the_lag_of_pods_that_are_new_is_measured(tmp_path: Path) -> None:
    """The first list has pods of any age, and a pod that changes is not new."""

    def put(server: Server, name: str, seconds: float) -> None:
        created = (datetime.now(UTC) - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
        version = str(server.api.version + 1)
        metadata = {"name": name, "namespace": "shop", "uid": name, "resourceVersion": version}
        metadata["creationTimestamp"] = created
        server.api.put(POD_RESOURCE.path, f"shop/{name}", metadata=metadata)

    def value(name: str, **labels: str) -> float | None:
        return server.registry.get_sample_value(f"placet_cache_new_pod_lag_seconds_{name}", labels)

    async with running(tmp_path) as server:
        await server.until("/readyz", lambda text: text == "ok")
        put(server, "late", 20.0)
        put(server, "late", 20.0)
        put(server, "soon", 0.0)
        await server.until("/metrics", lambda text: "lag_seconds_count 2.0" in text)
        assert (value("bucket", le="16.0"), value("bucket", le="64.0")) == (1, 2)
        status = await server.known()
        assert status["rejected"] == {
            "waiting": 0,
            "waitingByPolicy": {},
            "requeues": 0,
            "offered": 0,
            "refusedAgain": 0,
        }


async def test_a_duty_that_fails_is_seen_and_stops_no_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """An object that no API server stores: its status cannot be worked out."""
    async with running(tmp_path) as server:
        await server.until("/readyz", lambda text: text == "ok")
        version = str(server.api.version + 1)
        metadata = {"name": "web", "namespace": "shop", "resourceVersion": version}
        server.api.put(OBJECTS, "shop/web", metadata={**metadata, "generation": "seven"})
        text = await server.until("/readyz?verbose", lambda text: "warn: task" in text)
        assert "warn: task/statuses: ValidationError: Expected `int`" in text
        assert "[+]task/events ok" in text
        assert "[+]task/requeues ok" in text
        assert "readyz check passed" in text, "answers are right without it"
        await server.until("/metrics", lambda text: 'restarts_total{task="statuses"} 1.0' in text)
        background = await server.background()
        assert background["statuses"]["lastFailure"].startswith("ValidationError")
        assert background["events"] == {"running": True, "restarts": 0, "lastFailure": ""}
    failures = [record for record in caplog.records if "task statuses failed" in record.message]
    assert failures[0].exc_info is not None


DATA = """\
cluster policy hot {
  for pods where true
  data "load" { from metrics every 1s for at most 30s }
  data "prices" { from file "prices.csv" by "type" columns { hour: double } }
  filter "not hot" {
    require data.load[node.name].cpu < quantity("4") && size(data.prices) > 0 missing pass
  }
}
"""


async def test_tables_of_data_come_and_go_with_policies(tmp_path: Path) -> None:
    """And each source has a task, a line of `/readyz`, metrics and a place in the status."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "prices.csv").write_text("type,hour\nsmall,0.5\n")
    policy = tmp_path / "hot.policy"
    policy.write_text(DATA)
    async with running(tmp_path, policies=[policy], data_folder=tmp_path / "data") as server:
        await server.until(
            "/metrics", lambda text: 'placet_data_rows{source="prices (file)"} 1' in text
        )
        text = await server.until("/readyz?verbose", lambda text: "warn: data/load" in text)
        assert "the cluster has no metrics of nodes" in text
        assert "[+]data/prices ok" in text
        stale = {"source": "load (metrics)"}
        assert server.registry.get_sample_value("placet_data_stale", stale) == 1
        failures = server.registry.get_sample_value(
            "placet_data_failures_total", {**stale, "reason": "absent"}
        )
        assert failures is not None
        assert failures >= 1
        usage = {"cpu": "250m", "memory": "1Gi"}
        at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        items = [{"metadata": {"name": "n1"}, "timestamp": at, "usage": usage}]
        server.api.single.folders.add(METRICS.rpartition("/")[0])
        server.api.single.objects[METRICS] = {"kind": "NodeMetricsList", "items": items}
        await server.until("/readyz?verbose", lambda text: "[+]data/load ok" in text)
        await server.until(
            "/metrics", lambda text: 'placet_data_stale{source="load (metrics)"} 0' in text
        )
        assert {"data/load (metrics)", "data/prices (file)"} <= set(await server.background())
        async with server.session.get(f"{server.view}/api/v1/status") as response:
            data = (await response.json())["facts"]["data"]
        found = [(each["data"], each["from"], each["rows"], each["policies"]) for each in data]
        assert found == [("load", "metrics", 1, ["hot"]), ("prices", "file", 1, ["hot"])]
        policy.write_text("cluster policy hot { for pods where true }")
        await server.until("/readyz?verbose", lambda text: "data/" not in text)
        assert not {name for name in await server.background() if name.startswith("data/")}

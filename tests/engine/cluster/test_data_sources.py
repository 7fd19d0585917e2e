"""Sources of tables: what is asked and watched, and that a bad one harms nobody."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from engine.cluster.client import connect
from engine.cluster.data_fetching import (
    METRICS,
    METRICS_V1,
    PrometheusClient,
    SourceError,
    headers_of,
)
from engine.cluster.data_sources import DataKeeper, SourceParts
from engine.fairness import ByteAccounts
from engine.program.tables import SourceStatus, Table, TableSpec
from grammar.values.quantity import Quantity
from grammar.values.time import NEVER, SECOND
from server.supervisor import Supervisor
from tests.support.engines import CLAIMS, RACKS, spec_of
from tests.support.fake_api_server import FakeApiServer
from tests.support.fake_clock import until
from tests.support.kubeconfig import kubeconfig
from tests.support.pseudo_terminal import hung_mount

CONFIGMAPS = "/api/v1/namespaces/kube-system/configmaps"
CLAIM_PATH = "/api/v1/persistentvolumeclaims"
pytestmark = pytest.mark.fake_clock


class Kept:
    """A keeper, and what it has said."""

    def __init__(self) -> None:
        self.tables: Mapping[str, Table] = {}
        self.takes = 0
        self.failures: Counter[tuple[str, str]] = Counter()
        self.keeper: DataKeeper

    def take(self, tables: Mapping[str, Table]) -> None:
        self.tables = tables
        self.takes += 1

    def note(self, source: str, reason: str, _error: str) -> None:
        if reason:
            self.failures[source, reason] += 1

    def adopt(self, *specs: TableSpec) -> None:
        self.keeper.adopt({s.digest: s for s in specs}, {s.digest: ("p",) for s in specs})

    @property
    def table(self) -> Table:
        (table,) = self.tables.values()
        return table

    @property
    def rows(self) -> dict[str, Any]:
        """The rows of the only table, without their times, None if there is none."""
        return {
            key: tuple(getattr(row, n) for n in row.__struct_fields__ if n != "time")
            for key, row in self.table.rows.items()
        }

    @property
    def status(self) -> SourceStatus:
        (status,) = self.keeper.statuses()
        return status

    async def until(self, holds: Callable[[], bool], seconds: float = 60) -> None:
        try:
            await until(holds, seconds)
        except TimeoutError:
            raise AssertionError(f"{self.failures} {self.keeper.statuses()}") from None

    async def read(self, **rows: Any) -> None:
        """Returns when the only table has these rows."""
        await self.until(lambda: bool(self.tables) and self.rows == rows)

    async def has_failed(self, reason: str) -> str:
        await self.until(lambda: any(r == reason for _, r in self.failures))
        return self.status.error


@asynccontextmanager
async def keeping(
    api: FakeApiServer | None = None,
    folder: Path | None = None,
    prometheus: PrometheusClient | None = None,
    files: Path | None = None,
    accounts: ByteAccounts | None = None,
) -> AsyncIterator[Kept]:
    kept = Kept()
    supervisor = Supervisor(logging.getLogger("placet.test"), lambda _: None)
    client = prometheus or PrometheusClient("placet/test")
    if api is None or folder is None:
        parts = SourceParts(None, client, files)
        kept.keeper = DataKeeper(parts, supervisor.start, kept.take, kept.note)
        yield kept
    else:
        async with connect(_file(api, folder), None, version="1") as cluster:
            parts = SourceParts(cluster, client, files, accounts or ByteAccounts())
            kept.keeper = DataKeeper(parts, supervisor.start, kept.take, kept.note)
            yield kept
            await kept.keeper.close()
    await kept.keeper.close()
    assert not supervisor.tasks


def _file(api: FakeApiServer, folder: Path) -> Path:
    return kubeconfig(folder / "kubeconfig", api.url, {"token": "static"})


# ---- Prometheus

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def answer(*series: tuple[str, str], ago: float = 0.0) -> web.Response:
    result = [{"metric": {"node": n}, "value": [time.time() - ago, v]} for n, v in series]
    data = {"resultType": "vector", "result": result}
    return web.json_response({"status": "success", "data": data})


@asynccontextmanager
async def prometheus(handler: Handler) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_get("/{path:.*}", handler)
    runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def load(url: str, times: str = "every 1s for at most 3s") -> TableSpec:
    return spec_of(
        f'from prometheus "{url}" query "sum by (node) (a{{b=\'c\'}})" by "node" {times}'
    )


async def test_prometheus_is_asked_again_and_again() -> None:
    queries: list[str] = []

    async def handle(request: web.Request) -> web.Response:
        queries.append(f"{request.path} {request.query['query']}")
        return answer(("n1", str(len(queries))), ("n2", "NaN"))

    async with prometheus(handle) as url, keeping() as kept:
        kept.adopt(load(url + "/"))
        await kept.read(n1=(1.0,))
        await kept.read(n1=(2.0,))
        assert set(queries) == {"/api/v1/query sum by (node) (a{b='c'})"}
        status = kept.status
        assert (status.name, status.kind, status.policies) == ("load", "prometheus", ("p",))
        assert (status.rows, status.error, status.is_stale) == (1, "", False)
        assert status.age is not None
        assert 0 <= status.age < 1
        assert (status.left_out, status.cause) == (1, "the value of `n2` is NaN")
        assert kept.failures["load (prometheus)", "left_out"] == 2


async def test_one_source_is_asked_once_for_all_policies() -> None:
    asked = 0

    async def handle(_: web.Request) -> web.Response:
        nonlocal asked
        asked += 1
        return answer(("n1", "1"))

    async with prometheus(handle) as url, keeping() as kept:
        kept.adopt(load(url, ""))
        await kept.read(n1=(1.0,))
        kept.adopt(load(url, ""))
        kept.adopt(load(url, ""), spec_of('from file "missing.csv" by "a" columns { b: int }'))
        await kept.until(lambda: len(kept.keeper.statuses()) == 2)
        await asyncio.sleep(1)
        assert (asked, kept.takes) == (1, 1)
        kept.adopt()
        assert kept.tables == {}
        assert kept.keeper.statuses() == []


SAID = {
    "redirected": "redirects, which is not followed",
    "too_large": "answers with more than 8 MiB",
    "content": "answers with `text/html`, and not with JSON",
    "packed": "answers with packed JSON, which was not asked for",
    "refused": "answers 422: bad query",
    "denied": "answers 401",
    "unusable": "series 2 has the key `n1` again",
    "million": "it has more than 20,000 rows",
    "garbage": "the answer is not one of the API of Prometheus",
    "utf8": "is not UTF-8",
    "other": "no series has the label `node`",
    "late": "there is no whole answer within 1 s",
    "trickle": "there is no whole answer within 1 s",
    "broken": "cannot be read",
}
REASONS = {"million": "unusable", "garbage": "unusable", "utf8": "unusable", "other": "unusable"}
REASONS |= {"packed": "content", "trickle": "late", "broken": "unreachable"}


async def hostile(request: web.Request, kind: str) -> web.StreamResponse:
    json_type = {"content_type": "application/json"}
    match kind:
        case "redirected":
            raise web.HTTPFound("http://169.254.169.254/latest/meta-data/")
        case "too_large" | "trickle":
            response = web.StreamResponse(headers={"Content-Type": "application/json"})
            await response.prepare(request)
            for _ in range(50):
                await response.write(b" " * (1 << 20 if kind == "too_large" else 1))
                await asyncio.sleep(0.1 if kind == "trickle" else 0)
            return response
        case "content":
            return web.Response(text="<html>", content_type="text/html")
        case "packed":
            return web.Response(body=b"x", headers={"Content-Encoding": "br"}, **json_type)  # type: ignore[arg-type]
        case "refused":
            return web.json_response({"status": "error", "error": "bad query"}, status=422)
        case "denied":
            return web.Response(status=401)
        case "unusable":
            return answer(("n1", "1"), ("n1", "2"))
        case "million":
            item = '{"metric":{"node":"%d"},"value":[1,"1"]}'
            found = ",".join(item % n for n in range(150_000))
            text = f'{{"status":"success","data":{{"resultType":"vector","result":[{found}]}}}}'
            return web.Response(text=text, **json_type)  # type: ignore[arg-type]
        case "utf8":
            body = b'{"status":"success","data":{"resultType":"vector","result":["\xff"]}}'
            return web.Response(body=body, **json_type)  # type: ignore[arg-type]
        case "other":
            result = [{"metric": {"job": "x"}, "value": [1, "1"]}]
            data = {"resultType": "vector", "result": result}
            return web.json_response({"status": "success", "data": data})
        case "late":
            await asyncio.sleep(60)
        case "broken":
            assert request.transport is not None
            request.transport.close()
        case _:
            pass
    return web.Response(text="[]", **json_type)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", SAID)
async def test_a_hostile_prometheus_has_no_table_and_a_reason(kind: str) -> None:
    async def handle(request: web.Request) -> web.StreamResponse:
        return await hostile(request, kind)

    async with prometheus(handle) as url, keeping() as kept:
        kept.adopt(load(url))
        error = await kept.has_failed(REASONS.get(kind, kind))
        assert SAID[kind] in error
        assert kept.tables == {}


async def test_the_last_table_stays_until_it_is_stale() -> None:
    """A row has the time of its sample, and whoever reads it sees whether that is too long ago."""
    answers = [answer(("n1", "7"))]

    async def handle(request: web.Request) -> web.StreamResponse:
        return answers.pop() if answers else await hostile(request, "unusable")

    async with prometheus(handle) as url, keeping() as kept:
        kept.adopt(load(url, "every 1s for at most 60s"))
        await kept.has_failed("unusable")
        assert (kept.rows, kept.status.is_stale) == ({"n1": (7.0,)}, False)
        answers.append(answer(("n1", "8"), ago=61.0))
        await kept.read(n1=(8.0,))
        await kept.until(lambda: bool(kept.status.error))
        assert (kept.rows, kept.status.is_stale) == ({"n1": (8.0,)}, True)
        answers.append(answer(("n1", "9")))
        await kept.read(n1=(9.0,))
        assert not kept.status.is_stale


async def test_no_step_of_the_loop_is_long() -> None:
    """A large answer is taken apart in a thread, and its rows do not come at once."""
    item = '{"metric":{"node":"%d","instance":"10.0.0.1:9100","job":"node"},"value":[1,"1"]}'
    found = ",".join(item % n for n in range(20_000))
    text = f'{{"status":"success","data":{{"resultType":"vector","result":[{found}]}}}}'
    # Another process would be fairer: the server shares the loop, and has its bytes ready.
    body = text.encode()

    async def handle(_: web.Request) -> web.Response:
        return web.Response(body=body, content_type="application/json")

    longest = 0.0
    # A collection would visit what all tests before this one have left.
    gc.freeze()
    async with prometheus(handle) as url, keeping() as kept:
        kept.adopt(load(url))
        # The time of this thread: others may have the processor for long.
        before = time.thread_time()
        while not kept.tables:
            await asyncio.sleep(0)
            longest, before = max(longest, time.thread_time() - before), time.thread_time()
    gc.unfreeze()
    assert longest < 0.1


async def test_what_is_told_changes_once_a_minute_while_the_reason_stays() -> None:
    """So that what is written of it does not change at each try, and is not the first for ever."""
    said = ["a", "b"]

    async def handle(_: web.Request) -> web.Response:
        return answer(("n1", said[-1]))

    async with prometheus(handle) as url, keeping() as kept:
        kept.adopt(load(url))
        first = await kept.has_failed("unusable")
        said.append("c")
        await kept.until(lambda: kept.status.error != first)
        assert kept.status.told_error == first
        await kept.until(lambda: kept.status.told_error != first, 90)
        assert kept.status.told_error == kept.status.error
        said.append("1")
        await kept.until(lambda: not kept.status.told_error)
        assert kept.status.reason == ""


@pytest.mark.parametrize("every", [5, 300])
async def test_a_source_that_was_down_is_asked_again_after_its_time(every: int) -> None:
    asked = list[float]()

    async def handle(_: web.Request) -> web.Response:
        asked.append(asyncio.get_running_loop().time())
        return web.Response(status=503)

    async with prometheus(handle) as url, keeping() as kept:
        kept.adopt(load(url, f"every {every}s for at most {3 * every}s"))
        await kept.until(lambda: len(asked) == 6, 10 * every)
        pauses = [later - at for at, later in pairwise(asked)]
        assert max(pauses) < every + 1, pauses


async def test_nobody_listens() -> None:
    async with keeping() as kept:
        kept.adopt(load("http://127.0.0.1:1"))
        assert "`http://127.0.0.1:1` cannot be read" in await kept.has_failed("unreachable")
        assert kept.tables == {}
        assert kept.status.is_stale
        assert kept.status.age is None


async def test_a_token_is_for_https_alone(tmp_path: Path) -> None:
    headers: list[Mapping[str, str]] = []

    async def handle(request: web.Request) -> web.Response:
        headers.append(dict(request.headers))
        return answer(("n1", "1"))

    token = tmp_path / "token"
    token.write_text("secret\n")
    client = PrometheusClient("placet/1", token=token)
    async with prometheus(handle) as url, keeping(prometheus=client) as kept:
        kept.adopt(load(url))
        await kept.read(n1=(1.0,))
    assert "Authorization" not in headers[0]
    assert headers[0]["User-Agent"] == "placet/1"


async def test_headers_are_sent_and_the_words_of_a_refusal_are_told(tmp_path: Path) -> None:
    file = tmp_path / "headers"
    file.write_text("X-Scope-OrgID: shop\n")

    async def handle(request: web.Request) -> web.Response:
        if request.headers.get("X-Scope-OrgID") == "shop":
            return answer(("n1", "1"))
        return web.Response(status=401, text="no org id\n")

    client = PrometheusClient("placet/1", headers=file)
    async with prometheus(handle) as url, keeping(prometheus=client) as kept:
        kept.adopt(load(url))
        await kept.read(n1=(1.0,))
        file.write_text("")
        assert await kept.has_failed("denied") == f"`{url}` answers 401: no org id"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"message": "Missing Authentication Token"}, "Missing Authentication Token"),
        ({"error": {"code": 401, "message": "the token is old"}}, "the token is old"),
        ({"status": "error", "error": "no such tenant", "message": "other"}, "no such tenant"),
        ({"error": {"code": 401}}, ""),
        (["x"], ""),
    ],
)
async def test_the_words_of_a_gateway_are_told(body: object, words: str) -> None:
    async def handle(_: web.Request) -> web.Response:
        return web.json_response(body, status=401)

    async with prometheus(handle) as url, keeping() as kept:
        kept.adopt(load(url))
        said = f"`{url}` answers 401" + (f": {words}" if words else "")
        assert await kept.has_failed("denied") == said


@pytest.mark.parametrize("line", ["Authorization: Basic eA==", "no header", "A: x\ty", "Host: a"])
def test_headers_that_are_not_sent(line: str) -> None:
    with pytest.raises(ValueError, match="line 2 is no header that may be sent"):
        headers_of(f"X-A: b\n{line}\n".encode())


async def test_a_token_that_never_ends_is_not_read() -> None:
    client = PrometheusClient("placet/1", token=Path("/dev/zero"))
    with pytest.raises(SourceError, match="it is not a regular file"):
        await client.query("https://127.0.0.1:1", "up", 5.0)
    await client.close()


# ---- metrics of nodes


def metrics(**cpu: str) -> dict[str, Any]:
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    items = [
        {"metadata": {"name": name}, "timestamp": at, "usage": {"cpu": used, "memory": "1Gi"}}
        for name, used in cpu.items()
    ]
    return {"kind": "NodeMetricsList", "items": items}


async def test_metrics_of_nodes(server: FakeApiServer, tmp_path: Path) -> None:
    async with keeping(server, tmp_path) as kept:
        kept.adopt(spec_of("from metrics every 1s for at most 30s"))
        error = await kept.has_failed("absent")
        assert error.startswith("the cluster has no metrics of nodes")
        server.single.folders.add(METRICS.rpartition("/")[0])
        server.single.objects[METRICS] = metrics(n1="250m")
        await kept.read(n1=(Quantity.parse("250m"), Quantity.parse("1Gi")))
        assert kept.status.error == ""


async def test_metrics_of_the_version_after_it(server: FakeApiServer, tmp_path: Path) -> None:
    server.single.folders.add(METRICS_V1.rpartition("/")[0])
    server.single.objects[METRICS_V1] = metrics(n1="250m")
    async with keeping(server, tmp_path) as kept:
        kept.adopt(spec_of("from metrics"))
        await kept.read(n1=(Quantity.parse("250m"), Quantity.parse("1Gi")))


async def test_metrics_of_any_size_are_not_received(server: FakeApiServer, tmp_path: Path) -> None:
    server.single.folders.add(METRICS.rpartition("/")[0])
    server.single.objects[METRICS] = {"kind": "NodeMetricsList", "items": [], "x": " " * (9 << 20)}
    async with keeping(server, tmp_path) as kept:
        kept.adopt(spec_of("from metrics every 1s"))
        assert "sent more than 8 MiB" in await kept.has_failed("unreachable")


# ---- ConfigMaps


def config_map(server: FakeApiServer, **data: str) -> None:
    server.put(
        CONFIGMAPS, "kube-system/racks", data={k.replace("_", "."): v for k, v in data.items()}
    )


async def test_a_configmap(server: FakeApiServer, tmp_path: Path) -> None:
    server.open(CONFIGMAPS)
    async with keeping(server, tmp_path) as kept:
        kept.adopt(spec_of(RACKS, "racks"))
        assert await kept.has_failed("absent") == "there is no ConfigMap `kube-system/racks`"
        config_map(server, other="x")
        gone = "the ConfigMap `kube-system/racks` has no entry `racks.csv` in `data`"
        await kept.until(lambda: kept.status.error == gone)
        config_map(server, racks_csv="rack,watts,owner\nr1,5,ops\n")
        await kept.read(r1=(5.0, "ops"))
        assert (kept.status.error, kept.status.age, kept.table.until) == ("", 0.0, NEVER)

        takes, table = kept.takes, kept.table
        config_map(server, racks_csv="rack,watts,owner\nr1,5,ops\n", other="y")
        await asyncio.sleep(1)
        assert (kept.takes, kept.table) == (takes, table), "the same bytes make no other table"

        config_map(server, racks_csv="rack,watts,owner\nr1,hot,ops\n")
        await kept.until(lambda: kept.table.until != NEVER)
        assert kept.status.error == "line 2, column `watts`: `hot` is not a number"
        assert kept.rows == {"r1": (5.0, "ops")}
        config_map(server, racks_csv="rack,watts,owner\nr1,cold,ops\n")
        await kept.until(lambda: "cold" in kept.status.error)
        assert kept.status.told_error == kept.status.error, "not what was wrong before"
        wait = kept.table.until - time.time_ns()
        assert 290 * SECOND < wait <= 300 * SECOND
        config_map(server, racks_csv="rack,watts,owner\nr1,5,ops\n")
        await kept.until(lambda: kept.table.until == NEVER)
        assert kept.status.error == ""
        server.delete(CONFIGMAPS, "kube-system/racks")
        await kept.until(lambda: kept.table.until != NEVER)
        selectors = {r.query.get("fieldSelector") for r in server.requests}
        assert selectors == {"metadata.name=racks"}


async def test_rows_are_on_the_account_of_their_namespace(
    server: FakeApiServer, tmp_path: Path
) -> None:
    """They are counted before they are kept, and come when there is room."""
    text = "rack,watts,owner\n" + "".join(f"r{number},5,ops\n" for number in range(100))
    config_map(server, racks_csv=text)
    accounts = ByteAccounts(100_000)
    accounts.keep("kube-system", "other", 40_000)
    async with keeping(server, tmp_path, accounts=accounts) as kept:
        kept.adopt(spec_of(RACKS, "racks"))
        full = "its rows take more memory than is left for its namespace"
        assert await kept.has_failed("no_room") == full
        kept.keeper.look_for_room()
        await asyncio.sleep(1)
        assert kept.status.error == full
        accounts.drop("other")
        kept.keeper.look_for_room()
        await kept.until(lambda: len(kept.tables) == 1)
        assert kept.status.rows == 100
        assert accounts.room("kube-system", "") < 30_000
        kept.adopt()
        assert accounts.room("kube-system", "") == 50_000
        await asyncio.sleep(1)


async def test_a_watch_that_fails_and_works_again(server: FakeApiServer, tmp_path: Path) -> None:
    config_map(server, racks_csv="rack,watts,owner\nr1,5,ops\n")
    async with keeping(server, tmp_path) as kept:
        kept.adopt(spec_of(RACKS, "racks"))
        await kept.read(r1=(5.0, "ops"))
        server.forbidden.add(CONFIGMAPS)
        server.close_watches(CONFIGMAPS)
        await kept.until(lambda: kept.table.until != NEVER)
        assert "refused" in {reason for _, reason in kept.failures}
        server.forbidden.clear()
        server.bookmark(CONFIGMAPS)
        await kept.until(lambda: server.watches(CONFIGMAPS) > 0)
        server.bookmark(CONFIGMAPS)
        await kept.until(lambda: kept.table.until == NEVER)
        assert kept.rows == {"r1": (5.0, "ops")}


# ---- objects


def claims_of(server: FakeApiServer) -> None:
    server.single.folders.add("/api")
    server.single.objects["/api/v1"] = {
        "resources": [
            {"name": "persistentvolumeclaims/status", "kind": "PersistentVolumeClaim", "verbs": []},
            {
                "name": "persistentvolumeclaims",
                "kind": "PersistentVolumeClaim",
                "verbs": ["get", "list", "watch"],
            },
        ]
    }


def claim(server: FakeApiServer, name: str, volume: str | None, **status: str) -> None:
    spec = {} if volume is None else {"volumeName": volume}
    server.put(CLAIM_PATH, name, spec=spec, status=status)


async def test_objects(server: FakeApiServer, tmp_path: Path) -> None:
    claim(server, "shop/a", "pv-1")
    claim(server, "shop/b", None)
    async with keeping(server, tmp_path) as kept:
        kept.adopt(spec_of(CLAIMS, "claims"))
        found = "the cluster has no `v1/PersistentVolumeClaim` that can be watched"
        assert await kept.has_failed("absent") == found
        claims_of(server)
        await kept.read(**{"shop/a": ("pv-1",), "shop/b": (None,)})
        old = kept.table.rows["shop/a"]
        takes = kept.takes
        claim(server, "shop/a", "pv-1", phase="Bound")
        await asyncio.sleep(1)
        assert kept.takes == takes, "a change that no column shows makes no other table"
        claim(server, "shop/b", "pv-2")
        await kept.read(**{"shop/a": ("pv-1",), "shop/b": ("pv-2",)})
        assert kept.table.rows["shop/a"] is old
        server.delete(CLAIM_PATH, "shop/a")
        await kept.read(**{"shop/b": ("pv-2",)})


async def test_many_changes_of_objects_are_one(server: FakeApiServer, tmp_path: Path) -> None:
    claims_of(server)
    for number in range(2_000):
        claim(server, f"shop/{number}", "pv")
    async with keeping(server, tmp_path) as kept:
        kept.adopt(spec_of(CLAIMS, "claims"))
        await kept.until(lambda: bool(kept.tables) and len(kept.table.rows) == 2_000)
        assert kept.takes == 1
        for number in range(500):
            claim(server, f"shop/{number}", "other")
        await kept.until(lambda: kept.table.rows["shop/499"].volume == "other")
        assert kept.takes <= 4


# ---- files

PRICES = 'from file "{}" by "type" columns {{ hour: double }}'


async def test_a_file(tmp_path: Path) -> None:
    file = tmp_path / "prices.csv"
    async with keeping(files=tmp_path) as kept:
        kept.adopt(spec_of(PRICES.format("prices.csv"), "prices"))
        error = await kept.has_failed("unreadable")
        assert error == f"`{file}` cannot be read: no such file or directory"
        file.write_text("type,hour\nsmall,0.5\n")
        await kept.read(small=(0.5,))
        file.write_text("type,hour\nsmall,much\n")
        await kept.until(lambda: kept.table.until != NEVER)
        assert kept.status.error == "line 2, column `hour`: `much` is not a number"
        file.write_text("type,hour\nsmall,0.5\n")
        await kept.until(lambda: kept.table.until == NEVER)


async def test_a_pipe_stops_nothing(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "prices.csv").write_text("type,hour\nsmall,0.5\n")
    async with keeping(files=tmp_path) as kept:
        pipe = spec_of(PRICES.format("pipe.csv"), "pipe")
        kept.adopt(pipe, spec_of(PRICES.format("prices.csv"), "prices"))
        await kept.until(lambda: kept.failures["pipe (file)", "unreadable"] > 0)
        await kept.read(small=(0.5,))


async def test_without_a_folder_there_are_no_files() -> None:
    async with keeping() as kept:
        kept.adopt(spec_of(PRICES.format("prices.csv"), "prices"))
        assert await kept.has_failed("no_folder") == "this server has no `--data-folder`"


@pytest.mark.process
async def test_a_file_behind_a_hung_mount_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "mount").mkdir()
    (tmp_path / "prices.csv").write_text("type,hour\nsmall,0.5\n")
    with hung_mount(tmp_path / "mount"):
        async with keeping(files=tmp_path) as kept:
            hung = spec_of(PRICES.format("mount/a.csv"), "hung")
            kept.adopt(hung, spec_of(PRICES.format("prices.csv"), "prices"))
            await kept.read(small=(0.5,))
            await kept.until(lambda: kept.failures["hung (file)", "unreadable"] > 0)


async def test_without_a_cluster_its_sources_say_so() -> None:
    async with keeping() as kept:
        kept.adopt(spec_of("from metrics"), spec_of(CLAIMS), spec_of(RACKS))
        await kept.until(lambda: len(kept.failures) == 3)
        errors = {status.error for status in kept.keeper.statuses()}
        assert errors == {"this server has no cluster to read it from"}

"""Health: liveness and readiness as Kubernetes' components report them; and the health server."""

from __future__ import annotations

import asyncio
import http.client
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from prometheus_client import CollectorRegistry

from server.http.health import STUCK_SECONDS, Heartbeat, ReadinessCheck
from server.http.sockets import health_server
from server.metrics.metrics import Metrics
from server.settings import Settings
from tests.server.conftest import Serve
from tests.support.served import LOG

READY = [ReadinessCheck("policies"), ReadinessCheck("cluster")]
NOT_READY = [ReadinessCheck("policies"), ReadinessCheck("cluster", "no list of nodes yet")]


async def test_ready(serve: Serve) -> None:
    answer = await (await serve(checks=READY)).get("/readyz")
    assert (answer.status, answer.body) == (200, b"ok")


async def test_ready_in_detail(serve: Serve) -> None:
    answer = await (await serve(checks=READY)).get("/readyz?verbose")
    assert answer.text.splitlines() == [
        "[+]ping ok",
        "[+]policies ok",
        "[+]cluster ok",
        "readyz check passed",
    ]


@pytest.mark.parametrize("path", ["/readyz", "/readyz?verbose"])
async def test_not_ready_says_why(path: str, serve: Serve) -> None:
    answer = await (await serve(checks=NOT_READY)).get(path)
    assert answer.status == 503
    assert answer.text.splitlines() == [
        "[+]ping ok",
        "[+]policies ok",
        "[-]cluster failed: no list of nodes yet",
        "readyz check failed",
    ]


async def test_checks_can_be_excluded(serve: Serve) -> None:
    served = await serve(checks=NOT_READY)
    assert (await served.get("/readyz?exclude=cluster")).status == 200
    assert (await served.get("/readyz?exclude=policies")).status == 503
    both = await served.get("/readyz?verbose&exclude=policies&exclude=cluster&exclude=typo")
    assert both.status == 200
    assert both.text.splitlines() == [
        "[+]ping ok",
        "[+]policies excluded: ok",
        "[+]cluster excluded: ok",
        "warn: there is no check named 'typo' to exclude",
        "readyz check passed",
    ]


async def test_warnings_are_shown_and_do_not_fail(serve: Serve) -> None:
    warning = ReadinessCheck("task/events", "KeyError: 'x'", is_warning=True)
    served = await serve(checks=[*READY, warning])
    answer = await served.get("/readyz")
    assert (answer.status, answer.text) == (200, "ok\nwarn: task/events: KeyError: 'x'")
    answer = await served.get("/readyz?verbose")
    assert answer.status == 200
    assert answer.text.splitlines()[3:] == [
        "warn: task/events: KeyError: 'x'",
        "readyz check passed",
    ]
    assert (await served.get("/readyz?exclude=task/events")).text == "ok"
    not_ready = await serve(checks=[*NOT_READY, warning])
    assert (await not_ready.get("/readyz")).status == 503


async def test_live_while_not_ready(serve: Serve) -> None:
    served = await serve(checks=NOT_READY)
    for path in ("/livez", "/healthz"):
        answer = await served.get(path)
        assert (answer.status, answer.body) == (200, b"ok")
    assert b"[+]ping ok" in (await served.get("/livez?verbose")).body


async def test_version(serve: Serve) -> None:
    answer = await (await serve()).get("/version")
    assert answer.json == {"version": "1.2.3"}


# ---- the health server, in a thread of its own


@contextmanager
def serving_health(heartbeat: Heartbeat, port: int = 0) -> Iterator[str]:
    metrics = Metrics(CollectorRegistry(), "1.2.3")
    with health_server(Settings(port=port), heartbeat, metrics, "1.2.3", LOG) as url:
        yield url.removeprefix("http://")


def get(address: str, path: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection(address, timeout=60)
    connection.request("GET", path)
    response = connection.getresponse()
    found = response.status, response.read().decode()
    connection.close()
    return found


async def test_a_running_loop_is_live() -> None:
    heartbeat = Heartbeat(lambda: [ReadinessCheck("cluster")])
    beating = asyncio.create_task(heartbeat.run())
    with serving_health(heartbeat) as address:
        await asyncio.sleep(0)
        for path in ("/livez", "/healthz", "/readyz"):
            assert await asyncio.to_thread(get, address, path) == (200, "ok")
        _, text = await asyncio.to_thread(get, address, "/readyz?verbose")
        assert text.splitlines() == [
            "[+]ping ok",
            "[+]loop ok",
            "[+]cluster ok",
            "readyz check passed",
        ]
        status, text = await asyncio.to_thread(get, address, "/metrics")
        assert (status, 'placet_build_info{version="1.2.3"} 1.0' in text) == (200, True)
    beating.cancel()


async def test_a_stuck_loop_is_not_live() -> None:
    """The stuck loop is that of the test itself, which waits for each answer."""
    now = [100.0]
    heartbeat = Heartbeat(lambda: [ReadinessCheck("cluster")], clock=lambda: now[0])
    beating = asyncio.create_task(heartbeat.run())
    with serving_health(heartbeat) as address:
        await asyncio.sleep(0)
        now[0] += STUCK_SECONDS
        assert get(address, "/livez") == (200, "ok")
        now[0] += 1
        status, text = get(address, "/livez")
        assert status == 503
        silent = f"{STUCK_SECONDS + 1:.0f} seconds"
        assert f"[-]loop failed: the event loop has not run for {silent}" in text
        assert get(address, "/readyz")[0] == 503
        assert get(address, "/metrics")[0] == 200
        heartbeat.beat()
        assert await asyncio.to_thread(get, address, "/livez") == (200, "ok")
    beating.cancel()


async def test_not_ready_before_the_first_beat_and_while_a_check_fails() -> None:
    heartbeat = Heartbeat(lambda: NOT_READY)
    with serving_health(heartbeat) as address:
        assert (await asyncio.to_thread(get, address, "/livez"))[0] == 200
        _, text = await asyncio.to_thread(get, address, "/readyz")
        assert "[-]start failed: the server is starting" in text
        heartbeat.beat()
        _, text = await asyncio.to_thread(get, address, "/readyz")
        assert "[-]cluster failed: no list of nodes yet" in text


def test_a_taken_port_is_an_error() -> None:
    heartbeat = Heartbeat(lambda: ())
    with (
        serving_health(heartbeat) as address,
        pytest.raises(OSError, match="address already in use"),
        serving_health(heartbeat, int(address.rpartition(":")[2])),
    ):
        pass

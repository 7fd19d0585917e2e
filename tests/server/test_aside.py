"""Health and metrics from a thread of their own: they answer while the main loop is stuck."""

from __future__ import annotations

import asyncio
import http.client
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from prometheus_client import CollectorRegistry

from server.health import Check, Heartbeat
from server.metrics import Metrics
from server.running import health_server

ANYWHERE = ("127.0.0.1", 0)


@contextmanager
def aside(heartbeat: Heartbeat) -> Iterator[str]:
    metrics = Metrics(CollectorRegistry(), "1.2.3")
    with health_server(ANYWHERE, heartbeat, metrics, "1.2.3") as url:
        yield url.removeprefix("http://")


def get(address: str, path: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection(address, timeout=5)
    connection.request("GET", path)
    response = connection.getresponse()
    found = response.status, response.read().decode()
    connection.close()
    return found


async def test_a_loop_that_turns_lives() -> None:
    heartbeat = Heartbeat(lambda: [Check("cluster")])
    beating = asyncio.create_task(heartbeat.run())
    with aside(heartbeat) as address:
        await asyncio.sleep(0.01)
        for path in ("/livez", "/healthz", "/readyz"):
            assert await asyncio.to_thread(get, address, path) == (200, "ok")
        status, text = await asyncio.to_thread(get, address, "/readyz?verbose")
        assert text.splitlines() == [
            "[+]ping ok",
            "[+]loop ok",
            "[+]cluster ok",
            "readyz check passed",
        ]
        status, text = await asyncio.to_thread(get, address, "/metrics")
        assert (status, 'placet_build_info{version="1.2.3"} 1.0' in text) == (200, True)
    beating.cancel()


async def test_a_loop_that_is_stuck_does_not() -> None:
    """It is this one, which runs nothing but the test for a while."""
    heartbeat = Heartbeat(lambda: [Check("cluster")], seconds=0.3)
    beating = asyncio.create_task(heartbeat.run())
    with aside(heartbeat) as address:
        await asyncio.sleep(0.01)
        time.sleep(0.6)  # noqa: ASYNC251 - this is what being stuck is
        status, text = get(address, "/livez")
        assert status == 503
        assert "[-]loop failed: the event loop has not run for 1 seconds" in text
        assert get(address, "/readyz")[0] == 503
        assert get(address, "/metrics")[0] == 200
        await asyncio.sleep(0.01)
        heartbeat.beat()
        assert await asyncio.to_thread(get, address, "/livez") == (200, "ok")
    beating.cancel()


async def test_it_is_not_ready_before_the_first_beat_nor_while_a_check_fails() -> None:
    checks = [Check("shutdown", "about to end")]
    heartbeat = Heartbeat(lambda: checks)
    with aside(heartbeat) as address:
        assert (await asyncio.to_thread(get, address, "/livez"))[0] == 200
        _, text = await asyncio.to_thread(get, address, "/readyz")
        assert "[-]start failed: the server is starting" in text
        heartbeat.beat()
        _, text = await asyncio.to_thread(get, address, "/readyz")
        assert "[-]shutdown failed: about to end" in text


def test_a_taken_port_is_an_error() -> None:
    heartbeat = Heartbeat(lambda: ())
    with aside(heartbeat) as address:
        taken = ("127.0.0.1", int(address.rpartition(":")[2]))
        metrics = Metrics(CollectorRegistry(), "1.2.3")
        with (
            pytest.raises(OSError, match="address already in use"),
            health_server(taken, heartbeat, metrics, "1.2.3"),
        ):
            pass

"""Listening, and ending well: what has been asked is answered before the process goes."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from aiohttp import ClientSession, web

from server.running import listening, runner_options, serve
from server.runtime.shutdown import Shutdown
from server.settings import Settings
from tests.support.served import Parts, names_request

ANYWHERE = Settings(port=0, http_timeout=1.0, lameduck=0.0)


def app() -> web.Application:
    return Parts(settings=ANYWHERE).app()


async def test_it_listens_while_the_block_runs() -> None:
    async with (
        listening(app(), ANYWHERE) as url,
        ClientSession(url) as session,
        session.post("/filter", json=names_request("a")) as response,
    ):
        assert (await response.json())["NodeNames"] == ["a"]
    host, port = url.removeprefix("http://").split(":")
    with pytest.raises(ConnectionError):
        await asyncio.open_connection(host, int(port))


async def test_a_taken_port_is_an_error() -> None:
    async with listening(app(), ANYWHERE) as url:
        taken = Settings(port=int(url.rpartition(":")[2]))
        with pytest.raises(OSError, match="address already in use"):
            async with listening(app(), taken):
                pass


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_it(number: signal.Signals) -> None:
    started: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    running = asyncio.create_task(serve(app(), ANYWHERE, started.set_result))
    await started
    before = signal.getsignal(number)
    os.kill(os.getpid(), number)
    await asyncio.wait_for(running, 5)
    assert signal.getsignal(number) != before


async def test_a_call_in_flight_is_answered() -> None:
    """A body that is still on its way will not arrive any more; its sender is told so."""
    started: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    running = asyncio.create_task(serve(app(), ANYWHERE, started.set_result))
    host, port = (await started).removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"POST /filter HTTP/1.1\r\nHost: placet\r\nContent-Length: 500\r\n\r\n{")
    await writer.drain()
    await asyncio.sleep(0.05)
    os.kill(os.getpid(), signal.SIGTERM)
    answer = await asyncio.wait_for(reader.read(), 5)
    assert b'"Error":"the body of the request did not arrive in time"' in answer
    await asyncio.wait_for(running, 5)
    writer.close()


@asynccontextmanager
async def leaving(settings: Settings) -> AsyncIterator[tuple[str, asyncio.Task[None]]]:
    """A server that has got its SIGTERM, with its URL and what runs until it has ended."""
    started: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    shutdown = Shutdown()
    parts = Parts(settings=settings, shutdown=shutdown)
    running = asyncio.create_task(serve(parts.app(), settings, started.set_result, None, shutdown))
    url = await started
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.sleep(0.05)
    assert shutdown.has_begun
    try:
        yield url, running
    finally:
        await asyncio.wait_for(running, 5)


async def test_it_serves_on_while_others_hear_of_its_end() -> None:
    """C2: connections end with an answer, so that nobody writes into one that is being closed."""
    settings = replace(ANYWHERE, lameduck=0.5)
    async with leaving(settings) as (url, running), ClientSession(url) as session:
        for _ in range(2):
            async with session.post("/filter", json=names_request("a")) as response:
                assert (await response.json())["NodeNames"] == ["a"]
                assert response.headers["Connection"] == "close"
        assert not running.done()
    with pytest.raises(ConnectionError):
        await asyncio.open_connection(*url.removeprefix("http://").split(":"))


def test_connections_are_kept_longer_than_kube_scheduler_keeps_them() -> None:
    """C2: aiohttp's own default is 75 seconds, and kube-scheduler's is 90."""
    assert runner_options(Settings())["keepalive_timeout"] == 120

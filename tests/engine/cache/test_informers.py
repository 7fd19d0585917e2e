"""Informers: what is watched, from the start to the end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from engine.cache.informers import Informers, Needs
from engine.cache.reflector import Timing
from tests.support.engines import CODEC
from tests.support.fake_api_server import fake_api_server
from tests.support.kubeconfig import client_of


async def test_nothing_is_watched_after_the_end(tmp_path: Path) -> None:
    """Policies may still be read when a server ends, and they say what is to be watched."""
    started: list[str] = []

    def start(name: str, work: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
        async def run() -> None:
            await work()

        started.append(name)
        return asyncio.create_task(run())

    async with fake_api_server() as server, client_of(server.url, tmp_path) as client:
        informers = Informers(client, CODEC, Timing(), start)
        informers.start(Needs())
        assert "reflector/nodes" in started
        started.clear()
        await informers.stop()
        informers.start(Needs())
        assert started == []
        assert list(informers.informers) == []

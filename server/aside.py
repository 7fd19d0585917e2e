"""Health and metrics from a thread and an event loop of their own, whatever the main one does."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager

from aiohttp import web

from server.health import Health
from server.metrics import Metrics
from server.pulse import Pulse
from server.routes import operations_routes
from server.running import listening
from server.settings import Settings

# For probes that are at it when the server ends.
_FAREWELL_SECONDS = 1.0


@contextmanager
def serving_aside(
    address: tuple[str, int], pulse: Pulse, metrics: Metrics, version: str
) -> Iterator[str]:
    """Serves while the block runs, which gets the URL. Raises OSError.

    It is plain HTTP, for probes and scrapers.
    """
    started: Future[str] = Future()
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()

    async def serve() -> None:
        app = web.Application()
        health = Health(pulse.readiness, version, pulse.liveness)
        app.add_routes(operations_routes(health, metrics))
        host, port = address
        try:
            settings = Settings(host=host, port=port, http_timeout=_FAREWELL_SECONDS)
            async with listening(app, settings) as url:
                started.set_result(url)
                await stop.wait()
        except Exception as error:
            if started.done():
                raise
            started.set_exception(error)

    def run() -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(serve())

    thread = threading.Thread(target=run, name="health", daemon=True)
    thread.start()
    try:
        yield started.result()
    finally:
        if not started.exception():
            loop.call_soon_threadsafe(stop.set)
        thread.join()

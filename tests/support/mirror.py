"""A reflector of a fake API server's pods on a fake clock, and the waits that it asks for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from engine.cache.list_watch import ListerWatcher, Resource
from engine.cache.reflector import Reflector, Timing
from tests.support.fake_api_server import FakeApiServer
from tests.support.fake_clock import until
from tests.support.object_api import ObjectStore

PODS = "/api/v1/pods"
SELECTOR = "status.phase!=Succeeded,status.phase!=Failed"
# The backoff of production, a hundred times as fast.
QUICK = Timing(backoff_first=0.002, backoff_most=0.016, watch_shortest=0.0, idle=5.0)


@dataclass
class Waits:
    """The waits that a reflector asks for."""

    seconds: list[float] = field(default_factory=list)

    async def sleep(self, seconds: float) -> None:
        self.seconds.append(seconds)
        await asyncio.sleep(seconds)


@dataclass
class Mirror:
    """A server, and what a reflector has made of its pods."""

    server: FakeApiServer
    store: ObjectStore
    reflector: Reflector
    waits: Waits
    # The failures of "watch pods" as they are reported; an empty one says that it works.
    reports: list[str]

    def equal(self) -> bool:
        return self.reflector.synced and self.store.objects == self.server.objects(PODS)

    async def until(self, true: Callable[[], bool]) -> None:
        with suppress(TimeoutError):
            await until(true, 400.0)
        assert true(), (self.reflector.failure, self.server.kinds(), self.store.objects)

    async def watching(self) -> None:
        """Waits until nothing is left to do."""
        await self.until(lambda: self.equal() and self.server.watches(PODS) == 1)


@asynccontextmanager
async def mirror_of(
    server: FakeApiServer,
    source: ListerWatcher,
    timing: Timing = QUICK,
    *,
    optional: bool = False,
    path: str = PODS,
    others: tuple[str, ...] = (),
) -> AsyncIterator[Mirror]:
    """Runs a reflector whose dice always show the middle."""
    waits, store, reports = Waits(), ObjectStore(), list[str]()
    resource = Resource("pods", path, SELECTOR, optional=optional, others=others)

    def report(work: str, failure: str) -> None:
        assert work == "watch pods"
        reports.append(failure)

    reflector = Reflector(
        resource,
        source,
        store,
        timing=timing,
        clock=asyncio.get_running_loop().time,
        sleep=waits.sleep,
        random=lambda: 0.5,
        report=report,
    )
    running = asyncio.create_task(reflector.run())
    try:
        yield Mirror(server, store, reflector, waits, reports)
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


# ---- memory transport: the transport of a connection without a socket; it keeps what is written


class MemoryTransport(asyncio.Transport):
    """A transport of which a test reads what was written, and whether it was closed."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.is_closed = self.is_aborted = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.is_closed
        self.written += data

    def take(self) -> bytes:
        """What was written since the last time."""
        taken, self.written = self.written, b""
        return taken

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_closed = self.is_aborted = True

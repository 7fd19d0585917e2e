"""Whether the server lives, is ready, and which it is, as Kubernetes' own components tell it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec
from aiohttp import web

from server.metrics import Metrics


@dataclass(frozen=True, slots=True)
class Check:
    """Something that must be so before the server should be asked; empty `failure` means it is."""

    name: str
    failure: str = ""


Readiness = Callable[[], Sequence[Check]]


class Health:
    """`/livez` and `/readyz`, which take `verbose` and `exclude=NAME`, and `/version`."""

    def __init__(
        self, readiness: Readiness, version: str, liveness: Readiness = lambda: ()
    ) -> None:
        self._readiness = readiness
        self._liveness = liveness
        self._version = msgspec.json.encode({"version": version})

    async def live(self, request: web.Request) -> web.Response:
        """That the event loop got here is the check of this one."""
        return _report("livez", [Check("ping"), *self._liveness()], request)

    async def ready(self, request: web.Request) -> web.Response:
        return _report("readyz", [Check("ping"), *self._readiness()], request)

    async def version(self, _request: web.Request) -> web.Response:
        return web.Response(body=self._version, content_type="application/json")


def _report(name: str, checks: Sequence[Check], request: web.Request) -> web.Response:
    """`ok`, or a line per check where one fails or the request says `verbose`."""
    excluded = set(request.query.getall("exclude", ()))
    lines = [_line(check, is_excluded=check.name in excluded) for check in checks]
    unknown = excluded - {check.name for check in checks}
    lines += [f"warn: there is no check named {other!r} to exclude" for other in sorted(unknown)]
    if any(check.failure and check.name not in excluded for check in checks):
        text = "\n".join([*lines, f"{name} check failed\n"])
        return web.Response(status=503, text=text)
    if "verbose" in request.query:
        return web.Response(text="\n".join([*lines, f"{name} check passed\n"]))
    return web.Response(text="ok")


def _line(check: Check, *, is_excluded: bool) -> str:
    if is_excluded:
        return f"[+]{check.name} excluded: ok"
    if check.failure:
        return f"[-]{check.name} failed: {check.failure}"
    return f"[+]{check.name} ok"


# ---- Whether the event loop that decides still turns, and what it last knew: for other threads.

_BEAT_SECONDS = 0.5
# A decision takes seconds at the most, and after one of them other things have their turn.
STUCK_SECONDS = 10.0


class Heartbeat:
    """Written by one event loop, read from any thread: everything is replaced whole.

    `seconds` without a beat are an event loop that is stuck.
    """

    def __init__(
        self,
        readiness: Readiness,
        seconds: float = STUCK_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._readiness = readiness
        self._seconds = seconds
        self._clock = clock
        self._last: tuple[float, Sequence[Check]] = (clock(), [Check("start", "not yet")])

    async def run(self) -> None:
        """Beats until it is cancelled, on the event loop that is watched."""
        while True:
            self.beat()
            await asyncio.sleep(_BEAT_SECONDS)

    def beat(self) -> None:
        """It turns, and this is what it knows."""
        self._last = (self._clock(), tuple(self._readiness()))

    def liveness(self) -> Sequence[Check]:
        silent = self._clock() - self._last[0]
        if silent <= self._seconds:
            return (Check("loop"),)
        return (Check("loop", f"the event loop has not turned for {silent:.0f} seconds"),)

    def readiness(self) -> Sequence[Check]:
        return (*self.liveness(), *self._last[1])


def operations_routes(health: Health, metrics: Metrics) -> list[web.RouteDef]:
    """What operators and their probes call."""
    return [
        web.get("/livez", health.live),
        web.get("/healthz", health.live),
        web.get("/readyz", health.ready),
        web.get("/metrics", metrics.expose),
        web.get("/version", health.version),
    ]

"""Health: the answers to `/livez`, `/readyz` and `/version`, in the form of Kubernetes' components.

`Heartbeat` carries the checks of the main event loop to other threads.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec
from aiohttp import web

from server.metrics.metrics import Metrics

_BEAT_SECONDS = 0.5
# A decision takes a few seconds at most, and the event loop runs other tasks after each.
STUCK_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class ReadinessCheck:
    """A named condition of readiness or liveness; it holds if `failure` is empty.

    One that `is_warning` is shown, and does not make the whole fail.
    """

    name: str
    failure: str = ""
    is_warning: bool = False


Readiness = Callable[[], Sequence[ReadinessCheck]]


def health_routes(
    readiness: Readiness, version: str, metrics: Metrics, liveness: Readiness = lambda: ()
) -> list[web.RouteDef]:
    """The routes for probes and scrapers; `/livez` and `/readyz` take `verbose`, `exclude=NAME`."""
    named = msgspec.json.encode({"version": version})

    async def live(request: web.Request) -> web.Response:
        # `ping` always holds: the event loop has reached this line.
        return _report("livez", [ReadinessCheck("ping"), *liveness()], request)

    async def ready(request: web.Request) -> web.Response:
        return _report("readyz", [ReadinessCheck("ping"), *readiness()], request)

    async def versions(_request: web.Request) -> web.Response:
        return web.Response(body=named, content_type="application/json")

    return [
        web.get("/livez", live),
        web.get("/healthz", live),
        web.get("/readyz", ready),
        web.get("/metrics", metrics.expose),
        web.get("/version", versions),
    ]


def _report(name: str, checks: Sequence[ReadinessCheck], request: web.Request) -> web.Response:
    """`ok` and the warnings, or one line per check if one fails or the request says `verbose`."""
    excluded = set(request.query.getall("exclude", ()))
    lines = [_line(check, is_excluded=check.name in excluded) for check in checks]
    unknown = excluded - {check.name for check in checks}
    lines += [f"warn: there is no check named {other!r} to exclude" for other in sorted(unknown)]
    failing = [check for check in checks if check.failure and check.name not in excluded]
    if not all(check.is_warning for check in failing):
        text = "\n".join([*lines, f"{name} check failed\n"])
        return web.Response(status=503, text=text)
    if "verbose" in request.query:
        return web.Response(text="\n".join([*lines, f"{name} check passed\n"]))
    return web.Response(text="\n".join(["ok", *map(_warning, failing)]))


def _line(check: ReadinessCheck, *, is_excluded: bool) -> str:
    if is_excluded:
        return f"[+]{check.name} excluded: ok"
    if check.failure and check.is_warning:
        return _warning(check)
    if check.failure:
        return f"[-]{check.name} failed: {check.failure}"
    return f"[+]{check.name} ok"


def _warning(check: ReadinessCheck) -> str:
    return f"warn: {check.name}: {check.failure}"


class Heartbeat:
    """The heartbeat of an event loop: its latest checks, which other threads can read.

    INVARIANT: the event loop replaces the checks as a whole, so that readers need no lock. The loop
    counts as stuck after STUCK_SECONDS without a beat.
    """

    def __init__(self, readiness: Readiness, clock: Callable[[], float] = time.monotonic) -> None:
        self._readiness = readiness
        self._clock = clock
        starting = [ReadinessCheck("start", "the server is starting")]
        self._last: tuple[float, Sequence[ReadinessCheck]] = (clock(), starting)

    async def run(self) -> None:
        """Beats until it is cancelled; runs on the event loop that is watched."""
        while True:
            self.beat()
            await asyncio.sleep(_BEAT_SECONDS)

    def beat(self) -> None:
        self._last = (self._clock(), tuple(self._readiness()))

    def liveness(self) -> Sequence[ReadinessCheck]:
        silent = self._clock() - self._last[0]
        if silent <= STUCK_SECONDS:
            return (ReadinessCheck("loop"),)
        return (ReadinessCheck("loop", f"the event loop has not run for {silent:.0f} seconds"),)

    def readiness(self) -> Sequence[ReadinessCheck]:
        return (*self.liveness(), *self._last[1])

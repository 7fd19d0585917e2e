"""Runs an application on a socket until it is told to stop."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import TypedDict

from aiohttp import web
from aiohttp.typedefs import Handler

from policies.watcher import INTERVAL_SECONDS
from server.departure import Departure
from server.listener import Listener, Tls
from server.settings import KEEP_ALIVE_SECONDS, MEBIBYTE, Settings
from server.tls import Credentials

RequestHandler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

# Of an application: what is posted to these paths needs no middleware.
DIRECT = web.AppKey("DIRECT", Mapping[str, Handler])


class RunnerOptions(TypedDict):
    """How aiohttp's runner is to be made: see `runner_options`."""

    access_log: None
    auto_decompress: bool
    handle_signals: bool
    keepalive_timeout: float
    lingering_time: float
    read_bufsize: int
    shutdown_timeout: float


def runner_options(settings: Settings) -> RunnerOptions:
    """What a runner of the application must be told; aiohttp's defaults are for browsers."""
    return {
        "access_log": None,
        # Compressed bodies are refused; unpacking what is thrown away would serve nobody.
        "auto_decompress": False,
        "handle_signals": False,
        "keepalive_timeout": KEEP_ALIVE_SECONDS,
        # How long the rest of a refused body is read, so that the answer can be.
        "lingering_time": settings.http_timeout,
        # Thousands of names are a few hundred kilobytes: none of them should stop the reading.
        "read_bufsize": MEBIBYTE,
        "shutdown_timeout": settings.http_timeout,
    }


@asynccontextmanager
async def listening(
    app: web.Application, settings: Settings, credentials: Credentials | None = None
) -> AsyncIterator[str]:
    """Serves while the block runs, which gets the URL; then answers what has been asked, and ends.

    With credentials it serves HTTPS. Port 0 takes a free one. Raises OSError where the address
    cannot be listened on.
    """
    runner = web.AppRunner(app, **runner_options(settings))
    await runner.setup()
    assert runner.server is not None, "it has been set up"
    runner.server.request_handler = _direct(app.get(DIRECT, {}), runner.server.request_handler)
    listener = _listener(runner.server, credentials)
    try:
        host, port = await listener.open(settings.host, settings.port)
        scheme = "http" if credentials is None else "https"
        async with _kept_up(credentials):
            yield f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
    finally:
        await listener.close()
        await runner.cleanup()


def _direct(handlers: Mapping[str, Handler], others: RequestHandler) -> RequestHandler:
    """Posts to these paths go past routes and middlewares, which take a twentieth of a call."""

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        handler = handlers.get(request.path)
        if handler is None or request.method != "POST":
            return await others(request)
        assert isinstance(request, web.Request), "an application makes no others"
        return await handler(request)

    return handle


def _listener(server: web.Server, credentials: Credentials | None) -> Listener:
    if credentials is None:
        return Listener(server)
    return Listener(server, Tls(lambda: credentials.generation.context, credentials.refused))


@asynccontextmanager
async def _kept_up(credentials: Credentials | None) -> AsyncIterator[None]:
    """Looks at the files of the credentials again and again, while the block runs."""
    if credentials is None:
        yield
        return

    async def follow() -> None:
        while True:
            await asyncio.sleep(INTERVAL_SECONDS)
            await asyncio.to_thread(credentials.look)

    following = asyncio.create_task(follow())
    try:
        yield
    finally:
        following.cancel()


async def serve(
    app: web.Application,
    settings: Settings,
    started: Callable[[str], None],
    credentials: Credentials | None = None,
    departure: Departure | None = None,
) -> None:
    """Serves until SIGTERM or SIGINT; `started` is called with the URL. Raises OSError.

    SIGTERM begins the `departure`, so that others can hear of it for as long as `lameduck` says;
    SIGINT is somebody who waits at a terminal. Then no more connections are accepted, and what has
    been asked is still answered. A second signal does not wait for anything.
    """
    stop: asyncio.Future[signal.Signals] = asyncio.get_running_loop().create_future()
    with _set_by_signals(stop):
        async with listening(app, settings, credentials) as url:
            started(url)
            number = await stop
            if departure is not None:
                departure.begin()
            if number == signal.SIGTERM:
                await asyncio.sleep(settings.lameduck)


@contextmanager
def _set_by_signals(stop: asyncio.Future[signal.Signals]) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    numbers = (signal.SIGTERM, signal.SIGINT)

    def restore() -> None:
        for number in numbers:
            loop.remove_signal_handler(number)

    def request_stop(number: signal.Signals) -> None:
        stop.set_result(number)
        restore()

    for number in numbers:
        loop.add_signal_handler(number, request_stop, number)
    try:
        yield
    finally:
        restore()

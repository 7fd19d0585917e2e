"""The sockets of a server: each connection is met with the TLS that is in force when it comes."""

from __future__ import annotations

import asyncio
import errno
import signal
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TypedDict

from aiohttp import web
from aiohttp.typedefs import Handler

from policies.loader import INTERVAL_SECONDS
from server.health import Health, Heartbeat, operations_routes
from server.metrics import Metrics
from server.runtime.shutdown import Shutdown
from server.settings import KEEP_ALIVE_SECONDS, MEBIBYTE, Settings
from server.tls import Credentials

_BACKLOG = 128
# Between connecting and the end of the handshake.
_HANDSHAKE_SECONDS = 10.0
# For those that are at it when the server ends.
_FAREWELL_SECONDS = 1.0
# There is nothing left to accept with, such as file descriptors; who connects waits meanwhile.
_EXHAUSTED = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
_PAUSE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Tls:
    """What to ask at each connection, and whom to tell why one has failed: a client's address."""

    context: Callable[[], ssl.SSLContext]
    failed: Callable[[str, ssl.SSLError], None]


class Listener:
    """Accepts connections for a server, until it is closed.

    An asyncio.Server has one SSLContext for its life. To swap contexts in its `sni_callback` is not
    enough: TLS 1.2 sessions belong to the context that began the handshake, and clients would take
    them up again after their CA has been replaced. To close it for another server in its place
    loses what it has just accepted. So this accepts, and asyncio does all the rest.
    """

    def __init__(self, server: web.Server, tls: Tls | None = None) -> None:
        self._server = server
        self._tls = tls
        self._sockets: list[socket.socket] = []
        self._accepting: list[asyncio.Task[None]] = []
        self._meeting: set[asyncio.Task[None]] = set()

    async def open(self, host: str, port: int) -> tuple[str, int]:
        """Host and port that are listened on, the first if there are several. Raises OSError."""
        loop = asyncio.get_running_loop()
        # It is a server only until it has found and bound every address of the host.
        binder = await loop.create_server(self._server, host, port, start_serving=False)
        try:
            for bound in binder.sockets:
                self._sockets.append(bound.dup())
        finally:
            binder.close()
        for listening in self._sockets:
            listening.listen(_BACKLOG)
            self._accepting.append(asyncio.create_task(self._accept(listening)))
        bound_host, bound_port = self._sockets[0].getsockname()[:2]
        return bound_host, bound_port

    async def close(self) -> None:
        """Accepts no more. Handshakes have a moment to end; then the connections are closed."""
        for accepting in self._accepting:
            accepting.cancel()
        await asyncio.gather(*self._accepting, return_exceptions=True)
        for listening in self._sockets:
            listening.close()
        if self._meeting:
            _, late = await asyncio.wait(self._meeting, timeout=_FAREWELL_SECONDS)
            for meeting in late:
                meeting.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            # To accept does not wait while there is somebody to accept; others want their turn.
            await asyncio.sleep(0)
            try:
                connection, address = await loop.sock_accept(listening)
            except OSError as error:
                # All else is about one connection: on Linux, accept(2) reports what befell it.
                if error.errno in _EXHAUSTED:
                    loop.call_exception_handler({"message": "cannot accept", "exception": error})
                    await asyncio.sleep(_PAUSE_SECONDS)
                continue
            meeting = asyncio.create_task(self._meet(connection, str(address[0])))
            self._meeting.add(meeting)
            meeting.add_done_callback(self._meeting.discard)

    async def _meet(self, connection: socket.socket, host: str) -> None:
        connect = asyncio.get_running_loop().connect_accepted_socket
        if self._tls is None:
            await connect(self._server, connection)
            return
        context = self._tls.context()
        try:
            await connect(
                self._server,
                connection,
                ssl=context,
                ssl_handshake_timeout=_HANDSHAKE_SECONDS,
            )
        except ssl.SSLError as error:
            self._tls.failed(host, error)
        except OSError:
            # Gone without a word, or too slow; whoever tries whether the port is open does that.
            pass


# ---- Runs an application on a socket until it is told to stop.

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
    shutdown: Shutdown | None = None,
) -> None:
    """Serves until SIGTERM or SIGINT; `started` is called with the URL. Raises OSError.

    SIGTERM begins the `shutdown`, so that others can hear of it for as long as `lameduck` says;
    SIGINT is somebody who waits at a terminal. Then no more connections are accepted, and what has
    been asked is still answered. A second signal does not wait for anything.
    """
    stop: asyncio.Future[signal.Signals] = asyncio.get_running_loop().create_future()
    with _set_by_signals(stop):
        async with listening(app, settings, credentials) as url:
            started(url)
            number = await stop
            if shutdown is not None:
                shutdown.begin()
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


# ---- Health and metrics from a thread and an event loop of their own, whatever the main one does.

# For probes that are at it when the server ends.


@contextmanager
def health_server(
    address: tuple[str, int], heartbeat: Heartbeat, metrics: Metrics, version: str
) -> Iterator[str]:
    """Serves while the block runs, which gets the URL. Raises OSError.

    It is plain HTTP, for probes and scrapers.
    """
    started: Future[str] = Future()
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()

    async def serve() -> None:
        app = web.Application()
        health = Health(heartbeat.readiness, version, heartbeat.liveness)
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

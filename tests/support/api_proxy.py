"""A proxy between a client and a real API server that can be told to be at fault."""

from __future__ import annotations

import asyncio
import ssl
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import TypeVar

import aiohttp
import trustme
from aiohttp import web
from yarl import URL

from tests.support.fake_api_server import EXPIRED, Answer, Request

T = TypeVar("T")
# What becomes of a line of a watch, told its path: the lines to send in its place.
Edit = Callable[[str, bytes], list[bytes]]

_CALL_SECONDS = 30.0
_CHUNK = 2**16
_PARTING_SECONDS = 0.2
_HOP = {"host", "connection", "transfer-encoding", "content-length", "keep-alive"}
_END = b"<end>"
_BROKEN = b"<broken>"


def unchanged(_path: str, line: bytes) -> list[bytes]:
    """The edit that is none."""
    return [line]


class _Watch:
    """An answer that is still being passed on."""

    def __init__(self, path: str, transport: asyncio.Transport) -> None:
        self.path = path
        self.transport = transport
        # Each with the time from which on it may be passed on.
        self.lines: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        self.flowing = asyncio.Event()
        self.flowing.set()


class ApiDoor(ABC):
    """The way of one client to an API server, with switches that make it faulty.

    `edit` is what is done to the lines of watches, `delay` how many seconds late they are, and
    `swallowing` how many want that none is passed on. What any of `refuses` takes does not reach
    the server. The answer to what any of `loses` takes gets lost, unless it is a watch.
    """

    def __init__(self) -> None:
        self.edit: Edit = unchanged
        self.delay = 0.0
        self.swallowing = 0
        self.refuses: list[Callable[[Request], bool]] = []
        self.loses: list[Callable[[Request], bool]] = []

    @abstractmethod
    def freeze(self) -> None:
        """Show nothing to the watches."""

    @abstractmethod
    def thaw(self) -> None:
        """Show them what has come meanwhile, and go on."""

    @abstractmethod
    def cut(self) -> None:
        """Break off every watch."""

    @abstractmethod
    def expire(self) -> None:
        """Tell every watch that the server has forgotten its version."""


class ApiProxy(ApiDoor):
    """Passes on everything, with switches that a test may set from another thread.

    `answer` is what every new request gets in place of an answer of the server, and `delays` says
    how late a request is passed on.
    """

    def __init__(self, upstream: str, authority: Path, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self.url = ""
        self.requests: list[Request] = []
        self.answer: Answer | None = None
        self.delays: Callable[[Request], float] = lambda _: 0.0
        self._upstream = upstream
        self._trust = ssl.create_default_context(cafile=str(authority))
        self._loop = loop
        self._watches: list[_Watch] = []
        self._session: aiohttp.ClientSession | None = None
        self._listening: asyncio.Server | None = None

    # ---- what tests do

    def freeze(self) -> None:
        """Stops what is open: not a byte more, not even its end. What comes anew passes."""
        self._call(lambda watch: watch.flowing.clear())

    def thaw(self) -> None:
        """Lets what was stopped go on, with all that has come for it meanwhile."""
        self._call(lambda watch: watch.flowing.set())

    def cut(self, path: str | None = None) -> None:
        """Breaks off every watch, or those of one path, in the middle of what it says."""
        self._call(lambda watch: watch.transport.abort(), path)

    def expire(self) -> None:
        self._call(lambda watch: watch.lines.put_nowait((0.0, EXPIRED)))

    def watches(self) -> int:
        """How many are open."""
        return len(self._watches)

    # ---- what clients get

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        asked = Request(request.method, request.path, dict(request.query), request.headers, body)
        self.requests.append(asked)
        if self.answer is not None:
            answer = self.answer
            return web.Response(status=answer.status, body=answer.body, headers=answer.headers)
        await asyncio.sleep(self.delays(asked))
        assert self._session is not None
        assert request.transport is not None
        if any(refuses(asked) for refuses in tuple(self.refuses)):
            request.transport.abort()
            return web.Response(status=502)
        try:
            async with self._session.request(
                request.method,
                URL(self._upstream + request.raw_path, encoded=True),
                data=body,
                headers=_passed_on(request.headers),
                allow_redirects=False,
            ) as response:
                if asked.kind in ("stream", "watch") and response.status == 200:
                    return await self._watch(request, response)
                body = await response.read()
                if any(loses(asked) for loses in tuple(self.loses)):
                    request.transport.abort()
                return web.Response(
                    status=response.status, body=body, headers=_passed_on(response.headers)
                )
        except aiohttp.ClientError:
            # The client sees what it would see without a proxy; nobody reads this answer.
            request.transport.abort()
            return web.Response(status=502)

    async def _watch(
        self, request: web.Request, upstream: aiohttp.ClientResponse
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers=_passed_on(upstream.headers))
        await response.prepare(request)
        assert request.transport is not None
        watch = _Watch(request.path, request.transport)
        self._watches.append(watch)
        reading = asyncio.create_task(self._read(upstream, watch.lines))
        try:
            await self._write(watch, response)
        except (ConnectionError, aiohttp.ClientError):
            pass
        finally:
            self._watches.remove(watch)
            reading.cancel()
        return response

    async def _write(self, watch: _Watch, response: web.StreamResponse) -> None:
        while True:
            due, line = await watch.lines.get()
            await asyncio.sleep(max(0.0, due - self._loop.time()))
            await watch.flowing.wait()
            match line:
                case b"<end>":
                    return
                case b"<broken>":
                    watch.transport.abort()
                    return
                case _ if line == EXPIRED:
                    await response.write(line + b"\n")
                case _ if self.swallowing:
                    pass
                case _:
                    for each in self.edit(watch.path, line):
                        await response.write(each + b"\n")

    async def _read(
        self, upstream: aiohttp.ClientResponse, lines: asyncio.Queue[tuple[float, bytes]]
    ) -> None:
        """All that comes, at once, whether or not it may be passed on."""
        begun = bytearray()
        last = _BROKEN
        try:
            async for chunk in upstream.content.iter_chunked(_CHUNK):
                begun += chunk
                if b"\n" in chunk:
                    *whole, rest = begun.split(b"\n")
                    begun = rest
                    for line in whole:
                        lines.put_nowait((self._loop.time() + self.delay, bytes(line)))
            last = _END
        except aiohttp.ClientError:
            pass
        finally:
            lines.put_nowait((0.0, last))

    # ---- its life

    async def start(self, tls: ssl.SSLContext) -> web.AppRunner:
        """Listens."""
        connector = aiohttp.TCPConnector(limit=0, ssl=self._trust)
        self._session = aiohttp.ClientSession(
            connector=connector, auto_decompress=False, timeout=aiohttp.ClientTimeout(total=None)
        )
        app = web.Application(client_max_size=2**24)
        app.router.add_route("*", "/{path:.*}", self.handle)
        runner = web.AppRunner(
            app, shutdown_timeout=0.1, access_log=None, handler_cancellation=True
        )
        await runner.setup()
        assert runner.server is not None
        self._listening = await self._loop.create_server(
            runner.server, "127.0.0.1", 0, ssl=tls, ssl_shutdown_timeout=_PARTING_SECONDS
        )
        port = self._listening.sockets[0].getsockname()[1]
        self.url = f"https://127.0.0.1:{port}"
        return runner

    async def stop(self, runner: web.AppRunner) -> None:
        """Breaks off what is open, and gives TLS the time to say goodbye, or to say hello first."""
        assert self._listening is not None
        self._listening.close()
        for watch in self._watches:
            watch.transport.abort()
        await asyncio.sleep(_PARTING_SECONDS)
        await runner.cleanup()
        await asyncio.sleep(2 * _PARTING_SECONDS)
        assert self._session is not None
        await self._session.close()

    def _call(self, act: Callable[[_Watch], None], path: str | None = None) -> None:
        """Does it to open watches in the thread of the proxy, between two of its steps."""

        async def acting() -> None:
            for watch in self._watches:
                if path in (None, watch.path):
                    act(watch)

        run_in(self._loop, acting())


@contextmanager
def api_proxy(upstream: str, authority: Path, certificate: Path) -> Iterator[ApiProxy]:
    """A proxy in a thread of its own, before the server at `upstream`, a URL.

    `authority` is the file of what the server is trusted by; what the proxy is trusted by is
    written to `certificate`.
    """
    own = trustme.CA()
    own.cert_pem.write_to_path(certificate)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    own.issue_cert("127.0.0.1").configure_cert(tls)
    loop = asyncio.new_event_loop()
    thread = Thread(target=loop.run_forever, name="api proxy", daemon=True)
    thread.start()
    try:
        proxy = ApiProxy(upstream, authority, loop)
        runner = run_in(loop, proxy.start(tls))
        try:
            yield proxy
        finally:
            run_in(loop, proxy.stop(runner))
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def run_in(loop: asyncio.AbstractEventLoop, work: Awaitable[T]) -> T:
    """What comes of work that is done in another thread's loop."""

    async def doing() -> T:
        return await work

    return asyncio.run_coroutine_threadsafe(doing(), loop).result(_CALL_SECONDS)


def _passed_on(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in _HOP}

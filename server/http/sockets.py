"""Running: the sockets of a server, its start and its end; and the health server, a thread."""

from __future__ import annotations

import asyncio
import ctypes
import errno
import signal
import socket
import ssl
import struct
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from logging import Logger
from typing import Any

from aiohttp import web

from engine.fairness import FairQueue
from grammar.messages.texts import os_reason
from server.call import LimitedLog
from server.http.bodies import ByteBudget
from server.http.connections import Connection, Connections, connection_options
from server.http.health import Heartbeat, ReadinessCheck, health_routes
from server.http.places import address_of
from server.http.tls import Credentials
from server.metrics.metrics import Metrics
from server.settings import Settings

# The connections of a server of this application.
CONNECTIONS = web.AppKey("CONNECTIONS", Connections)

# Connections that wait to be accepted, and those that are accepted and that begin before anything
# else goes on.
_BACKLOG, _ACCEPTED, _AT_ONCE = 4096, 64, 16
# How long and how many connections wait for a place, and the time between two looks at them.
_LOBBY_SECONDS, _MOST_IN_LOBBY, _LOBBY_LOOK_SECONDS = 1.0, 512, 0.025
# From the connection to the end of the TLS handshake, and after that only if no other one of the
# same address wants to begin, which has so many of them.
_HANDSHAKE_SECONDS, _SHORT_HANDSHAKE_SECONDS, _MOST_HANDSHAKES = 10.0, 1.0, 16
# At the end of a server: for handshakes in progress, and for the first calls of new connections.
_GRACE_SECONDS = 1.0
# Between two looks at whether new connections have had an answer.
_LOOK_SECONDS = 0.02
# Before that, for connections that the kernel has begun to admit: a round trip.
_LAST_SECONDS = 0.2
# The process has no resources to accept with, such as file descriptors; new connections wait.
_EXHAUSTED = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
_PAUSE_SECONDS = 1.0


@dataclass(eq=False, slots=True)
class Listener:
    """A listener accepts connections for a server; each gets the newest TLS context.

    An asyncio.Server has one SSLContext for its whole life. Replacing it in its `sni_callback` is
    not enough: TLS 1.2 sessions belong to the context that began the handshake, so that clients
    could resume them after their CA was replaced. Closing the server for a new one loses
    connections that it has just accepted. So this class accepts, and asyncio does all the rest.
    """

    server: web.Server
    connections: Connections
    credentials: Credentials | None = None
    # The lobby may take half of so many.
    spare_files: int = 0
    _sockets: list[socket.socket] = field(default_factory=list, init=False)
    _connecting: set[asyncio.Task[None]] = field(default_factory=set, init=False)
    _lobby: Lobby = field(init=False)
    # The handshakes that have not ended, by address, and when they began; the oldest come first.
    _handshakes: dict[str, dict[Connection, float]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        most = min(self.spare_files // 2, _MOST_IN_LOBBY) + _ACCEPTED
        self._lobby = Lobby(most, self._begin, self.connections.refused)

    async def open(self, host: str, port: int) -> tuple[str, int]:
        """Listens; returns the first address and its port. Raises OSError."""
        loop = asyncio.get_running_loop()
        # This server only finds and binds every address of the host.
        binder = await loop.create_server(self.server, host, port, start_serving=False)
        try:
            for bound in binder.sockets:
                self._sockets.append(bound.dup())
        finally:
            binder.close()
        for listening in self._sockets:
            listening.listen(_BACKLOG)
            listening.setblocking(False)
            loop.add_reader(listening, self._accept, listening)
        bound_host, bound_port = self._sockets[0].getsockname()[:2]
        return bound_host, bound_port

    async def close(self) -> None:
        """Stops accepting, and loses no connection that a client believes it has.

        Clients that come now are not answered at all, until they are refused. Those that came
        before are accepted. Handshakes have a moment to end, and so have the first calls.
        """
        for listening in self._sockets:
            _admit_no_more(listening)
        await asyncio.sleep(_LAST_SECONDS)
        loop = asyncio.get_running_loop()
        for listening in self._sockets:
            loop.remove_reader(listening)
            listening.close()
        self._lobby.close()
        if self._connecting:
            _, late = await asyncio.wait(self._connecting, timeout=_GRACE_SECONDS)
            for connecting in late:
                connecting.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        # The first call of a new connection is on its way.
        end = loop.time() + _GRACE_SECONDS
        while self.connections.await_first_calls():
            if loop.time() >= end:
                break
            await asyncio.sleep(_LOOK_SECONDS)

    def _accept(self, listening: socket.socket) -> None:
        """Accepts some connections; others wait until the event loop has looked at all sockets."""
        for _ in range(_ACCEPTED):
            try:
                connection, address = listening.accept()
            except BlockingIOError:
                break
            except OSError as error:
                # All other network errors concern one connection: on Linux, accept(2) also reports
                # errors of the connection that it returns.
                if error.errno in _EXHAUSTED:
                    self.connections.exhausted(os_reason(error))
                    loop = asyncio.get_running_loop()
                    loop.remove_reader(listening)
                    loop.call_later(_PAUSE_SECONDS, self._accept_again, listening)
                    break
                continue
            connection.setblocking(False)
            self._lobby.put(connection, str(address[0]))
        self._lobby.look()

    def _accept_again(self, listening: socket.socket) -> None:
        if listening.fileno() >= 0:
            asyncio.get_running_loop().add_reader(listening, self._accept, listening)

    def _begin(self, connection: socket.socket, host: str, *, has_spoken: bool) -> str:
        """Begins with a connection; the reason, and nothing is done, if there is no place."""
        now, shaking = asyncio.get_running_loop().time(), self._handshakes.get(address_of(host), {})
        if len(shaking) >= _MOST_HANDSHAKES:
            oldest = next(iter(shaking))
            if now < shaking[oldest] + _SHORT_HANDSHAKE_SECONDS:
                return "too_many_of_address"
            del shaking[oldest]
            oldest.refuse("silent")
        try:
            protocol = self.connections.admit(self.server, host, has_spoken=has_spoken)
        except Exception as error:  # noqa: BLE001 - whatever it is, others can still connect
            self._failed(connection, error)
            return ""
        if isinstance(protocol, str):
            return protocol
        # Its end is seen wherever the handshake is.
        protocol.end_handshake = partial(_shut_down, connection)
        if self.credentials is not None:
            self._handshakes.setdefault(address_of(host), {})[protocol] = now
        connecting = asyncio.create_task(self._connect(connection, protocol, host))
        self._connecting.add(connecting)
        connecting.add_done_callback(partial(self._connected, connection))
        return ""

    def _connected(self, connection: socket.socket, connecting: asyncio.Task[None]) -> None:
        self._connecting.discard(connecting)
        if not connecting.cancelled() and (error := connecting.exception()) is not None:
            self._failed(connection, error)

    def _failed(self, connection: socket.socket, error: BaseException) -> None:
        """Reports a fault of ours; `_connect` deals with what clients do."""
        connection.close()
        loop = asyncio.get_running_loop()
        loop.call_exception_handler({"message": "a connection failed", "exception": error})

    async def _connect(self, connection: socket.socket, protocol: Connection, host: str) -> None:
        connect = asyncio.get_running_loop().connect_accepted_socket
        credentials = self.credentials
        is_connected, options = False, dict[str, Any]()
        try:
            if credentials is not None:
                options["ssl"] = credentials.loaded.context
                options["ssl_handshake_timeout"] = _HANDSHAKE_SECONDS
            await connect(lambda: protocol, connection, **options)
            is_connected = True
        except ssl.SSLError as error:
            assert credentials is not None, "only TLS raises it"
            credentials.handshake_failed(host, error)
        except OSError:
            # The client closed the connection or was too slow: so does a probe of the port.
            pass
        finally:
            own = self._handshakes.get(address_of(host), {})
            if own.pop(protocol, None) is not None and not own:
                del self._handshakes[address_of(host)]
            if not is_connected:
                self.connections.leave(protocol)


def _has_spoken(connection: socket.socket) -> bool | None:
    """Whether a client has sent something; None if it is gone already."""
    try:
        return bool(connection.recv(1, socket.MSG_PEEK)) or None
    except BlockingIOError:
        return False
    except OSError:
        return None


# An accepted connection, its address, and until when it waits for a place.
_Accepted = tuple[socket.socket, str, float]


class Lobby:
    """A lobby: accepted connections until they begin, in turns by address.

    What `begin` gives a reason against waits for a second: a client that is refused at once is back
    at once. `refused` is told the reason and the address where a connection ends.
    """

    def __init__(
        self, most: int, begin: Callable[..., str], refused: Callable[[str, str], None]
    ) -> None:
        self._begin = begin
        self._refused = refused
        self._waiting: FairQueue[_Accepted] = FairQueue(most)
        self._look_later: asyncio.TimerHandle | None = None

    def put(self, connection: socket.socket, host: str) -> None:
        """Takes a connection; beyond the bound one of the address with the most is closed."""
        ends = asyncio.get_running_loop().time() + _LOBBY_SECONDS
        if (lost := self._waiting.put(address_of(host), (connection, host, ends))) is not None:
            self._end(lost)

    def close(self) -> None:
        """Begins with those that find a place, and ends all others."""
        while self.look() == _AT_ONCE:
            pass
        while len(self._waiting):
            self._end(self._waiting.take())
        if self._look_later is not None:
            self._look_later.cancel()

    def look(self) -> int:
        """Begins with some of those that wait; with how many."""
        if self._look_later is not None:
            self._look_later.cancel()
            self._look_later = None
        loop, begun, left = asyncio.get_running_loop(), 0, list[_Accepted]()
        # The addresses without a place for those that have spoken or not: each is asked about once.
        full: set[tuple[str, bool]] = set()
        while begun < _AT_ONCE and len(self._waiting):
            connection, host, ends = each = self._waiting.take()
            has_spoken, reason = _has_spoken(connection), "too_many_of_address"
            if has_spoken is None:
                connection.close()
            elif (host, has_spoken) not in full and not (
                reason := self._begin(connection, host, has_spoken=has_spoken)
            ):
                begun += 1
            elif loop.time() >= ends:
                self._end(each, reason)
            else:
                left.append(each)
                full |= {(host, False), (host, has_spoken)}
        for each in left:
            self._waiting.put(address_of(each[1]), each)
        if len(self._waiting):
            pause = 0.0 if begun == _AT_ONCE else _LOBBY_LOOK_SECONDS
            self._look_later = loop.call_later(pause, self.look)
        return begun

    def _end(self, each: _Accepted, reason: str = "too_many") -> None:
        each[0].close()
        self._refused(reason, each[1])


def _shut_down(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


# A filter for the kernel, of four instructions: load the flags of TCP, test them for SYN, keep what
# has none, drop what has one: SYN asks for a new connection.
_SYN = 0x02
_WITHOUT_SYN = ((0x30, 0, 0, 13), (0x45, 1, 0, _SYN), (0x06, 0, 0, 0xFFFF_FFFF), (0x06, 0, 0, 0))
_SO_ATTACH_FILTER = 26


def _admit_no_more(listening: socket.socket) -> None:
    """Has the kernel admit no new connections; those that it has admitted can be accepted.

    Otherwise, a connection that it admits between the last accept and the close is reset, together
    with the request that the client has sent into it. Only Linux can do this.
    """
    if sys.platform != "linux":
        return
    code = b"".join(struct.pack("HBBI", *each) for each in _WITHOUT_SYN)
    kept = ctypes.create_string_buffer(code)
    program = struct.pack("HP", len(_WITHOUT_SYN), ctypes.addressof(kept))
    with suppress(OSError):
        listening.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, program)


class Shutdown:
    """The shutdown of a server: once it has begun, every answer closes its connection.

    SIGTERM begins it, and readiness shows it. kube-scheduler keeps connections open, and does not
    repeat a request that is sent just as a connection closes (C2). So answers close the
    connections before the server ends.
    """

    def __init__(self) -> None:
        self.has_begun = False

    def begin(self) -> None:
        self.has_begun = True

    def check(self) -> ReadinessCheck:
        return ReadinessCheck("shutdown", "shutting down" if self.has_begun else "")


# ---- serving an application


def runner_options(settings: Settings) -> dict[str, Any]:
    """The options of an application's runner."""
    return {
        **connection_options(),
        "handle_signals": False,
        "shutdown_timeout": settings.http_timeout,
    }


@asynccontextmanager
async def listening(
    app: web.Application, settings: Settings, credentials: Credentials | None = None
) -> AsyncIterator[str]:
    """Serves while the block runs, which gets the URL; at the end answers the calls in flight.

    With credentials, which the caller keeps up to date, it serves HTTPS. Port 0 is any free port.
    Raises OSError if it cannot listen on the address.
    """
    connections = app[CONNECTIONS]
    app.middlewares.insert(0, connections.answer_faults)
    runner = web.AppRunner(app, logger=connections.server_log(), **runner_options(settings))
    await runner.setup()
    assert runner.server is not None, "the runner is set up"
    listener = Listener(runner.server, connections, credentials, settings.spare_files)
    try:
        host, port = await listener.open(settings.host, settings.port)
        scheme = "http" if credentials is None else "https"
        yield f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
    finally:
        await listener.close()
        await runner.cleanup()


async def serve(
    app: web.Application,
    settings: Settings,
    started: Callable[[str], None],
    credentials: Credentials | None = None,
    shutdown: Shutdown | None = None,
) -> None:
    """Serves until SIGTERM, SIGINT or SIGHUP; calls `started` with the URL. Raises OSError.

    SIGTERM begins the `shutdown`; the server then serves for `lameduck` seconds more, so that
    clients learn of it. The others come from a terminal and do not wait. Then the server accepts
    no more connections and answers the calls in flight. A second signal ends the process at once.
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
    """Sets the result of a future at the first signal, and then restores the handlers."""
    loop = asyncio.get_running_loop()
    numbers = [signal.SIGTERM, signal.SIGINT]
    # Under `nohup`, nothing happens when the terminal is closed.
    if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:
        numbers.append(signal.SIGHUP)

    def restore() -> None:
        for number in numbers:
            loop.remove_signal_handler(number)

    def request_stop(number: signal.Signals) -> None:
        # Two signals may arrive at once, before the handlers are restored.
        if not stop.done():
            stop.set_result(number)
        restore()

    for number in numbers:
        loop.add_signal_handler(number, request_stop, number)
    try:
        yield
    finally:
        restore()


@contextmanager
def ended_by_sigterm() -> Iterator[None]:
    """While the block runs, SIGTERM ends it as SIGINT does; `serve` takes over both for its time.

    In a container, a process with the number 1 is not ended by a signal that it does not handle.
    """
    end = signal.getsignal(signal.SIGINT)
    before = signal.signal(signal.SIGTERM, end) if callable(end) else None
    try:
        yield
    finally:
        if before is not None:
            signal.signal(signal.SIGTERM, before)


# ---- the health server


@contextmanager
def health_server(
    settings: Settings, heartbeat: Heartbeat, metrics: Metrics, version: str, log: Logger
) -> Iterator[str]:
    """Serves health and metrics while the block runs, which gets the URL. Raises OSError.

    It serves plain HTTP from a thread and an event loop of its own, so that probes and scrapers get
    an answer while the main loop is busy. Connections have the limits of `settings`.
    """
    started: Future[str] = Future()
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()

    async def serve() -> None:
        app = web.Application()
        app.add_routes(health_routes(heartbeat.readiness, version, metrics, heartbeat.liveness))
        # It reads no bodies, and has as many connections again as the main server.
        budget = ByteBudget(settings.bytes_of_bodies)
        app[CONNECTIONS] = Connections(settings, budget, metrics, LimitedLog(log))
        try:
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

"""Running: the listener, signals, and an end that answers every call in flight."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace

import pytest
from aiohttp import ClientSession, web
from prometheus_client import CollectorRegistry

from server.call import LimitedLog
from server.http.bodies import ByteBudget
from server.http.connections import Connection, Connections
from server.http.sockets import Listener, Lobby, Shutdown, listening, serve
from server.http.tls import Credentials
from server.metrics.metrics import Metrics
from server.settings import Settings
from tests.support.certificates import Keyring
from tests.support.fake_clock import settled
from tests.support.served import LOG, Parts, names_request

pytestmark = pytest.mark.fake_clock
ANYWHERE = Settings(port=0, http_timeout=1.0, lameduck=0.0)
# What takes a second on a quiet machine, and a minute if a connection is waited for.
MOST_SECONDS = 30.0

# ---- the listener


@pytest.fixture
async def server() -> AsyncIterator[web.Server]:
    async def answer(_: web.BaseRequest) -> web.Response:
        return web.Response(text="ok")

    made = web.Server(answer)
    yield made
    await made.shutdown()


def connections(settings: Settings = ANYWHERE) -> Connections:
    metrics = Metrics(CollectorRegistry(), "1.2.3")
    return Connections(settings, ByteBudget(1000), metrics, LimitedLog(LOG))


async def get(port: int, host: str = "127.0.0.1") -> str:
    async with ClientSession() as session, session.get(f"http://{host}:{port}/") as response:
        return await response.text()


async def test_without_a_host_it_listens_on_every_interface(server: web.Server) -> None:
    """IPv4 and IPv6; the port is fixed, as free ports differ between the two."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    listener = Listener(server, connections())
    assert (await listener.open("", port))[1] == port
    assert await get(port) == "ok"
    if socket.has_ipv6:
        assert await get(port, "[::1]") == "ok"
    await listener.close()


async def test_accepted_connections_outlive_the_listener(server: web.Server) -> None:
    listener = Listener(server, connections())
    host, port = await listener.open("127.0.0.1", 0)
    clients = [asyncio.create_task(asyncio.open_connection(host, port)) for _ in range(20)]
    await asyncio.gather(*clients)
    await settled()
    await listener.close()
    assert len(server.connections) == len(clients)
    for client in clients:
        _, writer = client.result()
        writer.close()
        await writer.wait_closed()


async def test_clients_that_came_before_the_end_are_answered() -> None:
    """Also those that nobody has accepted yet, and whose call is still on its way."""
    clients: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
    async with listening(app(), ANYWHERE) as url:
        host, port = url.removeprefix("http://").split(":")
        # They do not come back to the event loop, so nobody accepts them before the end begins.
        opened = [socket.create_connection((host, int(port))) for _ in range(20)]
        calling = asyncio.create_task(calls(opened, clients))
    assert await asyncio.wait_for(calling, MOST_SECONDS) == [b"HTTP/1.1 200 OK\r\n"] * 20
    for _, writer in clients:
        writer.close()


async def calls(
    opened: list[socket.socket],
    clients: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]],
) -> list[bytes]:
    """The first lines of what these get, after a moment in which the listener is closed."""
    await asyncio.sleep(0.5)
    for each in opened:
        clients.append(await asyncio.open_connection(sock=each))
        clients[-1][1].write(b"GET /version HTTP/1.1\r\nHost: placet\r\n\r\n")
    return [await reader.readline() for reader, _ in clients]


@pytest.mark.skipif(sys.platform != "linux", reason="other kernels cannot do it")
async def test_clients_that_come_at_the_end_are_not_admitted(server: web.Server) -> None:
    """Whoever is not admitted has sent nothing, and can ask another replica."""
    listener = Listener(server, connections())
    host, port = await listener.open("127.0.0.1", 0)
    closing = asyncio.create_task(listener.close())
    await settled()
    with socket.socket() as late:
        late.settimeout(0.02)
        with pytest.raises(TimeoutError):
            late.connect((host, port))
    await closing
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(host, port)


async def test_a_silent_client_does_not_delay_the_end_for_long() -> None:
    began = asyncio.get_running_loop().time()
    async with listening(app(), ANYWHERE) as url:
        host, port = url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
    assert asyncio.get_running_loop().time() - began < 2
    assert await reader.read() == b""
    writer.close()


async def test_an_unfinished_handshake_does_not_delay_the_end(
    server: web.Server, keyring: Keyring
) -> None:
    credentials = Credentials(keyring.files, Metrics(CollectorRegistry(), "1.2.3"), LOG)
    listener = Listener(server, connections(), credentials)
    host, port = await listener.open("127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(host, port)
    await settled()
    async with asyncio.timeout(5):
        await listener.close()
        assert await reader.read() == b""
    writer.close()
    await writer.wait_closed()


async def test_the_oldest_handshakes_of_an_address_give_way(
    server: web.Server, keyring: Keyring
) -> None:
    """After a second, to others of the same address; those of another one go on at once."""
    credentials = Credentials(keyring.files, Metrics(CollectorRegistry(), "1.2.3"), LOG)
    listener = Listener(server, connections(), credentials)
    host, port = await listener.open("127.0.0.1", 0)
    silent = [await asyncio.open_connection(host, port) for _ in range(20)]
    await settled()
    time = asyncio.get_running_loop().time
    for source, most in (("127.0.0.2", 0.5), ("127.0.0.1", 1.5)):
        began = time()
        _, writer = await asyncio.open_connection(
            host, port, ssl=keyring.client(), local_addr=(source, 0)
        )
        writer.transport.abort()
        assert time() - began < most
    async with asyncio.timeout(2):
        assert await silent[0][0].read() == b""
    for _, writer in silent:
        writer.close()
    await listener.close()


async def test_connections_begin_in_turns_by_address() -> None:
    """So a burst of one address is not before another one, however many came first."""
    begun = list[str]()

    def begin(connection: socket.socket, host: str, *, has_spoken: bool) -> str:
        connection.close()
        assert not has_spoken
        begun.append(host)
        return ""

    lobby, pairs = Lobby(500, begin, print), [socket.socketpair() for _ in range(101)]
    for number, (ours, _) in enumerate(pairs):
        ours.setblocking(False)
        lobby.put(ours, "127.0.0.2" if number < 100 else "127.0.0.3")
    assert lobby.look() == 16
    assert begun[:2] == ["127.0.0.2", "127.0.0.3"]
    lobby.close()
    assert len(begun) == 101
    for _, theirs in pairs:
        theirs.close()


async def test_an_address_without_a_place_is_asked_about_twice_a_look() -> None:
    """Once for those that have spoken, and once for those that have not: they may have one."""
    asked = list[tuple[str, bool]]()

    def begin(_: socket.socket, host: str, *, has_spoken: bool) -> str:
        asked.append((host, has_spoken))
        return "too_many_of_address"

    lobby, pairs = Lobby(500, begin, lambda *_: None), [socket.socketpair() for _ in range(100)]
    for number, (ours, theirs) in enumerate(pairs):
        ours.setblocking(False)
        if number >= 50:
            theirs.send(b"a")
        lobby.put(ours, f"127.0.0.{number % 2}")
    lobby.look()
    assert sorted(asked) == [(f"127.0.0.{n}", said) for n in (0, 1) for said in (False, True)]
    asked.clear()
    for ours, theirs in pairs:
        theirs.close()
        ours.close()


@contextmanager
def file_descriptors(most: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_a_client_waits_while_there_are_no_file_descriptors(
    server: web.Server, caplog: pytest.LogCaptureFixture
) -> None:
    """The log says so once a second."""
    loop = asyncio.get_running_loop()
    listener = Listener(server, connections())
    host, port = await listener.open("127.0.0.1", 0)
    client = socket.socket()
    client.setblocking(False)
    with file_descriptors(client.fileno() + 1):
        await loop.sock_connect(client, (host, port))
        await asyncio.sleep(0.1)
    assert caplog.messages == ['cannot accept err="too many open files"']
    async with asyncio.timeout(5):
        await loop.sock_sendall(client, b"GET / HTTP/1.0\r\n\r\n")
        assert (await loop.sock_recv(client, 100)).startswith(b"HTTP/1.0 200")
    client.close()
    await listener.close()


async def test_a_fault_of_one_connection_is_reported_and_ends_no_other(
    server: web.Server,
) -> None:
    """At once, to the event loop's exception handler, which logs it."""

    class Faulty(Connections):
        def admit(
            self, server: Callable[[], asyncio.Protocol], host: str, *, has_spoken: bool = True
        ) -> Connection | str:
            raise ValueError(f"fault in {server} for {host}, {has_spoken}")

    metrics = Metrics(CollectorRegistry(), "1.2.3")
    reported: list[object] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: reported.append(context["message"]))
    faulty = Faulty(ANYWHERE, ByteBudget(1000), metrics, LimitedLog(LOG))
    listener = Listener(server, faulty)
    host, port = await listener.open("127.0.0.1", 0)
    for count in (1, 2):
        reader, writer = await asyncio.open_connection(host, port)
        assert await reader.read() == b""
        writer.close()
        assert reported == ["a connection failed"] * count
    await listener.close()


# ---- start and end


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
    await asyncio.wait_for(running, MOST_SECONDS)
    assert signal.getsignal(number) != before


async def test_two_signals_at_once_end_it_too(caplog: pytest.LogCaptureFixture) -> None:
    """Both arrive before the first one is handled."""
    started: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    running = asyncio.create_task(serve(app(), ANYWHERE, started.set_result))
    await started
    for _ in range(2):
        os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.wait_for(running, MOST_SECONDS)
    assert caplog.messages == []


async def test_a_call_in_flight_is_answered() -> None:
    """A body that is incomplete at the end gets an error as its answer."""
    started: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    running = asyncio.create_task(serve(app(), ANYWHERE, started.set_result))
    host, port = (await started).removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"POST /filter HTTP/1.1\r\nHost: placet\r\nContent-Length: 500\r\n\r\n{")
    await writer.drain()
    await settled()
    os.kill(os.getpid(), signal.SIGTERM)
    answer = await asyncio.wait_for(reader.read(), MOST_SECONDS)
    assert b'"Error":"placet: the body of the request did not arrive in time"' in answer
    await asyncio.wait_for(running, MOST_SECONDS)
    writer.close()


@asynccontextmanager
async def shutting_down(settings: Settings) -> AsyncIterator[tuple[str, asyncio.Task[None]]]:
    """The URL of a server after SIGTERM, and the task that ends with the server."""
    started: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    shutdown = Shutdown()
    parts = Parts(settings=settings, shutdown=shutdown)
    running = asyncio.create_task(serve(parts.app(), settings, started.set_result, None, shutdown))
    url = await started
    os.kill(os.getpid(), signal.SIGTERM)
    await settled()
    assert shutdown.has_begun
    try:
        yield url, running
    finally:
        await asyncio.wait_for(running, MOST_SECONDS)


async def test_it_serves_for_a_while_after_sigterm() -> None:
    """C2: each answer closes its connection, so that no client writes into a closed one."""
    settings = replace(ANYWHERE, lameduck=0.5)
    async with shutting_down(settings) as (url, running), ClientSession(url) as session:
        for _ in range(2):
            async with session.post("/filter", json=names_request("a")) as response:
                assert (await response.json())["NodeNames"] == ["a"]
                assert response.headers["Connection"] == "close"
        assert not running.done()
    with pytest.raises(ConnectionError):
        await asyncio.open_connection(*url.removeprefix("http://").split(":"))

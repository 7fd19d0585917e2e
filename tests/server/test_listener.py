"""The sockets of a server: every address of a host, and an end that takes nobody by surprise."""

from __future__ import annotations

import asyncio
import resource
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from aiohttp import ClientSession, web
from prometheus_client import CollectorRegistry

from server.metrics import Metrics
from server.running import Listener
from server.tls import Credentials
from tests.support.certificates import Keyring
from tests.support.served import LOG


@pytest.fixture
async def server() -> AsyncIterator[web.Server]:
    async def answer(_: web.BaseRequest) -> web.Response:
        return web.Response(text="ok")

    made = web.Server(answer)
    yield made
    await made.shutdown()


async def asked(port: int, host: str = "127.0.0.1") -> str:
    async with ClientSession() as session, session.get(f"http://{host}:{port}/") as response:
        return await response.text()


async def test_no_host_is_every_interface(server: web.Server) -> None:
    """Of both families; the port is given, as free ones differ between them."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    listener = Listener(server)
    assert (await listener.open("", port))[1] == port
    assert await asked(port) == "ok"
    if socket.has_ipv6:
        assert await asked(port, "[::1]") == "ok"
    await listener.close()


async def test_what_has_been_accepted_is_served_though_the_end_comes(server: web.Server) -> None:
    listener = Listener(server)
    host, port = await listener.open("127.0.0.1", 0)
    clients = [asyncio.create_task(asyncio.open_connection(host, port)) for _ in range(20)]
    await asyncio.gather(*clients)
    await asyncio.sleep(0.01)
    await listener.close()
    assert len(server.connections) == len(clients)
    for client in clients:
        _, writer = client.result()
        writer.close()
        await writer.wait_closed()


async def test_a_handshake_that_does_not_end_does_not_hold_up_the_end(
    server: web.Server, tmp_path: Path
) -> None:
    keyring = Keyring(tmp_path)
    keyring.write()
    credentials = Credentials(keyring.files, Metrics(CollectorRegistry(), "1.2.3"), LOG)
    listener = Listener(server, credentials)
    host, port = await listener.open("127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(host, port)
    await asyncio.sleep(0.01)
    async with asyncio.timeout(5):
        await listener.close()
        assert await reader.read() == b""
    writer.close()
    await writer.wait_closed()


@contextmanager
def descriptors(most: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_who_comes_when_there_are_no_descriptors_waits(server: web.Server) -> None:
    """And the log has it, once a second."""
    told: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    listener = Listener(server)
    host, port = await listener.open("127.0.0.1", 0)
    client = socket.socket()
    client.setblocking(False)
    with descriptors(client.fileno() + 1):
        await asyncio.get_running_loop().sock_connect(client, (host, port))
        await asyncio.sleep(0.1)
    assert [context["message"] for context in told] == ["cannot accept"]
    async with asyncio.timeout(5):
        await asyncio.get_running_loop().sock_sendall(client, b"GET / HTTP/1.0\r\n\r\n")
        assert (await asyncio.get_running_loop().sock_recv(client, 100)).startswith(b"HTTP/1.0 200")
    client.close()
    await listener.close()

"""Certificates that change while a server is in use: no client loses its connection."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator

import pytest
from aiohttp import ClientError, ClientSession, TraceConfig
from trustme import CA, LeafCert

from tests.support.certificates import Keyring, Secured, ask, secured
from tests.support.fake_clock import until

pytestmark = pytest.mark.fake_clock


@pytest.fixture
async def server(keyring: Keyring) -> AsyncIterator[Secured]:
    async with secured(keyring.mutual("scheduler")) as served:
        yield served


def scheduler(keyring: Keyring) -> LeafCert:
    return keyring.client_ca.issue_cert(common_name="scheduler")


class Client:
    """A client that sends twenty requests a second, and counts answers and connections."""

    def __init__(self) -> None:
        self.answers = 0
        self.connections = 0
        self.trace = TraceConfig()
        self.trace.on_connection_create_end.append(self._connected)

    async def run(self, session: ClientSession) -> None:
        while True:
            assert (await ask(session)).status == 200
            self.answers += 1
            await asyncio.sleep(0.05)

    async def more(self, answers: int) -> None:
        wanted = self.answers + answers
        await until(lambda: self.answers >= wanted)

    async def _connected(self, *_: object) -> None:
        self.connections += 1


async def test_all_files_change_while_clients_send_requests(
    keyring: Keyring, server: Secured
) -> None:
    """One connection stays open through all changes; new connections do not fail either."""
    client = keyring.client(scheduler(keyring))
    kept, renewed = Client(), Client()
    async with (
        server.session(client, kept.trace) as session,
        server.session(client, renewed.trace) as closing,
        asyncio.TaskGroup() as group,
    ):
        closing.headers["Connection"] = "close"
        running = [
            group.create_task(kept.run(session)),
            group.create_task(renewed.run(closing)),
        ]
        for _ in range(3):
            await server.shows(keyring.write(), keyring.client())
            await kept.more(20)
            await renewed.more(5)
        for task in running:
            task.cancel()
    assert kept.connections == 1
    assert renewed.connections >= renewed.answers > 15


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_clients_of_a_replaced_ca_are_refused(
    keyring: Keyring, server: Secured, version: ssl.TLSVersion
) -> None:
    """On new connections only."""
    old = keyring.client(scheduler(keyring))
    old.maximum_version = version
    async with server.session(old) as session:
        assert (await ask(session)).status == 200
        keyring.client_ca = CA()
        await server.shows(keyring.write(), keyring.client())
        assert (await ask(session)).status == 200
    with pytest.raises((ClientError, OSError)):
        await server.ask(old)
    assert (await server.ask(keyring.client(scheduler(keyring)))).status == 200


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_a_tls_session_of_a_replaced_ca_is_not_resumed(
    keyring: Keyring, server: Secured, version: ssl.TLSVersion
) -> None:
    """A resumed TLS session skips the check of the client certificate."""
    client = keyring.client(scheduler(keyring))
    client.maximum_version = version
    session, reused = await asyncio.to_thread(get_metrics, server.port, client, None)
    _, reused = await asyncio.to_thread(get_metrics, server.port, client, session)
    assert reused
    keyring.client_ca = CA()
    await server.shows(keyring.write(), keyring.client())
    with pytest.raises(OSError):  # noqa: PT011 - the text differs between versions of OpenSSL
        await asyncio.to_thread(get_metrics, server.port, client, session)


def get_metrics(
    port: int, client: ssl.SSLContext, session: ssl.SSLSession | None
) -> tuple[ssl.SSLSession | None, bool | None]:
    """The TLS session of an answered request, and whether it was resumed."""
    with (
        socket.create_connection(("127.0.0.1", port), 5) as plain,
        client.wrap_socket(plain, server_hostname="127.0.0.1", session=session) as secure,
    ):
        secure.sendall(b"GET /metrics HTTP/1.1\r\nHost: placet\r\n\r\n")
        if not secure.recv(100).startswith(b"HTTP/1.1 200"):
            raise ConnectionError("no answer")
        return secure.session, secure.session_reused


async def test_the_port_is_free_afterwards(keyring: Keyring) -> None:
    async with secured(keyring.files) as server:
        await server.shows(keyring.write(), keyring.client())
    with pytest.raises(ConnectionError):
        await asyncio.open_connection("127.0.0.1", server.port)

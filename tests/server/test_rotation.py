"""Certificates that change under a server in use: nobody loses a connection."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import ClientError, ClientSession, TraceConfig
from trustme import CA, LeafCert

from tests.support.certificates import Keyring, in_days, put
from tests.support.secured import Secured, ask, secured


@pytest.fixture
def keyring(tmp_path: Path) -> Keyring:
    keyring = Keyring(tmp_path)
    keyring.write()
    return keyring


@pytest.fixture
async def server(keyring: Keyring) -> AsyncIterator[Secured]:
    async with secured(keyring.mutual("scheduler")) as served:
        yield served


def scheduler(keyring: Keyring) -> LeafCert:
    return keyring.client_ca.issue_cert(common_name="scheduler")


class Load:
    """Somebody who keeps asking, in a session."""

    def __init__(self) -> None:
        self.answers = 0
        self.connections = 0
        self.trace = TraceConfig()
        self.trace.on_connection_create_end.append(self._connected)

    async def run(self, session: ClientSession) -> None:
        while True:
            assert (await ask(session)).status == 200
            self.answers += 1

    async def more(self, answers: int) -> None:
        wanted = self.answers + answers
        async with asyncio.timeout(10):
            while self.answers < wanted:  # noqa: ASYNC110 - it is a question, no event
                await asyncio.sleep(0.01)

    async def _connected(self, *_: object) -> None:
        self.connections += 1


async def test_new_connections_get_the_new_certificate(keyring: Keyring, server: Secured) -> None:
    leaf = keyring.write_pair(in_days(30))
    await server.shows(leaf, keyring.client())


async def test_everything_changes_while_somebody_keeps_asking(
    keyring: Keyring, server: Secured
) -> None:
    """One connection lives through all of it; others come and go, and none of them fails."""
    client = keyring.client(scheduler(keyring))
    kept, renewed = Load(), Load()
    async with (
        server.session(client, kept.trace) as session,
        server.session(client, renewed.trace) as closing,
        asyncio.TaskGroup() as group,
    ):
        closing.headers["Connection"] = "close"
        asking = [
            group.create_task(kept.run(session)),
            group.create_task(renewed.run(closing)),
        ]
        for _ in range(3):
            await server.shows(keyring.write(), keyring.client())
            await kept.more(20)
            await renewed.more(5)
        for task in asking:
            task.cancel()
    assert kept.connections == 1
    assert renewed.connections >= renewed.answers > 15


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_clients_of_a_replaced_ca_are_refused(
    keyring: Keyring, server: Secured, version: ssl.TLSVersion
) -> None:
    """On new connections; those there are have been let in."""
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
async def test_a_session_of_a_replaced_ca_is_not_taken_up_again(
    keyring: Keyring, server: Secured, version: ssl.TLSVersion
) -> None:
    """A TLS session spares the handshake, and with it the look at the certificate."""
    client = keyring.client(scheduler(keyring))
    client.maximum_version = version
    session, reused = await asyncio.to_thread(get_filter, server.port, client, None)
    _, reused = await asyncio.to_thread(get_filter, server.port, client, session)
    assert reused
    keyring.client_ca = CA()
    await server.shows(keyring.write(), keyring.client())
    with pytest.raises(OSError):  # noqa: PT011 - what it says differs between versions of OpenSSL
        await asyncio.to_thread(get_filter, server.port, client, session)


def get_filter(
    port: int, client: ssl.SSLContext, session: ssl.SSLSession | None
) -> tuple[ssl.SSLSession | None, bool | None]:
    """The session of a connection that was answered, and whether it was this one."""
    with (
        socket.create_connection(("127.0.0.1", port), 5) as plain,
        client.wrap_socket(plain, server_hostname="127.0.0.1", session=session) as secure,
    ):
        secure.sendall(b"GET /metrics HTTP/1.1\r\nHost: placet\r\n\r\n")
        if not secure.recv(100).startswith(b"HTTP/1.1 200"):
            raise ConnectionError("no answer")
        return secure.session, secure.session_reused


async def test_a_corrupt_pair_keeps_the_last(
    keyring: Keyring, server: Secured, caplog: pytest.LogCaptureFixture
) -> None:
    client = keyring.client(scheduler(keyring))
    before = await server.shown(client)
    keyring.write_pair()
    put(keyring.files.key, b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n")
    async with asyncio.timeout(10):
        while "the previous certificates stay in use" not in caplog.text:  # noqa: ASYNC110 - so is this
            await asyncio.sleep(0.02)
    assert await server.shown(client) == before
    assert (await server.ask(client)).status == 200
    assert caplog.text.count("the previous certificates stay in use") == 1


async def test_afterwards_the_port_is_free(keyring: Keyring) -> None:
    """Whichever acceptors are the last."""
    async with secured(keyring.files) as server:
        await server.shows(keyring.write(), keyring.client())
    with pytest.raises(ConnectionError):
        await asyncio.open_connection("127.0.0.1", server.port)

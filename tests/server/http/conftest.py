"""Clients that write and read bytes as they are, and what they ask."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

import msgspec
import pytest

from tests.support.served import Served, names_request

BODY = msgspec.json.encode(names_request("a", "b"))
LENGTH = b"Content-Length: %d\r\n" % len(BODY)


def request(
    path: str = "/filter", headers: bytes = LENGTH, body: bytes = BODY, version: bytes = b"1.1"
) -> bytes:
    head = b"POST %b HTTP/%b\r\nHost: placet\r\n" % (path.encode(), version)
    return b"%b%b\r\n%b" % (head, headers, body)


@dataclass
class Peer:
    """A client that writes and reads bytes as they are."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def answer(self) -> tuple[bytes, Mapping[str, str], bytes]:
        """The status line, the headers and the body of the next answer."""
        async with asyncio.timeout(5):
            head = await self.reader.readuntil(b"\r\n\r\n")
            status, *lines = head.decode().strip().split("\r\n")
            headers = dict(line.split(": ", 1) for line in lines)
            body = await self.reader.readexactly(int(headers["Content-Length"]))
        return status.encode(), headers, body

    async def ask(self, data: bytes) -> tuple[bytes, Mapping[str, str], bytes]:
        self.writer.write(data)
        return await self.answer()


class Connect(Protocol):
    """Connects to a server; a slow client reads next to nothing."""

    async def __call__(self, served: Served, *, slow: bool = False) -> Peer: ...


@pytest.fixture
async def connect() -> AsyncIterator[Connect]:
    """Opens connections that end with the test."""
    peers: list[Peer] = []

    async def to(served: Served, *, slow: bool = False) -> Peer:
        # asyncio sends small parts at once only on sockets that name the protocol.
        sock = socket.socket(proto=socket.IPPROTO_TCP)
        if slow:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.connect(served.address)
        peers.append(
            Peer(*await asyncio.open_connection(sock=sock, limit=1 << (10 if slow else 20)))
        )
        return peers[-1]

    yield to
    for peer in peers:
        peer.writer.close()
        with suppress(ConnectionError):
            await peer.writer.wait_closed()

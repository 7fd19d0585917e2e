"""Hostile clients: connections from many addresses that stay in one phase of a request each.

It is a program of its own, so that whoever measures a good client has a processor for that:
`python -m tests.support.hostile_clients PORT NUMBER [SECONDS]`. A connection that is closed is
opened again, a moment later. `tls` after these says that the server speaks HTTPS.
"""

from __future__ import annotations

import asyncio
import resource
import socket
import ssl
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress

# Each of these is a host of its own; any process of this machine has them.
ADDRESSES = tuple(f"127.0.0.{number}" for number in range(2, 22))
_AGAIN_SECONDS, _DRIP_SECONDS = 0.1, 0.5
_PATIENCE_SECONDS = 60.0
_POST = b"POST /filter HTTP/1.1\r\nHost: placet\r\nContent-Type: application/json\r\n"
_NAMES = b",".join(b'"node-%d"' % number for number in range(5000))
_CALL = b'{"Pod":{"metadata":{"name":"p","namespace":"d","uid":"u"}},"NodeNames":[%b]}' % _NAMES
# A record of a handshake that announces 512 bytes, and a few of them.
_HALF_A_HANDSHAKE = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Phase = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def _silent(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
    await reader.read(1)


async def _half_a_handshake(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(_HALF_A_HANDSHAKE)
    await reader.read(1)


async def _dripping(writer: asyncio.StreamWriter, begin: bytes, drip: bytes) -> None:
    writer.write(begin)
    while True:
        await writer.drain()
        await asyncio.sleep(_DRIP_SECONDS)
        writer.write(drip)


async def _headers(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await _dripping(writer, _POST, b"X: y\r\n")


async def _body(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await _dripping(writer, _POST + b"Content-Length: 100000\r\n\r\n{", b" ")


async def _large_body(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await _dripping(writer, _POST + b"Content-Length: 60000000\r\n\r\n{", b" ")


async def _reading_slowly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(_POST + b"Content-Length: %d\r\n\r\n" % len(_CALL) + _CALL)
    while await reader.read(1):  # noqa: ASYNC110 - it reads slowly
        await asyncio.sleep(_DRIP_SECONDS)


PLAIN: tuple[Phase, ...] = (_silent, _headers, _body, _large_body, _reading_slowly)


async def _open(port: int, host: str, context: ssl.SSLContext | None) -> Streams:
    connection = socket.socket()
    try:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.setblocking(False)
        connection.bind((host, 0))
        loop = asyncio.get_running_loop()
        await loop.sock_connect(connection, ("127.0.0.1", port))
        name = "placet" if context is not None else None
        return await asyncio.open_connection(
            sock=connection, ssl=context, server_hostname=name, limit=1024
        )
    except BaseException:
        connection.close()
        raise


async def _attack(port: int, host: str, phase: Phase, context: ssl.SSLContext | None) -> None:
    while True:
        writer = None
        with suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
            async with asyncio.timeout(_PATIENCE_SECONDS):
                reader, writer = await _open(port, host, context)
                await phase(reader, writer)
        if writer is not None:
            writer.transport.abort()
        await asyncio.sleep(_AGAIN_SECONDS)


async def _attacks(port: int, number: int, *, tls: bool) -> None:
    context = None
    phases: list[tuple[Phase, bool]] = [(phase, tls) for phase in PLAIN]
    if tls:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        phases += [(_silent, False), (_half_a_handshake, False)]
    async with asyncio.TaskGroup() as group:
        for index in range(number):
            phase, speaks_tls = phases[index // len(ADDRESSES) % len(phases)]
            host = ADDRESSES[index % len(ADDRESSES)]
            group.create_task(_attack(port, host, phase, context if speaks_tls else None))
        print("attacking", flush=True)  # noqa: T201 - whoever started it waits for that


def main(port: str, number: str, *more: str) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 65_536), most))
    with suppress(KeyboardInterrupt):
        asyncio.run(_attacks(int(port), int(number), tls="tls" in more))


if __name__ == "__main__":
    main(*sys.argv[1:])

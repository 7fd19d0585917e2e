"""Clients that misbehave, beside which good calls must be answered; and one that stays idle.

They speak over sockets of their own, with bytes that no HTTP client would send.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec

from cli.conformance.cases import Verb
from cli.conformance.exchange import HEADERS, Caller, Exchange, decoded
from grammar.messages.texts import os_reason

_CLIENTS = 20
_END = b"\r\n\r\n"
_LONGEST = 16 << 20


@asynccontextmanager
async def slow_clients(caller: Caller, verb: Verb, request: Any) -> AsyncIterator[None]:
    """Clients that have sent half a body, and send no more while the block runs."""
    message = _message(caller, verb, request)
    open_connections = [await _opened(caller) for _ in range(_CLIENTS)]
    try:
        for _, writer in open_connections:
            writer.write(message[: len(message) // 2 + 1])
            await writer.drain()
        yield
    finally:
        for _, writer in open_connections:
            await _closed(writer)


async def broken_clients(caller: Caller, verb: Verb, request: Any) -> None:
    """Clients that go away in the middle of a body, and clients that read no answer."""
    message = _message(caller, verb, request)
    for number in range(_CLIENTS):
        _, writer = await _opened(caller)
        writer.write(message if number % 2 else message[:-20])
        with suppress(ConnectionError):
            await writer.drain()
        writer.transport.abort()


async def idle_client(caller: Caller, verb: Verb, request: Any, seconds: float) -> Exchange:
    """Calls twice on one connection, which is idle for so long between the calls."""
    try:
        reader, writer = await _opened(caller)
    except OSError as problem:
        return Exchange(verb, request, error=f"no connection: {os_reason(problem)}")
    try:
        message = _message(caller, verb, request)
        await _call(reader, writer, message)
        await asyncio.sleep(seconds)
        text = await _call(reader, writer, message)
    except (ConnectionError, asyncio.IncompleteReadError, ValueError):
        error = f"the connection was closed within {seconds:g} s"
        return Exchange(verb, request, error=error)
    finally:
        await _closed(writer)
    value, malformed = decoded(text)
    return Exchange(verb, request, 200, text, value=value, malformed=malformed)


async def _opened(caller: Caller) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection(caller.host, caller.port, ssl=caller.tls, limit=_LONGEST)


async def _closed(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()


def _message(caller: Caller, verb: Verb, request: Any) -> bytes:
    data = msgspec.json.encode(request)
    path = "/" + caller.address(verb).split("/", 3)[3]
    plain = {name: value for name, value in HEADERS.items() if name != "Accept-Encoding"}
    lines = [f"POST {path} HTTP/1.1", f"Host: {caller.host}:{caller.port}"]
    lines += [f"{name}: {value}" for name, value in plain.items()]
    lines.append(f"Content-Length: {len(data)}")
    return "\r\n".join(lines).encode() + _END + data


async def _call(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, message: bytes
) -> bytes:
    """The body of the answer, of a known length or in chunks."""
    writer.write(message)
    await writer.drain()
    head = (await reader.readuntil(_END)).lower()
    if b"transfer-encoding: chunked" in head:
        body = b""
        while size := int(await reader.readline(), 16):
            body += await reader.readexactly(size)
            await reader.readline()
        await reader.readline()
        return body
    _, _, rest = head.partition(b"content-length:")
    return await reader.readexactly(int(rest.split(b"\r\n", 1)[0]))

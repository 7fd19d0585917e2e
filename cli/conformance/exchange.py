"""Exchange: one call of an extender and what came back, and the client that makes calls.

The client sends what kube-scheduler sends: a POST with JSON, no credentials, and `Accept-Encoding:
gzip`. It follows no redirects. Beside it are clients that misbehave, with bytes that no HTTP client
would send, and one that stays idle.
"""

from __future__ import annotations

import asyncio
import io
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import msgspec

from cli.conformance.requests import Verb
from grammar.messages.texts import os_reason

HEADERS = {
    "Content-Type": "application/json",
    "User-Agent": "Go-http-client/1.1",
    "Accept-Encoding": "gzip",
}


@dataclass(frozen=True, slots=True)
class Exchange:
    """An exchange: a request and its answer; `error` says why there is no answer.

    `value` is the answer as JSON, or None where `malformed` says what it is instead.
    """

    verb: str
    request: Any
    status: int = 0
    text: bytes = b""
    error: str = ""
    value: Any = None
    malformed: str = ""


@dataclass(frozen=True, slots=True)
class Caller:
    """Calls the verbs of one extender."""

    session: aiohttp.ClientSession
    url: str
    paths: Mapping[Verb, str]
    timeout: float
    tls: ssl.SSLContext | None

    @property
    def host(self) -> str:
        return urlsplit(self.url).hostname or ""

    @property
    def port(self) -> int:
        return urlsplit(self.url).port or (80 if self.tls is None else 443)

    def address(self, verb: Verb) -> str:
        """The URL of a verb."""
        return f"{self.url}/{self.paths[verb]}"

    async def ask(self, verb: Verb, request: Any) -> Exchange:
        """Sends a request; bytes are sent as they are."""
        data = request if isinstance(request, bytes) else msgspec.json.encode(request)
        try:
            async with (
                asyncio.timeout(self.timeout),
                self.session.post(
                    self.address(verb),
                    data=io.BytesIO(data),
                    headers=HEADERS,
                    allow_redirects=False,
                    ssl=self.tls if self.tls is not None else True,
                ) as response,
            ):
                text = await response.read()
                status = response.status
        except TimeoutError:
            return Exchange(verb, request, error=f"no answer within {self.timeout:g} s")
        except (aiohttp.ClientError, OSError) as problem:
            return Exchange(verb, request, error=_why(problem))
        value, malformed = decoded(text)
        return Exchange(verb, request, status, text, value=value, malformed=malformed)


def _why(problem: Exception) -> str:
    if isinstance(problem, aiohttp.ClientConnectorError):
        return f"no connection: {os_reason(problem.os_error)}"
    if isinstance(problem, OSError) and problem.strerror:
        return os_reason(problem)
    return str(problem) or type(problem).__name__


def decoded(text: bytes) -> tuple[Any, str]:
    """The value of an answer, or what is wrong with its text (C4)."""
    if not text.strip():
        return None, "the answer is empty"
    try:
        return msgspec.json.decode(text), ""
    except msgspec.DecodeError as problem:
        return None, f"the answer is not one JSON value: {problem}"


# ---- clients that misbehave, beside which good calls must be answered; and one that stays idle

_CLIENTS = 20
_PLAIN = {name: value for name, value in HEADERS.items() if name != "Accept-Encoding"}


@asynccontextmanager
async def slow_clients(caller: Caller, verb: Verb, request: Any) -> AsyncIterator[None]:
    """Clients that have sent half a body, and send no more while the block runs."""
    message = _message(caller, verb, request)
    writers = [await _opened(caller) for _ in range(_CLIENTS)]
    try:
        for writer in writers:
            writer.write(message[: len(message) // 2 + 1])
            await writer.drain()
        yield
    finally:
        for writer in writers:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()


async def broken_clients(caller: Caller, verb: Verb, request: Any) -> None:
    """Clients that go away in the middle of a body, and clients that read no answer."""
    message = _message(caller, verb, request)
    for number in range(_CLIENTS):
        writer = await _opened(caller)
        writer.write(message if number % 2 else message[:-20])
        with suppress(ConnectionError):
            await writer.drain()
        writer.transport.abort()


async def idle_client(caller: Caller, verb: Verb, request: Any, seconds: float) -> Exchange:
    """Calls twice on one connection, which is idle for so long between the calls."""
    where = (caller.host, caller.port)
    connection = (
        HTTPConnection(*where, timeout=caller.timeout)
        if caller.tls is None
        else HTTPSConnection(*where, timeout=caller.timeout, context=caller.tls)
    )

    def call() -> tuple[int, bytes]:
        connection.request("POST", _path(caller, verb), msgspec.json.encode(request), _PLAIN)
        response = connection.getresponse()
        return response.status, response.read()

    try:
        await asyncio.to_thread(connection.connect)
    except OSError as problem:
        return Exchange(verb, request, error=f"no connection: {os_reason(problem)}")
    # From now on a connection that is closed is not opened again.
    connection.auto_open = 0
    try:
        await asyncio.to_thread(call)
        await asyncio.sleep(seconds)
        status, text = await asyncio.to_thread(call)
    except (OSError, HTTPException):
        error = f"the connection was closed within {seconds:g} s"
        return Exchange(verb, request, error=error)
    finally:
        connection.close()
    value, malformed = decoded(text)
    return Exchange(verb, request, status, text, value=value, malformed=malformed)


async def _opened(caller: Caller) -> asyncio.StreamWriter:
    _, writer = await asyncio.open_connection(caller.host, caller.port, ssl=caller.tls)
    return writer


def _path(caller: Caller, verb: Verb) -> str:
    return "/" + caller.address(verb).split("/", 3)[3]


def _message(caller: Caller, verb: Verb, request: Any) -> bytes:
    data = msgspec.json.encode(request)
    lines = [f"POST {_path(caller, verb)} HTTP/1.1", f"Host: {caller.host}:{caller.port}"]
    lines += [f"{name}: {value}" for name, value in _PLAIN.items()]
    lines.append(f"Content-Length: {len(data)}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + data

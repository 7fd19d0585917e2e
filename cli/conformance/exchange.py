"""Exchange: one call of an extender and what came back, and the client that makes calls.

The client sends what kube-scheduler sends: a POST with JSON, no credentials, and `Accept-Encoding:
gzip`. It follows no redirects.
"""

from __future__ import annotations

import asyncio
import io
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import msgspec

from cli.conformance.cases import Verb
from grammar.messages.texts import os_reason

HEADERS = {
    "Content-Type": "application/json",
    "User-Agent": "Go-http-client/1.1",
    "Accept-Encoding": "gzip",
}


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request and its answer; `error` says why there is none.

    `value` is the answer as JSON, or None where `malformed` says what it is instead.
    """

    verb: str
    request: Any
    status: int = 0
    text: bytes = b""
    error: str = ""
    value: Any = None
    malformed: str = ""


class Caller:
    """Calls the verbs of one extender."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        url: str,
        paths: Mapping[Verb, str],
        timeout: float,
        tls: ssl.SSLContext | None,
    ) -> None:
        self._session, self._timeout, self.tls = session, timeout, tls
        self.url, self.paths = url.rstrip("/"), paths
        split = urlsplit(self.url)
        self.host = split.hostname or ""
        self.port = split.port or (443 if split.scheme == "https" else 80)

    def address(self, verb: Verb) -> str:
        """The URL of a verb."""
        return f"{self.url}/{self.paths[verb]}"

    async def ask(self, verb: Verb, request: Any) -> Exchange:
        """Sends a request; bytes are sent as they are."""
        data = request if isinstance(request, bytes) else msgspec.json.encode(request)
        try:
            async with (
                asyncio.timeout(self._timeout),
                self._session.post(
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
            return Exchange(verb, request, error=f"no answer within {self._timeout:g} s")
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

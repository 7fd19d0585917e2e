"""Requests to the API server and streams from it: raw bytes in and out, with limits and timeouts.

No retries but one: after 401 the identity is renewed, once. Who asks knows what may be repeated.
"""

from __future__ import annotations

import asyncio
import os
import platform
import ssl
import time
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import aiohttp

from engine.cluster.answer import refusal
from engine.cluster.configuration import SERVICE_ACCOUNT, find
from engine.cluster.session import Session, open_session
from engine.cluster.throttle import Limits, Throttle
from engine.errors import ApiUnreachableError, NotSentError

_UNAUTHORIZED = 401
# What a connection can come to: aiohttp's errors, the system's, and time that has run out.
_TRANSPORT = (aiohttp.ClientError, OSError)


class ApiClient:
    """An API server. It is a context manager; `connect` makes one."""

    def __init__(self, session: Session, throttle: Throttle, user_agent: str) -> None:
        self._session = session
        self._throttle = throttle
        self._user_agent = user_agent

    @property
    def host(self) -> str:
        """The API server's URL, for messages."""
        return self._session.host

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Sequence[tuple[str, str]] = (),
        body: bytes | None = None,
        content_type: str = "application/json",
        timeout_seconds: float = 30.0,
    ) -> bytes:
        """The body of the answer. `path` is quoted already, `params` are not.

        `timeout_seconds` is for all of it, waiting for our own limits included.
        Raises ApiError and ApiUnreachableError, NotSentError among them.
        """
        headers = {"Content-Type": content_type} if body is not None else {}
        waiting = True
        try:
            async with asyncio.timeout(timeout_seconds), self._throttle.slot():
                waiting = False
                response = await self._send(method, path, params, headers, body, None)
                async with response:
                    return await response.read()
        except _TRANSPORT as error:
            if waiting:
                text = f"a request waited {timeout_seconds:g} s for its turn: `--kube-api-qps`"
                raise NotSentError(text) from error
            raise self._unreachable(error, timeout_seconds) from error

    @asynccontextmanager
    async def stream(
        self, path: str, params: Sequence[tuple[str, str]], idle_seconds: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """The lines of an answer, complete, without their ends and of any length, as they come.

        They end when the server ends them. Opening raises ApiError and ApiUnreachableError, and
        the lines raise ApiUnreachableError: when nothing came for `idle_seconds`, and when the
        connection breaks.
        """
        headers = {"Accept-Encoding": "identity"}
        try:
            async with asyncio.timeout(idle_seconds):
                response = await self._send("GET", path, params, headers, None, idle_seconds)
        except _TRANSPORT as error:
            raise self._unreachable(error, idle_seconds) from error
        try:
            async with aclosing(self._lines(response, idle_seconds)) as lines:
                yield lines
        finally:
            response.close()

    async def close(self) -> None:
        await self._session.close()

    async def _lines(
        self, response: aiohttp.ClientResponse, idle_seconds: float
    ) -> AsyncGenerator[bytes, None]:
        begun: list[bytes] = []  # of a line whose end is not here yet: joined once
        try:
            async for chunk in response.content.iter_any():
                first, *others = chunk.split(b"\n")
                begun.append(first)
                for other in others:
                    if line := b"".join(begun):
                        yield line
                    begun = [other]
        except _TRANSPORT as error:
            raise self._unreachable(error, idle_seconds) from error
        if any(begun):
            raise ApiUnreachableError(f"`{self.host}` broke off in the middle of a line")

    async def _send(
        self,
        method: str,
        path: str,
        params: Sequence[tuple[str, str]],
        headers: dict[str, str],
        body: bytes | None,
        idle_seconds: float | None,
    ) -> aiohttp.ClientResponse:
        """An answer with a status of success."""

        async def attempt() -> aiohttp.ClientResponse:
            return await self._session.send(
                method,
                path,
                params=list(params),
                headers={"User-Agent": self._user_agent, "Accept": "application/json", **headers},
                body=body,
                idle_seconds=idle_seconds,
            )

        generation = self._session.generation
        try:
            response = await attempt()
            refused = response.status == _UNAUTHORIZED
            if refused:
                response.release()
        except aiohttp.ClientConnectorCertificateError:
            refused = True  # the authority may have been replaced: its file is read again as well
        if refused:
            await self._session.renew(generation)
            response = await attempt()
        if response.status >= 300:
            async with response:
                raise refusal(response.status, response.headers, await response.read())
        return response

    def _unreachable(self, error: Exception, seconds: float) -> ApiUnreachableError:
        kind = ApiUnreachableError
        match error:
            case TimeoutError():
                text = f"`{self.host}` sent nothing for {seconds:g} s"
            case aiohttp.ClientConnectorCertificateError() | ssl.SSLError():
                text = f"`{self.host}` is not trusted: {error}"
            case aiohttp.ClientConnectorError():
                # The text of asyncio's error is the address again.
                reason = os.strerror(error.errno) if error.errno else str(error.os_error)
                kind = NotSentError
                text = f"`{self.host}` cannot be reached: {reason}"
            case _:
                text = f"`{self.host}` broke off: {str(error) or type(error).__name__}"
        return kind(text)


@asynccontextmanager
async def connect(
    kubeconfig: Path | None,
    context: str | None,
    *,
    version: str,
    limits: Limits = Limits(),  # noqa: B008 - it is immutable
    service_account: Path = SERVICE_ACCOUNT,
) -> AsyncIterator[ApiClient]:
    """A client for the cluster of this kubeconfig and context, or of the surroundings.

    `version` is Placet's, which the API server's audit log shows.
    Raises ClusterConfigurationError.
    """
    session = await open_session(find(kubeconfig, context, service_account))
    system = f"{platform.system()}/{platform.machine()}".lower()
    throttle = Throttle(limits, time.monotonic)
    try:
        yield ApiClient(session, throttle, f"placet/{version} ({system})")
    finally:
        await session.close()

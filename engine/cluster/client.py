"""How much the API server may be asked: so many requests a second, and so many at once."""

from __future__ import annotations

import asyncio
import os
import platform
import ssl
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
from kubernetes_asyncio.client.rest import RESTClientObject

from engine.cluster.configuration import SERVICE_ACCOUNT, Load, find
from engine.errors import ApiError, ApiUnreachableError, ClusterConfigurationError, NotSentError


@dataclass(frozen=True, slots=True)
class Limits:
    """Requests a second in the long run, requests that may come together, requests in flight.

    As much as kube-scheduler binds pods by default, and some more. Watches are not counted.
    """

    requests_per_second: float = 200.0
    burst: int = 400
    in_flight: int = 32


class TokenBucket:
    """Tokens that come back at a steady rate; taking one more than there are costs waiting."""

    def __init__(self, per_second: float, burst: int, clock: Callable[[], float]) -> None:
        self._per_second = per_second
        self._burst = burst
        self._clock = clock
        self._tokens = float(burst)
        self._counted = clock()

    def take(self) -> float:
        """Takes a token, and says how many seconds from now it may be used."""
        now = self._clock()
        self._tokens += (now - self._counted) * self._per_second
        self._tokens = min(self._tokens, float(self._burst)) - 1.0
        self._counted = now
        return max(0.0, -self._tokens / self._per_second)

    def give_back(self) -> None:
        """Returns a token that was not used."""
        self._tokens += 1.0


class Throttle:
    """Lets requests pass within limits."""

    def __init__(self, limits: Limits, clock: Callable[[], float]) -> None:
        self._bucket = TokenBucket(limits.requests_per_second, limits.burst, clock)
        self._in_flight = asyncio.Semaphore(limits.in_flight)

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Holds a request's place, from when it may be sent until its answer is read."""
        async with self._in_flight:
            if seconds := self._bucket.take():
                try:
                    await asyncio.sleep(seconds)
                except asyncio.CancelledError:
                    self._bucket.give_back()
                    raise
            yield


# ---- What the API server says when it refuses: a Status object, or whatever a proxy puts there.

_MOST_TEXT = 200


class _Details(msgspec.Struct, frozen=True, gc=False):
    retryAfterSeconds: int = 0


class _Status(msgspec.Struct, frozen=True, gc=False):
    """The fields of a meta/v1 Status that are read."""

    kind: str
    message: str | None = None
    reason: str | None = None
    code: int | None = None
    details: _Details | None = None


_STATUS = msgspec.json.Decoder(_Status)


def rejected_pod(status: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    """The error that an answer of HTTP status `status` is."""
    wait = _seconds(headers.get("Retry-After"))
    try:
        told = _STATUS.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        told = None
    if told is None or told.kind != "Status":
        text = " ".join(body[: 4 * _MOST_TEXT].decode("utf-8", "replace").split())
        return ApiError(status, "", text[:_MOST_TEXT], wait)
    if wait is None and told.details is not None and told.details.retryAfterSeconds > 0:
        wait = float(told.details.retryAfterSeconds)
    return ApiError(status, told.reason or "", told.message or "", wait)


def _seconds(header: str | None) -> float | None:
    """Retry-After in seconds; the API server never sends the form that is a date."""
    return float(header) if header is not None and header.isdecimal() else None


# ---- Connections to the API server in the name of one identity, renewed when it is refused.

_CONNECT_SECONDS = 10.0


class Session:
    """Sends requests. Make one with `open_session`, inside a running loop."""

    def __init__(self, load: Load, configuration: Any) -> None:
        self._load = load
        self._configuration = configuration
        self._rest = _connections(configuration)
        self._trust = _trust(configuration)
        self._renewing = asyncio.Lock()
        self.generation = 0

    @property
    def host(self) -> str:
        """The API server's URL."""
        return str(self._configuration.host)

    async def send(
        self,
        method: str,
        path: str,
        *,
        params: list[tuple[str, str]],
        headers: dict[str, str],
        body: bytes | None,
        idle_seconds: float | None,
    ) -> aiohttp.ClientResponse:
        """An answer whose body is still to be read.

        Raises aiohttp.ClientError, OSError (TimeoutError is one) and ApiUnreachableError.
        """
        if authorization := await self._authorization():
            headers = {**headers, "Authorization": authorization}
        rest = self._rest
        response: aiohttp.ClientResponse = await rest.pool_manager.request(
            method,
            self.host + path,
            params=params,
            headers=headers,
            data=body,
            timeout=aiohttp.ClientTimeout(sock_connect=_CONNECT_SECONDS, sock_read=idle_seconds),
            allow_redirects=False,  # the API server has none, and a token is not for others
            proxy=rest.proxy,
            proxy_headers=rest.proxy_headers,
            server_hostname=rest.server_hostname,
        )
        return response

    async def renew(self, generation: int) -> None:
        """Proves anew who we are, unless that was done since `generation` was current.

        Connections are replaced if certificates changed; what runs over the old ones breaks off.
        """
        async with self._renewing:
            if generation != self.generation:
                return
            try:
                configuration = await self._load()
                trust = _trust(configuration)
                if trust != self._trust:
                    rest, self._rest = self._rest, _connections(configuration)
                    self._trust = trust
                    await rest.close()
            except (ClusterConfigurationError, OSError) as error:
                raise ApiUnreachableError(str(error)) from error
            self._configuration = configuration
            self.generation += 1

    async def close(self) -> None:
        await self._rest.close()

    async def _authorization(self) -> str | None:
        """The header that carries a token. Asking for it is what reads token files again."""
        try:
            settings = await self._configuration.auth_settings()
        except Exception as error:  # whatever a plugin, a file or an identity provider does
            raise ApiUnreachableError(f"there is no token to show: {error}") from error
        token = settings.get("BearerToken")
        # A file with a token may end in a newline, which a header may not.
        return None if token is None or not token["value"] else str(token["value"]).strip()


async def open_session(load: Load) -> Session:
    """Raises ClusterConfigurationError."""
    configuration = await load()
    try:
        return Session(load, configuration)
    except OSError as error:  # ssl.SSLError is one: a certificate that is none
        raise ClusterConfigurationError(f"the certificates cannot be used: {error}") from error


def _connections(configuration: Any) -> Any:
    # 0 is no limit: watches hold a connection each, and requests have a limit of their own.
    return RESTClientObject(configuration, maxsize=0)


def _trust(configuration: Any) -> tuple[object, ...]:
    """What connections are made with: two that are equal make the same ones."""
    files = (configuration.ssl_ca_cert, configuration.cert_file, configuration.key_file)
    return (
        *(Path(file).read_bytes() if file else None for file in files),
        configuration.host,
        configuration.verify_ssl,
        configuration.tls_server_name,
        configuration.proxy,
    )


# ---- Requests to the API server and streams from it: raw bytes in and out, with limits and
# timeouts.
#
# No retries but one: after 401 the identity is renewed, once. Who asks knows what may be repeated.

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
                raise rejected_pod(response.status, response.headers, await response.read())
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
    limits: Limits = Limits(),
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

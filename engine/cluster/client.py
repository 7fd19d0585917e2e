"""Client of the API server: requests and streams, as raw bytes, within limits.

`connect` makes an ApiClient, and closes it. It sends a request again in one case only: after an
answer 401, with renewed credentials. The caller knows whether any other request may be repeated.

The proxy comes from the environment, as kubectl reads it: HTTPS_PROXY is for https and HTTP_PROXY
for http. NO_PROXY lists hosts without a proxy: by name, domain, address, or network as in
`10.96.0.0/12`. Loopback has no proxy.
"""

from __future__ import annotations

import asyncio
import ipaddress
import platform
import ssl
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, Protocol, TypeVar
from urllib.parse import quote, urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
import msgspec

from engine.cluster.connection_configuration import SERVICE_ACCOUNT, Identity, Load, find
from engine.errors import ApiError, ApiUnreachableError, ClusterConfigurationError, NotSentError
from engine.objects.api_types import ApiStatus
from grammar.messages.texts import os_reason
from policies.disk import contents
from policies.resource import read_json

T = TypeVar("T")
CORE = "/api/v1"
COORDINATION = "/apis/coordination.k8s.io/v1"


def path_of(group: str, resource: str, namespace: str, *names: str) -> str:
    """The path of a resource, of an object, or of a part such as `binding`.

    `group` is like CORE. An empty namespace is left out. A name is one part, whatever is in it.
    """
    within = ("namespaces", namespace) if namespace else ()
    return "/".join((group, *map(_part, (*within, resource, *names))))


def _part(name: str) -> str:
    # A client resolves `..` even if it is quoted once. Quoted twice, it names nothing.
    return quote(name, safe="") if name.strip(".") else "%252E" * len(name)


class Api(Protocol):
    """The API server as this package writes to it; ApiClient is one.

    Raises ApiError and ApiUnreachableError.
    """

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        content_type: str = ...,
        timeout_seconds: float = ...,
    ) -> bytes: ...


# For the whole answer of a request that says nothing else.
REQUEST_SECONDS = 30.0


async def read_if_there(api: Api, path: str, seconds: float = REQUEST_SECONDS) -> bytes | None:
    """The JSON of an object; None if there is none. Raises ApiError and ApiUnreachableError."""
    try:
        return await api.request("GET", path, timeout_seconds=seconds)
    except ApiError as error:
        if error.status == HTTPStatus.NOT_FOUND:
            return None
        raise


async def read_as(api: Api, path: str, kind: type[T], seconds: float) -> T | None:
    """An object of a type; None if there is none. Raises ApiError and ApiUnreachableError."""
    if (body := await read_if_there(api, path, seconds)) is None:
        return None
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.MsgspecError as error:
        raise ApiUnreachableError(f"the answer cannot be read: {error}") from error


async def patch(
    api: Api, path: str, change: object, form: str = "merge", seconds: float = REQUEST_SECONDS
) -> None:
    """Changes an object by a patch of a form of the API. Raises ApiError, ApiUnreachableError."""
    body, content_type = msgspec.json.encode(change), f"application/{form}-patch+json"
    await api.request("PATCH", path, body=body, content_type=content_type, timeout_seconds=seconds)


async def read_most(response: aiohttp.ClientResponse, most: int) -> bytes | None:
    """The body of an answer; None if it has more bytes, and then the rest is not read."""
    try:
        await response.content.readexactly(most + 1)
    except asyncio.IncompleteReadError as error:
        return error.partial
    response.close()
    return None


# ---- limits


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of requests: the rate in the long run, those of a burst, and those in flight.

    Somewhat more than the rate at which kube-scheduler binds pods by default. Watches are not
    counted.
    """

    requests_per_second: float = 200.0
    burst: int = 400
    in_flight: int = 32


class TokenBucket:
    """Tokens that come back at a steady rate. Taking one that is not there yet costs a wait."""

    def __init__(self, per_second: float, burst: int, clock: Callable[[], float]) -> None:
        self._per_second = per_second
        self._burst = burst
        self._clock = clock
        self._tokens = float(burst)
        self._counted = clock()

    def take(self) -> float:
        """Take a token. Returns the seconds until it may be used."""
        now = self._clock()
        self._tokens += (now - self._counted) * self._per_second
        self._tokens = min(self._tokens, float(self._burst)) - 1.0
        self._counted = now
        return max(0.0, -self._tokens / self._per_second)

    def try_take(self) -> bool:
        """Take a token if it may be used at once."""
        if self.take():
            self.give_back()
            return False
        return True

    def give_back(self) -> None:
        self._tokens += 1.0


class Throttle:
    """Throttle that holds requests back until the limits allow them."""

    def __init__(self, limits: Limits, clock: Callable[[], float]) -> None:
        self._bucket = TokenBucket(limits.requests_per_second, limits.burst, clock)
        self._in_flight = asyncio.Semaphore(limits.in_flight)

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """The right to a request, from the sending until the answer has been read."""
        async with self._in_flight:
            if seconds := self._bucket.take():
                try:
                    await asyncio.sleep(seconds)
                except asyncio.CancelledError:
                    self._bucket.give_back()
                    raise
            yield


# ---- error answers

_MOST_TEXT = 200


def error_of(status: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    """The error of an answer: its Status object, or the text that a proxy sends."""
    # Seconds: the API server never sends a date.
    header = headers.get("Retry-After")
    wait = float(header) if header is not None and header.isdecimal() else None
    answer = read_json(body, ApiStatus) or ApiStatus()
    if answer.kind != "Status":
        text = " ".join(body[: 4 * _MOST_TEXT].decode("utf-8", "replace").split())
        return ApiError(status, "", text[:_MOST_TEXT], wait)
    if wait is None and answer.details is not None and answer.details.retryAfterSeconds > 0:
        wait = float(answer.details.retryAfterSeconds)
    return ApiError(status, answer.reason or "", answer.message or "", wait)


# ---- connections

_CONNECT_SECONDS = 10.0
_UNAUTHORIZED = 401
# The largest message of a WebSocket; kubelets send parts of 32 KiB.
_MOST_MESSAGE = 1 << 20
# Read ahead of a stream, so that a list of large objects does not wait for each small part.
_READ_BYTES = 2 << 20


class _Connections:
    """The connections to an API server, and their proxy.

    The library's own session would send passwords of `~/.netrc`, or refuse a token beside them.
    """

    def __init__(self, configuration: Any) -> None:
        # The library takes as long to import as Placet, and servers without a cluster do not need
        # it.
        from kubernetes_asyncio.client.rest import RESTClientObject  # noqa: PLC0415

        # 0 means no limit: each watch holds a connection, and Throttle limits the requests.
        self.rest = RESTClientObject(configuration, maxsize=0)
        self.proxy = configuration.proxy or proxy_of(configuration.host)
        self.session = aiohttp.ClientSession(
            connector=self.rest.pool_manager.connector,
            connector_owner=False,
            read_bufsize=_READ_BYTES,
        )

    async def close(self) -> None:
        await self.session.close()
        await self.rest.close()


def _trust(configuration: Any) -> tuple[object, ...]:
    """The settings of connections. Equal ones make equal connections."""
    files = (configuration.ssl_ca_cert, configuration.cert_file, configuration.key_file)
    return (
        *(contents(Path(file)) if file else None for file in files),
        configuration.host,
        configuration.verify_ssl,
        configuration.tls_server_name,
        configuration.proxy,
    )


# ---- the client

# The errors of a connection: aiohttp's, the system's, and timeouts.
_TRANSPORT = (aiohttp.ClientError, OSError)


class ApiClient:
    """An API server, with one identity, which is renewed when the server does not accept it.

    `connect` makes one, inside a running loop.
    """

    def __init__(self, load: Load, identity: Identity, throttle: Throttle, user_agent: str) -> None:
        self._load = load
        self._identity = identity
        self._throttle = throttle
        self._agent = user_agent
        self._connections = _Connections(identity.configuration)
        self._trust = _trust(identity.configuration)
        self._renewing = asyncio.Lock()
        self._generation = 0

    @property
    def host(self) -> str:
        """The URL of the API server, for messages."""
        return str(self._identity.configuration.host)

    async def close(self) -> None:
        await self._connections.close()

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Sequence[tuple[str, str]] = (),
        body: bytes | None = None,
        content_type: str = "application/json",
        timeout_seconds: float = REQUEST_SECONDS,
        most_bytes: int | None = None,
    ) -> bytes:
        """The body of the answer. `path` is quoted already, `params` are not.

        `timeout_seconds` includes the wait for our own limits. An answer of more than `most_bytes`
        is not received: what an extension of the API server sends may be of any size.
        Raises ApiError and ApiUnreachableError, NotSentError among them.
        """
        headers = {} if body is None else {"Content-Type": content_type}
        now, began = asyncio.get_running_loop().time, None
        try:
            async with asyncio.timeout(timeout_seconds), self._throttle.slot():
                began = now()
                response = await self._send(method, path, params, headers, body)
                async with response:
                    if most_bytes is None:
                        return await response.read()
                    body = await read_most(response, most_bytes)
                    if body is None:
                        text = f"`{self.host}` sent more than {most_bytes >> 20} MiB"
                        raise ApiUnreachableError(text)
                    return body
        except _TRANSPORT as error:
            if began is None:
                waited = f"a request waited {timeout_seconds:g} s for its turn"
                raise NotSentError(f"{waited}; `--kube-api-qps` limits the rate") from error
            seconds = float(f"{min(timeout_seconds, now() - began):.2g}")
            raise self._unreachable(error, seconds, "gave no whole answer within") from error

    @asynccontextmanager
    async def stream(
        self, path: str, params: Sequence[tuple[str, str]], idle_seconds: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """The lines of an answer as they arrive: complete, of any length, without their ends.

        The lines end when the server ends them. Opening raises ApiError and ApiUnreachableError.
        Reading raises ApiUnreachableError when nothing arrives for `idle_seconds` and when the
        connection breaks.
        """
        headers = {"Accept-Encoding": "identity"}
        try:
            async with asyncio.timeout(idle_seconds):
                response = await self._send("GET", path, params, headers, seconds=idle_seconds)
        except _TRANSPORT as error:
            raise self._unreachable(error, idle_seconds) from error
        try:
            async with aclosing(self._lines(response, idle_seconds)) as lines:
                yield lines
        finally:
            response.close()

    @asynccontextmanager
    async def websocket(
        self, path: str, params: Sequence[tuple[str, str]], protocol: str
    ) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        """A WebSocket with this subprotocol. Opening raises ApiError and ApiUnreachableError."""

        async def opened() -> aiohttp.ClientWebSocketResponse:
            common = await self._common({})
            async with asyncio.timeout(_CONNECT_SECONDS):
                found: aiohttp.ClientWebSocketResponse = await self._connections.session.ws_connect(
                    self.host + path,
                    params=list(params),
                    protocols=(protocol,),
                    max_msg_size=_MOST_MESSAGE,
                    **common,
                )
            return found

        try:
            socket = await self._accepted(opened)
        except aiohttp.WSServerHandshakeError as error:
            raise ApiError(error.status, "", error.message) from error
        except _TRANSPORT as error:
            raise self._unreachable(error, _CONNECT_SECONDS) from error
        async with socket:
            yield socket

    async def _send(
        self,
        method: str,
        path: str,
        params: Sequence[tuple[str, str]],
        headers: Mapping[str, str],
        body: bytes | None = None,
        seconds: float | None = None,
    ) -> aiohttp.ClientResponse:
        """An answer with a success status, whose body is still to be read.

        Something arrives within so many seconds. Raises ApiError for another status,
        aiohttp.ClientError, OSError (TimeoutError is one) and ApiUnreachableError.
        """

        async def sent() -> aiohttp.ClientResponse:
            common = await self._common({"Accept": "application/json", **headers})
            found: aiohttp.ClientResponse = await self._connections.session.request(
                method,
                self.host + path,
                params=list(params),
                data=body,
                timeout=aiohttp.ClientTimeout(sock_connect=_CONNECT_SECONDS, sock_read=seconds),
                # The API server never redirects, and a token is for it alone.
                allow_redirects=False,
                **common,
            )
            return found

        response = await self._accepted(sent)
        if response.status >= 300:
            async with response:
                raise error_of(response.status, response.headers, await response.read())
        return response

    async def _accepted(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """The outcome of an attempt, or of another with new credentials, if ours are refused."""
        generation = self._generation
        try:
            found = await attempt()
            if not isinstance(found, aiohttp.ClientResponse) or found.status != _UNAUTHORIZED:
                return found
            found.release()
        except aiohttp.WSServerHandshakeError as error:
            if error.status != _UNAUTHORIZED:
                raise
        except aiohttp.ClientConnectorCertificateError:
            pass  # the authority may have been replaced, and renewing reads its file again
        await self._renew(generation)
        return await attempt()

    async def _common(self, headers: Mapping[str, str]) -> dict[str, Any]:
        """What all requests have: these headers, with whom we are and act as, and the proxy."""
        token = await self._authorization()
        own = [*self._identity.headers, *([("Authorization", token)] if token else ())]
        return {
            "headers": [("User-Agent", self._agent), *headers.items(), *own],
            "proxy": self._connections.proxy,
            "proxy_headers": self._connections.rest.proxy_headers,
            "server_hostname": self._connections.rest.server_hostname,
        }

    async def _renew(self, generation: int) -> None:
        """Read the credentials again, unless that has happened since `generation`.

        If certificates have changed, connections are replaced, and their requests break off.
        """
        async with self._renewing:
            if generation != self._generation:
                return
            try:
                identity = await self._load()
                trust = _trust(identity.configuration)
                if trust != self._trust:
                    old = self._connections
                    self._connections = _Connections(identity.configuration)
                    self._trust = trust
                    await old.close()
            except (ClusterConfigurationError, OSError) as error:
                raise ApiUnreachableError(str(error)) from error
            self._identity = identity
            self._generation += 1

    async def _authorization(self) -> str | None:
        """The header with the token. This call reads token files again when that is due."""
        try:
            settings = await self._identity.configuration.auth_settings()
        except Exception as error:  # a plugin, a file or an identity provider raises anything
            raise ApiUnreachableError(f"the token cannot be read: {error}") from error
        token = settings.get("BearerToken")
        # A token file may end in a newline, which a header must not contain.
        return None if token is None or not token["value"] else str(token["value"]).strip()

    async def _lines(
        self, response: aiohttp.ClientResponse, idle_seconds: float
    ) -> AsyncGenerator[bytes, None]:
        parts: list[bytes] = []  # of a line without its end, joined once when the end arrives
        try:
            async for chunk in response.content.iter_any():
                first, *others = chunk.split(b"\n")
                parts.append(first)
                for other in others:
                    if line := b"".join(parts):
                        yield line
                    parts = [other]
        except _TRANSPORT as error:
            raise self._unreachable(error, idle_seconds) from error
        if any(parts):
            raise ApiUnreachableError(f"`{self.host}` broke off in the middle of a line")

    def _unreachable(
        self, error: Exception, seconds: float, failed: str = "sent nothing for"
    ) -> ApiUnreachableError:
        kind, remedy = ApiUnreachableError, ""
        match error:
            case aiohttp.ConnectionTimeoutError():
                kind = NotSentError
                text = f"`{self.host}` took no connection within {_CONNECT_SECONDS:g} s"
                remedy = "check that this address of the kubeconfig is that of the API server"
            case TimeoutError():
                text = f"`{self.host}` {failed} {round(seconds, 2):g} s"
                remedy = "check that this address of the kubeconfig is that of the API server"
            case aiohttp.ClientConnectorCertificateError(certificate_error=cause):
                reason = getattr(cause, "verify_message", "") or str(cause)
                text = f"the certificate of `{self.host}` is not trusted: {reason}"
                remedy = "correct `certificate-authority` or `server` in the kubeconfig"
            case ssl.SSLError():
                text = f"`{self.host}` is not trusted: {error}"
            case aiohttp.ClientConnectorError():
                reason = os_reason(error.os_error)
                kind = NotSentError
                text = f"`{self.host}` cannot be reached: {reason}"
                remedy = "check that the API server runs, and that the kubeconfig has its address"
            case aiohttp.InvalidURL():
                text = f"`{self.host}` is not the URL of a server"
                remedy = "correct `server` in the kubeconfig"
            case _:
                text = f"`{self.host}` broke off: {str(error) or type(error).__name__}"
        return kind(text, remedy)


@asynccontextmanager
async def connect(
    kubeconfig: Path | None,
    context: str | None,
    *,
    version: str,
    limits: Limits = Limits(),
    service_account: Path = SERVICE_ACCOUNT,
) -> AsyncIterator[ApiClient]:
    """A client for the cluster of this kubeconfig and context, or of the environment.

    `version` is Placet's, which the API server's audit log shows. Raises ClusterConfigurationError.
    """
    load = find(kubeconfig, context, service_account)
    identity = await load()
    system = f"{platform.system()}/{platform.machine()}".lower()
    agent = f"placet/{version} ({system})"
    try:
        client = ApiClient(load, identity, Throttle(limits, time.monotonic), agent)
    except OSError as error:  # ssl.SSLError is one
        reason = os_reason(error)
        if isinstance(error, ssl.SSLError):
            told = (error.reason or "").lower().replace("_", " ")
            reason = told or "they are not in PEM form"
        text = f"the certificates cannot be used: {reason}"
        hint = "give certificates and keys in PEM form, and fields that end in `-data` in base64"
        raise ClusterConfigurationError(text, hint) from error
    try:
        yield client
    finally:
        await client.close()


def proxy_of(address: str) -> str | None:
    """The proxy for the API server at this address, None for none."""
    url, found = urlsplit(address), getproxies()
    host, proxy = url.hostname or "", found.get(url.scheme)
    if not proxy or proxy_bypass(host) or _is_listed(host, found.get("no", "")):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _is_listed(host: str, entries: str) -> bool:
    """Whether a host is loopback, or its address is in a network of a list."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost"
    networks = list[ipaddress.IPv4Network | ipaddress.IPv6Network]()
    for entry in entries.split(","):
        with suppress(ValueError):  # it is a name
            networks.append(ipaddress.ip_network(entry.strip(), strict=False))
    return address.is_loopback or any(address in each for each in networks)

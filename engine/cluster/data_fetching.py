"""Fetching: the answers of sources that are asked again and again, still as bytes.

Prometheus is not trusted: no redirect is followed, an answer is read up to a size and never
unpacked, and nothing but JSON is taken. A PrometheusClient belongs to a DataKeeper. Whoever asks
bounds the time.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote, urlsplit

import aiohttp

from engine.cache.list_watch import ListerWatcher, Params
from engine.cluster.client import read_most
from engine.errors import ApiError, ApiUnreachableError, why
from engine.program.tables import MOST_BYTES
from grammar.messages.texts import shown
from policies.disk import contents
from policies.resource import read_json

METRICS, METRICS_V1 = (f"/apis/metrics.k8s.io/{v}/nodes" for v in ("v1beta1", "v1"))
_MOST_REASON = 160
# The most bytes of an error answer that are looked at.
_MOST_ERROR_BYTES = 16 << 10
_MOST_CONNECTIONS = 16


class SourceError(Exception):
    """A source gave no answer that could be read; `reason` is one word of few, for metrics."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


class DataApi(ListerWatcher, Protocol):
    """The API server as sources use it; `engine.cluster.client.ApiClient` is one."""

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Params = (),
        timeout_seconds: float = ...,
        most_bytes: int | None = ...,
    ) -> bytes: ...


def refusal(work: str, error: ApiError | ApiUnreachableError) -> SourceError:
    """What a failed request to the API server says about a source."""
    match error:
        case ApiError(is_denied=True):
            reason = "denied"
        case ApiError(status=HTTPStatus.NOT_FOUND):
            reason = "absent"
        case ApiError():
            reason = "refused"
        case _:
            reason = "unreachable"
    return SourceError(reason, with_right(why(work, error)))


def with_right(text: str) -> str:
    """The text about a failed request, with where the missing right comes from, if one is."""
    cause, remedy, _ = text.partition(": run `kubectl apply")
    return f"{cause}: `placet manifests --policies` prints the right" if remedy else text


async def metrics_of_nodes(api: DataApi, seconds: float) -> bytes:
    """The NodeMetricsList of the cluster, of either version. Raises SourceError."""
    more: Any = {"timeout_seconds": seconds, "most_bytes": MOST_BYTES}
    try:
        try:
            return await api.request("GET", METRICS, **more)
        except ApiError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
        return await api.request("GET", METRICS_V1, **more)
    except (ApiError, ApiUnreachableError) as error:
        if getattr(error, "status", 0) in (HTTPStatus.NOT_FOUND, HTTPStatus.SERVICE_UNAVAILABLE):
            text = f"the cluster has no metrics of nodes ({error}): is metrics-server installed?"
            raise SourceError("absent", text) from None
        raise refusal("read the metrics of nodes", error) from None


def _words(answer: object) -> str:
    """The words of an error in JSON, by Prometheus or by a gateway before it; empty for none."""
    while isinstance(answer, dict):
        answer = answer.get("error") or answer.get("message")
    return answer if isinstance(answer, str) else ""


class PrometheusClient:
    """Connections to the Prometheus servers that policies name.

    With `ca`, certificates are those of this authority. The `token` of the file is sent with
    requests over https, and the `headers` of the file with all; both are read again for each.
    """

    def __init__(
        self,
        agent: str,
        ca: Path | None = None,
        token: Path | None = None,
        headers: Path | None = None,
    ) -> None:
        self._agent = agent
        self._ca = ca
        self._files = token, headers
        self._session: aiohttp.ClientSession | None = None

    async def query(self, url: str, query: str, seconds: float) -> bytes:
        """The answer to an instant query. Raises SourceError and TimeoutError."""
        if "@" in urlsplit(url).netloc:
            text = "the URL has a password, which belongs into a file of the server"
            raise SourceError("refused", text)
        try:
            async with self._open().get(
                f"{url.rstrip('/')}/api/v1/query?query={quote(query, safe='')}",
                headers=await self._headers(url),
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=seconds),
            ) as response:
                return await self._body(response)
        except aiohttp.InvalidURL:
            raise SourceError("refused", f"{_quoted(url)} is not a URL") from None
        except TimeoutError:
            raise
        except (aiohttp.ClientError, OSError, ValueError) as error:
            reason = shown(str(error) or type(error).__name__, _MOST_REASON)
            raise SourceError("unreachable", f"{_quoted(url)} cannot be read: {reason}") from None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            trust = ssl.create_default_context(cafile=self._ca) if self._ca is not None else True
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=trust, limit=_MOST_CONNECTIONS),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                # No proxy and no password of the surroundings.
                trust_env=False,
            )
        return self._session

    async def _headers(self, url: str) -> Mapping[str, str]:
        (token, given), found = self._files, dict[str, str]()
        if given is not None:
            found |= headers_of(await asyncio.to_thread(contents, given, takes_pipes=False))
        if token is not None and urlsplit(url).scheme == "https":
            secret = await asyncio.to_thread(contents, token, takes_pipes=False)
            found["Authorization"] = f"Bearer {secret.decode().strip()}"
        accepted = {"Accept": "application/json", "Accept-Encoding": "identity"}
        return {**found, **accepted, "User-Agent": self._agent}

    async def _body(self, response: aiohttp.ClientResponse) -> bytes:
        status, url = response.status, _quoted(str(response.url.origin()))
        if 300 <= status < 400:
            raise SourceError("redirected", f"{url} redirects, which is not followed")
        if status != HTTPStatus.OK:
            # The beginning of an answer. The rest is not read, so the connection is not used again.
            try:
                said = await response.content.readexactly(_MOST_ERROR_BYTES)
            except asyncio.IncompleteReadError as error:
                said = error.partial
            response.close()
            is_text = response.content_type == "text/plain"
            words = said.decode("utf-8", "replace").strip() if is_text else _words(read_json(said))
            text = f"{url} answers {status}{words and ': '}{shown(words, _MOST_REASON)}"
            raise SourceError("denied" if status in (401, 403) else "refused", text)
        kind = response.content_type
        if kind != "application/json":
            raise SourceError("content", f"{url} answers with {_quoted(kind)}, and not with JSON")
        if response.headers.get("Content-Encoding", "identity") != "identity":
            raise SourceError("content", f"{url} answers with packed JSON, which was not asked for")
        body = await read_most(response, MOST_BYTES)
        if body is None:
            text = f"{url} answers with more than {MOST_BYTES >> 20} MiB"
            raise SourceError("too_large", text)
        return body


# A header of a file: not what is secret, and not what is about the connection.
_HEADER = re.compile(
    r"(?!(?:proxy-)?authorization:|cookie:|host:|connection:)([\w-]+):[ \t]*([!-~][ -~]*)",
    re.ASCII | re.IGNORECASE,
)


def headers_of(text: bytes) -> dict[str, str]:
    """The headers of a file, a line for each: `X-Scope-OrgID: shop`. Raises ValueError."""
    found: dict[str, str] = {}
    for number, line in enumerate(text.decode("utf-8", "replace").splitlines(), 1):
        header = _HEADER.fullmatch(line.strip())
        if line.strip() and header is None:
            raise ValueError(f"line {number} is no header that may be sent")
        found |= {} if header is None else {header[1]: header[2]}
    return found


def _quoted(text: str) -> str:
    return f"`{shown(text, _MOST_REASON)}`"

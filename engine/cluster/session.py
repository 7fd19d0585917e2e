"""Connections to the API server in the name of one identity, renewed when it is refused."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import aiohttp
from kubernetes_asyncio.client.rest import RESTClientObject

from engine.cluster.configuration import Load
from engine.errors import ApiUnreachableError, ClusterConfigurationError

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

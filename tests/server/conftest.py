"""Fixtures of the server's tests: `await serve(decider=...)` starts a server of these parts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Protocol

import pytest
from aiohttp.test_utils import TestClient
from pytest_aiohttp import AiohttpClient, AiohttpServer

from server.http.sockets import runner_options
from tests.support.certificates import Keyring
from tests.support.served import Parts, Served, serving


class Serve(Protocol):
    """Starts a server with these fields of `Parts`, which runs until the test ends."""

    async def __call__(self, **parts: Any) -> Served: ...


@pytest.fixture
def serve(aiohttp_server: AiohttpServer, aiohttp_client: AiohttpClient) -> Serve:
    """An application behind aiohttp's own server: each request passes router and middleware."""

    async def start(**fields: Any) -> Served:
        parts = Parts(**fields)
        server = await aiohttp_server(parts.app(), **runner_options(parts.settings))
        client: TestClient[Any, Any] = await aiohttp_client(server)
        return Served(parts, (client.host, client.port or 0), client)

    return start


@pytest.fixture
async def listen() -> AsyncIterator[Serve]:
    """An application behind the listener of `placet serve`, for tests of connections and bodies."""
    async with AsyncExitStack() as stack:

        async def start(**fields: Any) -> Served:
            return await stack.enter_async_context(serving(Parts(**fields)))

        yield start


@pytest.fixture
def keyring(tmp_path: Path) -> Keyring:
    """The files of a server with TLS and of the CA of its clients."""
    keyring = Keyring(tmp_path)
    keyring.write()
    return keyring

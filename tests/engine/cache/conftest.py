"""Fixtures: a fake API server with three pods, and reflectors of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.fake_api_server import FakeApiServer, fake_api_server
from tests.support.kubeconfig import client_of
from tests.support.mirror import PODS, Mirror, mirror_of


@pytest.fixture
async def server() -> AsyncIterator[FakeApiServer]:
    async with fake_api_server() as running:
        for name in ("shop/a", "shop/b", "c"):
            running.put(PODS, name)
        yield running


@pytest.fixture
def start(
    server: FakeApiServer, tmp_path: Path
) -> Callable[..., AbstractAsyncContextManager[Mirror]]:
    """Return what starts a reflector with the options of `mirror_of`."""

    @asynccontextmanager
    async def started(*args: Any, **options: Any) -> AsyncIterator[Mirror]:
        async with (
            client_of(server.url, tmp_path) as client,
            mirror_of(server, client, *args, **options) as mirror,
        ):
            yield mirror

    return started

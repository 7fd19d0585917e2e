"""What every test of the server starts with: `await serve(decider=...)`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any, Protocol

import pytest

from tests.support.served import Parts, Served, serving


class Serve(Protocol):
    """Starts a server with these fields of `Parts`, for as long as the test runs."""

    async def __call__(self, **parts: Any) -> Served: ...


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    async with AsyncExitStack() as stack:

        async def started(**parts: Any) -> Served:
            return await stack.enter_async_context(serving(Parts(**parts)))

        yield started

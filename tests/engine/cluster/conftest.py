"""Fixtures: a fake API server, and surroundings in which there is no other."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.fake_api_server import FakeApiServer, fake_api_server


@pytest.fixture(autouse=True)
def _no_surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No cluster of whoever runs the tests is found."""
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


@pytest.fixture
async def server() -> AsyncIterator[FakeApiServer]:
    async with fake_api_server() as running:
        yield running

"""Kubeconfigs for tests, with one cluster and one user, and clients that use them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import yaml

from engine.cluster.client import ApiClient, Limits, connect


def kubeconfig(
    path: Path,
    url: str,
    user: dict[str, Any],
    *,
    name: str = "test",
    namespace: str = "",
    authority: str = "",
) -> Path:
    """Writes the file, and the folder that it is in. `name` is that of its one context.

    `authority` is the file with the certificate that the server proves itself by.
    """
    document = {
        "current-context": name,
        "contexts": [
            {"name": name, "context": {"cluster": "c", "user": "u", "namespace": namespace}}
        ],
        "clusters": [{"name": "c", "cluster": {"server": url, "certificate-authority": authority}}],
        "users": [{"name": "u", "user": user}],
    }
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_text(yaml.safe_dump(document))
    return path


@asynccontextmanager
async def client_of(url: str, folder: Path) -> AsyncIterator[ApiClient]:
    """A client of the server there, without limits that a test would feel."""
    file = kubeconfig(folder / "kubeconfig", url, {"token": "static"})
    limits = Limits(100_000.0, 1000, 100)
    async with connect(file, None, version="1.2.3", limits=limits) as client:
        yield client

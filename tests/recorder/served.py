"""Served: one process of `placet serve`, and a client of its wire."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp

from tests.recorder.api_server import PATHS, ApiServer

_READY_SECONDS = 120.0
_KNOWN_SECONDS = 30.0
_STARTS = 3
_SAMPLE = re.compile(r"^(placet_(?:audit_)?rejections_total)\{(.*)\} (\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


class NotServedError(Exception):
    """`placet serve` did not start, or does not come to know what it should."""


class Served:
    """A server that is ready. Make one with `serving`."""

    def __init__(self, url: str, view: str, session: aiohttp.ClientSession) -> None:
        self._url = url
        self._view = view
        self._session = session

    async def post(self, verb: str, body: object) -> tuple[int, bytes]:
        """Sends a call of kube-scheduler; returns the status and the body of the answer."""
        data = json.dumps(body, separators=(",", ":")).encode()
        headers = {"Content-Type": "application/json"}
        async with self._session.post(f"{self._url}/{verb}", data=data, headers=headers) as answer:
            return answer.status, await answer.read()

    async def get(self, path: str) -> tuple[int, bytes]:
        async with self._session.get(f"{self._url}{path}") as answer:
            return answer.status, await answer.read()

    async def knows(self, api: ApiServer) -> None:
        """Returns when all that the API server has sent is known. Raises NotServedError."""
        names = {path.rpartition("/")[2]: kind for kind, path in PATHS.items()}
        async with asyncio.timeout(_KNOWN_SECONDS):
            while True:
                async with self._session.get(f"{self._view}/api/v1/status") as answer:
                    watched = json.loads(await answer.read())["cluster"]["resources"]
                late = [
                    name
                    for name, kind in names.items()
                    if name in watched
                    and int(watched[name]["resourceVersion"] or 0) < api.told[kind]
                ]
                if not late:
                    return
                await asyncio.sleep(0)

    async def rejections(self) -> list[tuple[str, str, str, float]]:
        """What it has counted so far: metric, policy, clause and number of nodes."""
        _, body = await self.get("/metrics")
        found = []
        for metric, labels, value in _SAMPLE.findall(body.decode()):
            named = dict(_LABEL.findall(labels))
            found.append((metric, named["policy"], named["clause"], float(value)))
        return sorted(found)


@asynccontextmanager
async def serving(placet: Path, folder: Path, *flags: str) -> AsyncIterator[Served]:
    """`placet serve` with these flags, until the block ends. Raises NotServedError.

    Its log goes to a file of the folder.
    """
    timeout = aiohttp.ClientTimeout(total=120)
    async with aiohttp.ClientSession(timeout=timeout, trust_env=False) as session:
        for _ in range(_STARTS):
            url, view, process = await _start(placet, folder, flags)
            try:
                # The port may be taken by others between its choice and its use.
                if await _is_ready(url, session, process):
                    yield Served(url, view, session)
                    return
            finally:
                with suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
    raise NotServedError((folder / "log").read_text("utf-8", errors="replace"))


async def _start(
    placet: Path, folder: Path, flags: Sequence[str]
) -> tuple[str, str, asyncio.subprocess.Process]:
    """Returns the URLs of the server and of its view, and the process."""
    listen, view = f"127.0.0.1:{_free_port()}", _free_port()
    with (folder / "log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            placet,
            *("serve", "--listen", listen, "--view-port", str(view)),
            *("--http-timeout", "60s", *flags),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=folder,
            env=environment(),
        )
    return f"http://{listen}", f"http://127.0.0.1:{view}", process


async def _is_ready(
    url: str, session: aiohttp.ClientSession, process: asyncio.subprocess.Process
) -> bool:
    """Waits; False if the process has ended."""
    async with asyncio.timeout(_READY_SECONDS):
        while process.returncode is None:
            with suppress(aiohttp.ClientConnectionError):
                async with session.get(f"{url}/readyz") as answer:
                    if answer.status == 200:
                        return True
            await asyncio.sleep(0.03)
    return False


def kubeconfig(folder: Path, url: str) -> Path:
    """Writes how to reach the API server there, as JSON, which is YAML too."""
    content = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "c", "user": {"token": "none"}}],
    }
    path = folder / "kubeconfig"
    path.write_text(json.dumps(content), "utf-8")
    return path


def environment() -> Mapping[str, Any]:
    """That of the processes: no proxy is for loopback, and no colour is for a file."""
    return {**os.environ, "NO_PROXY": "*", "no_proxy": "*", "NO_COLOR": "1", "COLUMNS": "120"}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])

"""Replica: a Placet of the simulated cluster, whole as `placet serve` starts it, but as a task."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
from prometheus_client import CollectorRegistry

from engine.counting.in_flight_pods import Schedulers
from grammar.meaning.schema import load_schema
from server.admission.checking_process import CheckingProcess
from server.metrics.metrics import Metrics
from server.options import Options
from server.runtime import server_runtime
from server.runtime.server_runtime import serve
from tests.chaos.simulated.api import ClusterApi, Door
from tests.e2e.process import free_port
from tests.support.fake_api_server import Request
from tests.support.kubeconfig import kubeconfig

T = TypeVar("T")
LEASE = ("kube-system", "placet")
_SCHEMA = load_schema()


class _CheckingHere(CheckingProcess):
    """Checks in this process: another one would take time that nobody has here."""

    def run(self, _seconds: float, function: Callable[..., T], *args: object) -> T:
        return function(*args)


vars(server_runtime)["CheckingProcess"] = _CheckingHere


@dataclass(eq=False)
class _Process:
    """A Placet from its start to its end; `died` is done from its end on."""

    task: asyncio.Task[None]
    door: Door
    died: asyncio.Future[None]
    view: str
    url: str = ""


class Replica:
    """A Placet that is started and ended as often as one likes.

    `failed` is told of its end, and `offers` of each pod that it offers nodes, by the token of the
    process.
    """

    def __init__(
        self,
        name: str,
        api: ClusterApi,
        folder: Path,
        failed: Callable[[str], None],
        offers: Callable[[str, Mapping[str, Any]], None],
        *,
        binds: bool,
    ) -> None:
        self.name = name
        self._api = api
        self._folder = folder
        self._failed = failed
        self._offers = offers
        self._binds = binds
        self.starts: list[float] = []
        self._process: _Process | None = None
        self._refuses: list[Callable[[Request], bool]] = []
        self._loses: list[Callable[[Request], bool]] = []
        self._flow = asyncio.Event()
        self._flow.set()
        self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None))
        self._ended: list[asyncio.Task[None]] = []

    @property
    def door(self) -> Door:
        """Its way to the API server; one that leads nowhere if it does not run."""
        return self._process.door if self._process is not None else self._new_door()

    def _new_door(self) -> Door:
        """The door of a process; what is refused and lost stays the same after a start."""
        door = Door()
        door.refuses, door.loses = self._refuses, self._loses
        return door

    @property
    def runs(self) -> bool:
        return self._process is not None

    # ---- its life

    def start(self) -> None:
        if self._process is not None:
            return
        self.starts.append(asyncio.get_running_loop().time())
        token, door = f"{self.name}-{len(self.starts)}", self._new_door()
        self._api.doors[token] = door
        file = self._folder / f"{token}.kubeconfig"
        port = free_port()
        options = Options(
            port=0,
            lameduck=0.0,
            watches=True,
            kubeconfig=kubeconfig(file, self._api.url, {"as": token}),
            lease=LEASE,
            repair="on",
            schedulers=Schedulers(call_bind=self._binds, is_watched=True),
            view_port=port,
        )
        loop = asyncio.get_running_loop()
        process: _Process | None = None

        def started(url: str, _: object) -> None:
            assert process is not None
            process.url = url

        metrics, log = Metrics(CollectorRegistry(), "0"), logging.getLogger("placet")
        serving = serve(options, _SCHEMA, metrics, None, log, started)
        task = asyncio.create_task(serving, name=token)
        process = _Process(task, door, loop.create_future(), f"http://127.0.0.1:{port}")
        self._process = process
        task.add_done_callback(self._has_ended)

    def _has_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failed(f"{task.get_name()} ended with {error!r}")

    def kill(self) -> None:
        """End it at once: nothing that it does from now on reaches anybody."""
        if (process := self._process) is not None:
            process.door.close()
            self._end(process)

    async def stop(self) -> None:
        """End it as SIGTERM does."""
        if (process := self._process) is not None:
            self._end(process)
            with suppress(asyncio.CancelledError, Exception):
                await process.task
            process.door.close()

    def _end(self, process: _Process) -> None:
        self._process = None
        self._flow.set()
        process.died.set_result(None)
        process.task.cancel()
        self._ended.append(process.task)

    def freeze(self) -> None:
        """Neither calls nor the API server reach it."""
        self._flow.clear()
        self.door.flow.clear()

    def thaw(self) -> None:
        self._flow.set()
        self.door.flow.set()

    async def close(self) -> None:
        """End for good."""
        self.kill()
        for task in self._ended:
            with suppress(asyncio.CancelledError, Exception):
                await task
        await self._session.close()

    # ---- calls

    async def ask(self, verb: str, body: Mapping[str, Any], seconds: float) -> tuple[int, Any]:
        """The status and the answer of a verb. Raises what aiohttp does, and TimeoutError."""
        process = self._process
        if process is None or not process.url:
            raise ConnectionRefusedError("nobody listens")

        async def call() -> tuple[int, Any]:
            await self._flow.wait()
            url = f"{process.url}/api/scheduler/{verb}"
            async with self._session.post(url, json=body) as response:
                text = await response.text()
            answer = json.loads(text) if text.startswith(("{", "[")) else text
            if verb == "filter" and isinstance(answer, dict) and answer["NodeNames"]:
                self._offers(process.task.get_name(), body["Pod"])
            await self._flow.wait()
            return response.status, answer

        asking = asyncio.create_task(call())
        either: list[asyncio.Future[Any]] = [asking, process.died]
        done, _ = await asyncio.wait(either, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if asking not in done:
            if not self._flow.is_set():
                # A frozen process takes the call when it goes on; nobody waits for the answer.
                asking.add_done_callback(_ignored)
            else:
                asking.cancel()
                asking.add_done_callback(_ignored)
            raise TimeoutError if not process.died.done() else ConnectionResetError("it has ended")
        return asking.result()

    async def is_ready(self) -> bool:
        if self._process is None or not self._process.url:
            return False
        async with self._session.get(f"{self._process.url}/readyz") as response:
            await response.read()
            return response.status == 200

    async def get(self, path: str) -> Any:
        """What the view answers."""
        assert self._process is not None
        async with self._session.get(f"{self._process.view}/api/v1{path}") as response:
            text = await response.text()
            return json.loads(text) if text.startswith("{") else {"error": text}


def _ignored(task: asyncio.Task[Any]) -> None:
    """Nobody wants to know what comes of it."""
    if not task.cancelled():
        task.exception()

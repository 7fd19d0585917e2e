"""Placet's view of a large cluster, measured: prints one JSON object.

Arguments: the address of `cluster_server`, how many nodes it has, and a folder to write in.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import logging
import math
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import aiohttp
import msgspec
from prometheus_client import CollectorRegistry

from engine.cache.informers import PODS, Informer
from engine.cache.list_watch import read_event
from engine.counting.in_flight_pods import DEFAULT_SCHEDULERS
from engine.decision.journal import Journal
from engine.decision.recent_answers import RejectedPods
from engine.engine import Engine
from engine.objects.codec import ObjectCodec
from engine.portable.label_conditions import NOTHING_FROZEN
from engine.program.policy_time import PolicyTimes
from grammar.meaning.schema import load_schema
from server.admission.checking_process import CheckingProcess
from server.api_failures import ApiFailures
from server.metrics.metrics import Metrics
from server.runtime.cluster_runtime import Access, Background, Deciding, open_cluster
from server.runtime.data_tables import DataAccess, DataTables
from server.runtime.observers import LogObserver
from server.runtime.policies import PolicyReader
from server.runtime.portable_pods import PortablePods
from server.runtime.reloader import PolicyReloader
from server.supervisor import Supervisor
from tests.benchmarks.cluster_server import pod_lines
from tests.support import builders
from tests.support.engines import Silent
from tests.support.kubeconfig import kubeconfig

POLICY = """
cluster policy room {
  filter "pool" { require node.labels["pool"] == "web" }
  filter "room" { require node.free["cpu"] - pod.requests["cpu"] >= "1" }
  score "fill up" weight 10 { value size(node.pods) range 0 .. 110 }
}
"""
CHANGES = 20_000
# A second of a busy cluster, and for how many of them.
RATE, SECONDS = 500, 10
TIMES = 200


class Measured:
    """A server's view of the cluster and its engine, without the HTTP face."""

    def __init__(self, url: str, nodes: int, folder: Path) -> None:
        self._url = url
        self._names = [f"n{number}" for number in range(nodes)]
        (folder / "room.policy").write_text(POLICY)
        file = kubeconfig(folder / "kubeconfig", url, {"token": "static"})
        self._access = Access(file, None, None)
        self._log = logging.getLogger("benchmark")
        self._schema = load_schema()
        process = CheckingProcess(self._schema)
        self._policies = PolicyReader([folder / "room.policy"], self._schema, self._log, process)
        self._enforced = self._policies.read(None)
        assert self._enforced.in_force.policies
        self._http = aiohttp.ClientSession()
        self._asked = 0

    async def run(self) -> dict[str, float]:
        before = _resident()
        async with contextlib.AsyncExitStack() as stack, self._http:
            began = time.perf_counter()
            await self._open(stack)
            while self._view.checks()[0].failure:  # noqa: ASYNC110 - it is a question, no event
                await asyncio.sleep(0.01)
            synced = time.perf_counter() - began
            return {
                "sync": synced,
                "resident": _resident(),
                "most resident": _most_resident(),
                "before": before,
                "read": await self._read_micros(),
                "pause": await self._longest_pause(),
                # The last one of those that need changes: the server knows nothing of its versions.
                "event": await self._event_micros(),
                "snapshot": self._snapshot_micros(),
                "repeated": self._repeated_micros(),
            }

    async def _open(self, stack: contextlib.AsyncExitStack) -> None:
        schema, log = self._schema, self._log
        needs, observer = self._enforced.needs, LogObserver(log, Silent())
        supervisor = Supervisor(log, lambda _: None)
        opening = open_cluster(
            self._access, schema, needs, "0", Background(log, supervisor, ApiFailures(log))
        )
        self._view = await stack.enter_async_context(opening)
        view = self._view
        rejected = RejectedPods(time.monotonic, 1.0, 60.0, lambda: view.snapshot().table)
        self._engine = Engine(self._enforced.registry, self._view, ObjectCodec(schema), observer)
        reloader = PolicyReloader(
            self._policies, self._enforced, None, self._view, self._engine, log
        )
        metrics = Metrics(CollectorRegistry(), "0")
        times = PolicyTimes(
            time.monotonic, time.process_time, metrics.expensive, metrics.charged, lambda: 0
        )
        portable = PortablePods(self._engine, ObjectCodec(schema), NOTHING_FROZEN, times)
        deciding = Deciding(
            self._engine,
            Journal(),
            observer,
            rejected,
            reloader,
            portable,
            DEFAULT_SCHEDULERS,
            DataTables(DataAccess(), None, self._engine, supervisor.start, metrics, log, "0"),
        )
        await self._view.follow(stack, deciding, None, metrics.pod_seen)

    async def _event_micros(self) -> float:
        """From the line of a watch to the cache."""
        pods, first = self._pods(), int(self._version())
        changed = pod_lines(len(self._names))
        lines = [changed("MODIFIED", n, first + n + 1)[:-1] for n in range(CHANGES)]
        began = time.process_time()
        for line in lines:
            pods.reflector.apply(read_event(line))
        return (time.process_time() - began) / CHANGES * 1e6

    async def _read_micros(self) -> float:
        """From HTTP to the cache; of processor time, for it may have to wait."""
        began = time.process_time()
        await self._until(await self._change(CHANGES, 0))
        return (time.process_time() - began) / CHANGES * 1e6

    def _snapshot_micros(self) -> float:
        """After one change; the change itself is outside of the clock."""
        cache, taken = self._view.pods, []
        some = list(self._view.snapshot().pods().values())[:TIMES]
        for number, pod in enumerate(some):
            cache.put_pod(msgspec.structs.replace(pod, phase=f"Phase{number}"), 1 << 60)
            began = time.perf_counter()
            self._view.snapshot()
            taken.append(time.perf_counter() - began)
        return median(taken) * 1e6

    def _repeated_micros(self) -> float:
        """Of a filter call, a node, where nothing has changed; other pods of one shape."""
        self._filter()
        taken = []
        for _ in range(TIMES):
            began = time.perf_counter()
            self._filter()
            taken.append(time.perf_counter() - began)
        return median(taken) / len(self._names) * 1e6

    async def _longest_pause(self) -> float:
        """Milliseconds of the longest garbage collection while events and calls come."""
        with _pauses() as pauses:
            version = await self._change(RATE * SECONDS, RATE)
            while self._version() != version:
                self._filter()
                await asyncio.sleep(0.01)
        return max(pauses, default=0.0) * 1e3

    def _filter(self) -> None:
        self._asked += 1
        pod = builders.raw(builders.pod(f"web-{self._asked}", cpu="500m", memory="1Gi"))
        self._engine.filter(pod, self._names, None, math.inf)

    async def _change(self, count: int, rate: int) -> str:
        """The resource version of the last one."""
        url = f"{self._url}/changes?count={count}&rate={rate}"
        async with self._http.post(url) as response:
            answer: dict[str, str] = await response.json()
            return answer["resourceVersion"]

    async def _until(self, version: str) -> None:
        while self._version() != version:  # noqa: ASYNC110 - so is this
            await asyncio.sleep(0.005)

    def _version(self) -> str:
        return self._pods().reflector.resource_version

    def _pods(self) -> Informer:
        assert self._view.informers is not None
        (pods,) = (i for i in self._view.informers.informers if i.resource is PODS)
        return pods


@contextlib.contextmanager
def _pauses() -> Iterator[list[float]]:
    """The seconds of every collection of garbage within."""
    taken: list[float] = []
    began = [0.0]

    def note(phase: str, _: dict[str, Any]) -> None:
        if phase == "start":
            began[0] = time.perf_counter()
        else:
            taken.append(time.perf_counter() - began[0])

    gc.callbacks.append(note)
    try:
        yield taken
    finally:
        gc.callbacks.remove(note)


def _resident() -> float:
    """MiB."""
    return _status("VmRSS")


def _most_resident() -> float:
    return _status("VmHWM")


def _status(name: str) -> float:
    (line,) = (s for s in Path("/proc/self/status").read_text().splitlines() if s.startswith(name))
    return int(line.split()[1]) / 1024


async def main() -> None:
    url, nodes, folder = sys.argv[1:]
    sys.stdout.write(json.dumps(await Measured(url, int(nodes), Path(folder)).run()) + "\n")


if __name__ == "__main__":
    asyncio.run(main())

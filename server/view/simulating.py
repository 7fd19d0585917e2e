"""Simulator: where pods would go, by what is in force, on a copy of the cluster as it is now.

The copy is made on the event loop that decides, and pods are scheduled there, in steps of a few
milliseconds. Nothing is offered, counted, recorded or written. A replica has one, and answers one
question at a time.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec

from engine.cache.cache import Cache
from engine.cache.cluster_copy import ClusterCopy, copied
from engine.cache.node_table import Snapshot
from engine.cache.tallies import Scope
from engine.engine import Engine
from engine.simulation.cycle import SimulationOptions
from engine.simulation.pod_list import PodList, PodReader
from engine.simulation.result import SimulationAnswer, answer_of, played
from engine.simulation.what_if import WhatIf, prepared
from engine.work import Work
from grammar.messages.diagnostics import UserError
from grammar.values.time import Timestamp
from server.answers import MOST_PODS, SimulationQuestion
from server.view.trial import Keys, KnownUids
from server.view.turns import STEP_SECONDS, Line, done

T = TypeVar("T")
# The time of a step, in which a verb gets far enough, and the rest after it.
_STEP_SECONDS, _REST_SECONDS = 0.008, 0.001
_PODS_OF_A_PORTION = 32


class WholeCluster(Protocol):
    """The cluster that a server knows."""

    @property
    def pods(self) -> Cache: ...

    def snapshot(self) -> Snapshot:
        """Raises NotSyncedError."""
        ...

    async def pods_on(self, node: str) -> Mapping[str, bytes | msgspec.Raw]:
        """The JSON of the pods on a node by `namespace/name`. Raises EngineError."""
        ...


@dataclass(eq=False, slots=True)
class Simulator:
    """The simulations of one replica."""

    replica: str
    engine: Engine
    cluster: WholeCluster
    clock: Callable[[], float] = time.monotonic
    _line: Line = field(default_factory=lambda: Line("simulation"), init=False)

    async def simulate(
        self,
        question: SimulationQuestion,
        pods: Callable[[], Awaitable[PodList | None]],
        owner: str = "",
    ) -> Callable[[], SimulationAnswer]:
        """What makes the answer, in a thread; `pods` reads those that come with the question.

        Raises HTTPException, EngineError and UserError.
        """
        self.cluster.snapshot()
        async with self._line.turn(owner):
            return await self._answer(question, await pods())

    async def _answer(
        self, question: SimulationQuestion, pods: PodList | None
    ) -> Callable[[], SimulationAnswer]:
        bodies = dict[str, bytes | msgspec.Raw]()
        for node in question.drain:
            if self.cluster.snapshot().node(node) is not None:
                bodies.update(await self.cluster.pods_on(node))
        engine, change = self.engine, WhatIf(question.addNodes, question.drain, bodies)
        options = SimulationOptions(
            weight=question.weight,
            plugins=question.pluginScores,
            most=MOST_PODS,
            portion=_STEP_SECONDS,
            real=self.clock,
            tables=engine.tables,
            exemptions=engine.exemptions,
        )
        held = {pod: node for part in engine.parts for pod, node in part.held_pods().items()}
        with _young_garbage_only():
            # Nothing is kept of the copy but the answer.
            copy = await self._done(copied(self.cluster.pods))
            cluster = ClusterCopy(copy, read_at=Timestamp.now())
            try:
                if pods is None and not question.drain:
                    pods = await self._done(_waiting(copy, question.namespace))
                ready = await self._done(
                    prepared(cluster, engine.codec, engine.registry, pods, options, change)
                )
                made = await self._done(played(ready.simulation, ready.changed))
                # To give the copy back is a step by itself.
                await asyncio.sleep(0)
            finally:
                copy.close()
        notes = pods.notes if pods is not None else ()
        answer = partial(answer_of, ready.simulation, made, ready.changed, notes, self.replica)
        return lambda: msgspec.structs.replace(answer(), held=held)

    async def uids(self, wanted: Keys) -> KnownUids:
        """The uids of workloads that have pods in the cluster."""
        return await done(_uids(self.cluster.pods, wanted), 0.0, self.clock, STEP_SECONDS)

    async def _done(self, work: Work[T]) -> T:
        return await done(work, _REST_SECONDS, self.clock, _STEP_SECONDS / 2)


@contextmanager
def _young_garbage_only() -> Iterator[None]:
    """Without full collections of garbage, each of which would look at the copy in one step."""
    usual = gc.get_threshold()
    # More young collections than these come in no simulation.
    gc.set_threshold(*usual[:2], 1_000_000)
    try:
        yield
    finally:
        gc.set_threshold(*usual)


def _uids(cache: Cache, wanted: Keys) -> Work[KnownUids]:
    found: dict[tuple[str, str], str] = {}
    for space in sorted({key.partition("/")[0] for _, key in wanted}):
        for _, pod in cache.within(Scope(space)):
            if (root := pod.workload) is not None:
                key = root.kind, f"{space}/{root.name}"
                if key in wanted:
                    found[key] = root.uid
            yield
    return found


def _waiting(cache: Cache, namespace: str) -> Work[PodList]:
    """The pods of a cluster that wait: of a namespace, or of all if it is empty."""
    reader = PodReader(Path("the cluster"), most=MOST_PODS)
    for number, pod in enumerate(cache.snapshot().pending.values(), 1):
        body = cache.body(pod.uid)
        if body is not None and namespace in ("", pod.namespace):
            reader.add({"kind": "Pod", **msgspec.json.decode(body)})
        if not number % _PODS_OF_A_PORTION:
            yield
    if not reader.bodies:
        where = f"in the namespace `{namespace}`" if namespace else "in the cluster"
        raise UserError(f"no pod waits {where}", "give some in `pods`, or nodes in `drain`")
    return reader.read()

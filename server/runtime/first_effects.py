"""First effects: what policies do when a server starts, in one line for each that needs a look.

A policy that selects no pod, or has a clause that passes every node, rejects all of them or scores
them alike, may say something else than its author means. A few pods are asked about, one of each
workload, once the cluster is known.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from logging import Logger
from typing import Protocol

from aiohttp import web

from engine.cache.node_table import Snapshot
from engine.engine import Engine
from engine.errors import EngineError, NotSyncedError
from engine.explanation.effects import EffectOfPolicy, EffectsOfPods
from engine.objects.peer import Peer, key_of
from engine.objects.request_pod import SYSTEM_NAMESPACES
from grammar.messages.texts import counted, shown

# The pods that are asked about, and the policies that are told of.
MOST_PODS, MOST_LINES = 20, 20
# So often a start looks whether the cluster is known.
_LOOK_SECONDS = 1.0


class KnownCluster(Protocol):
    """The cluster as a server knows it."""

    def snapshot(self) -> Snapshot:
        """The cluster now. Raises NotSyncedError."""
        ...

    async def pods_named(self, keys: Collection[str]) -> Mapping[str, bytes]:
        """The JSON of pods by `namespace/name`, without those that are gone. Raises EngineError."""
        ...


class Asked(Protocol):
    """Who asks about pods, one at a time."""

    async def effects(self, found: EffectsOfPods, pod: bytes) -> None:
        """Adds what policies do with a pod. Raises HTTPException and EngineError."""
        ...


class FirstEffects:
    """The report of one start; `log` has a line for each policy with a clause without effect."""

    def __init__(self, engine: Engine, cluster: KnownCluster, asked: Asked, log: Logger) -> None:
        self._engine = engine
        self._cluster = cluster
        self._asked = asked
        self._log = log

    async def tell(self) -> None:
        """Waits for the cluster, asks about some pods, and ends."""
        snapshot = await self._known()
        registry = self._engine.registry
        pods = _some(list(snapshot.pods().values()))
        if not pods or not registry.programs:
            return
        found = EffectsOfPods(self._engine, sorted(snapshot.table.rows))
        try:
            bodies = await self._cluster.pods_named([key_of(pod) for pod in pods])
        except EngineError as error:
            self._log.warning("what each policy does is not told: %s", error)
            return
        number = 0
        for body in bodies.values():
            try:
                await self._asked.effects(found, body)
            except (EngineError, web.HTTPException, TimeoutError):
                # A pod that cannot be decided about, or others ask for long.
                continue
            if self._engine.registry is not registry:
                # Those who edit policies see what they do on the page and in the status.
                return
            number += 1
        # What reads tables says nothing before they are there.
        waiting = {p.address for p in registry.programs if p.source.environment.tables}
        told = [e for e in found.found(counted(number, "pod")) if e.policy not in waiting]
        void = [each for each in told if any(clause.isVoid for clause in each.clauses)]
        for each in void[:MOST_LINES]:
            self._log.info("%s", _line(each))
        if len(void) > MOST_LINES:
            more = counted(len(void) - MOST_LINES, "further policy", "further policies")
            self._log.info("%s with a clause without effect: see `placet status`", more)

    async def _known(self) -> Snapshot:
        while True:
            try:
                return self._cluster.snapshot()
            except NotSyncedError:
                await asyncio.sleep(_LOOK_SECONDS)


def _some(pods: Sequence[Peer]) -> list[Peer]:
    """One pod of each workload, evenly taken."""
    first: dict[tuple[str, str], Peer] = {}
    for pod in sorted(pods, key=lambda p: (p.namespace, p.name)):
        if pod.namespace not in SYSTEM_NAMESPACES:
            first.setdefault((pod.namespace, pod.controller or pod.name), pod)
    step = max(1, -(-len(first) // MOST_PODS))
    return list(first.values())[::step]


def _line(effect: EffectOfPolicy) -> str:
    """`policy shop/web selects 3 of 20 pods: "zones" passes on every node`."""
    clauses = ", ".join(f'"{shown(each.clause)}" {each.text}' for each in effect.clauses)
    return f"policy {shown(effect.policy)} {effect.text}: {clauses}"

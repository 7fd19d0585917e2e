"""kube-scheduler's cycle for one pod after another: filter, score, choose, bind."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from engine.cache.cache import Cache
from engine.cache.node_table import Places
from engine.engine import Engine
from engine.errors import EngineError
from engine.objects import ObjectCodec, Pod
from engine.peer import Peer
from engine.simulation.hurdles import Hurdles, Standing
from engine.simulation.outcome import Outcome, Pending, Placed
from engine.simulation.room import PODS, Demand, Room, demand
from engine.verdict import Decision, Feasible, full_reason

GATED = "scheduling is blocked due to non-empty scheduling gates"
# What one point of an extender is worth among the plugins' 0..100 (C27).
_SCALE = 10


@dataclass(frozen=True, slots=True)
class Waiting:
    """A pod without a node: its JSON as kube-scheduler would send it, and what that says."""

    body: bytes
    pod: Pod
    peer: Peer

    @property
    def key(self) -> str:
        return f"{self.peer.namespace}/{self.peer.name}"


def waiting(body: bytes, codec: ObjectCodec) -> Waiting:
    """Raises BadObjectError. The body must not name a node."""
    return Waiting(body, codec.pod(body), codec.peer(body))


class Simulation:
    """Nodes and pods in a cache, policies in an engine that looks at it, and pods that wait.

    The waiting pods are in the cache from the start, so that a count of a workload's pods has all
    of them; one that is there already is taken off its node. `weight` is that of the extender.
    """

    def __init__(
        self, engine: Engine, cache: Cache, pods: Sequence[Waiting], *, weight: int = 1
    ) -> None:
        self._engine = engine
        self._cache = cache
        self._pods = pods
        self._weight = weight
        cache.listeners.append(engine.pod_changed)
        for each in pods:
            cache.put_pod(each.peer)
        views = cache.snapshot().nodes
        # Of nodes that are as good as each other the first by name is taken.
        self.names: Sequence[str] = sorted(views)
        nodes = [views[name] for name in self.names]
        self.room = Room(nodes)
        self._hurdles = Hurdles(nodes)

    def run(self) -> Iterator[Outcome]:
        """What becomes of each pod, in order; the next one sees it."""
        for each in self._pods:
            yield self._schedule(each)

    def _schedule(self, asked: Waiting) -> Outcome:
        governing = self._engine.inspect(asked.body).selection.governing
        policy = governing.address if governing is not None else ""
        if asked.pod.spec is not None and asked.pod.spec.schedulingGates:
            return Pending(asked.key, policy, {GATED: 0})
        wanted = demand(asked.peer)
        standing = self._hurdles.standing(asked.pod)
        fitting = np.flatnonzero(standing.open & self.room.fits(wanted))
        try:
            # As kube-scheduler, nobody is asked about no nodes.
            decided = self._filter(asked, fitting) if len(fitting) else None
            if decided is not None and len(feasible := fitting[decided.codes == 0]):
                return self._bind(asked, wanted, policy, self._choose(asked, wanted, feasible))
        except EngineError as error:
            return Pending(asked.key, policy, {f"Placet's error: {error}": len(fitting)})
        return Pending(asked.key, policy, self._reasons(wanted, standing, decided))

    def _filter(self, asked: Waiting, places: Places) -> Decision:
        names = [self.names[place] for place in places]
        return self._engine.filter(asked.body, names, None, math.inf)

    def _choose(self, asked: Waiting, wanted: Demand, places: Places) -> int:
        """The place with the highest sum of scores. One alone is not scored (C29)."""
        if len(places) == 1:
            return int(places[0])
        totals = self.room.least_allocated(wanted)[places]
        names = [self.names[place] for place in places]
        scores = self._engine.prioritize(asked.body, names, None, math.inf)
        if scores is not None:
            totals = totals + np.array(scores, np.int64) * (self._weight * _SCALE)
        return int(places[int(np.argmax(totals))])

    def _bind(self, asked: Waiting, wanted: Demand, policy: str, place: int) -> Placed:
        node = self.names[place]
        there = msgspec.structs.replace(asked.peer, nodeName=node, phase="Running")
        self._cache.put_pod(there)
        self.room.take(place, wanted)
        return Placed(asked.key, policy, node)

    def _reasons(
        self, wanted: Demand, standing: Standing, decided: Decision | None
    ) -> dict[str, int]:
        """What its event would list, the reason of most nodes first."""
        found = Counter(reason for reason in standing.reasons if reason)
        for resource, lacks in self.room.lacking(wanted):
            text = "Too many pods" if resource == PODS else f"Insufficient {resource}"
            found[text] += int((lacks & standing.open).sum())
        if decided is not None:
            for verdict, count in zip(decided.verdicts, decided.counts(), strict=True):
                if not isinstance(verdict, Feasible):
                    found[full_reason(verdict.policy, verdict.clause, verdict.reason)] += count
        ordered = sorted(found.items(), key=lambda item: (-item[1], item[0]))
        return {reason: count for reason, count in ordered if count}

"""What became of one pod: placed on a node, or pending with its reasons."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
from cachetools import LRUCache

from engine.cache.cache import Cache
from engine.cache.node_table import NodeRows, NodeView
from engine.decision.verdict import Decision, Feasible, full_reason
from engine.engine import Engine
from engine.errors import EngineError
from engine.objects.codec import ObjectCodec, Pod
from engine.objects.eligibility import matches_affinity, untolerated
from engine.objects.peer import Peer
from engine.simulation.node_resources import PODS, Demand, Mask, NodeResources, demand


@dataclass(frozen=True, slots=True)
class Placed:
    """`pod` is `namespace/name`; `policy` is the one that governs it, empty without one."""

    pod: str
    policy: str
    node: str


@dataclass(frozen=True, slots=True)
class Pending:
    """On how many nodes each reason holds; a node may have several.

    A reason that is about the pod alone holds on none.
    """

    pod: str
    policy: str
    reasons: Mapping[str, int]


Outcome = Placed | Pending


# ---- What keeps a pod off a node whatever else is there: cordons, taints, selectors and affinity.

CORDONED = "node(s) were unschedulable"
AFFINITY = "node(s) didn't match Pod's node affinity/selector"
# Pods of one workload have the same hurdles, and there are few workloads at a time.
_REMEMBERED = 256


@dataclass(frozen=True, slots=True)
class _Taint:
    """What kube-scheduler takes a cordon for."""

    key: str = "node.kubernetes.io/unschedulable"
    value: str = ""
    effect: str = "NoSchedule"


@dataclass(frozen=True, slots=True)
class Eligibility:
    """Where a pod may be, and for each node why it may not, empty where it may."""

    open: Mask
    reasons: Sequence[str]


class NodeEligibility:
    """The nodes in order. They do not change, so pods that want the same are answered the same."""

    def __init__(self, nodes: Sequence[NodeView]) -> None:
        self._nodes = nodes
        self._known: LRUCache[bytes, Eligibility] = LRUCache(_REMEMBERED)
        self._encoder = msgspec.json.Encoder()

    def eligibility(self, pod: Pod) -> Eligibility:
        """The texts are those of kube-scheduler's plugins, in whose order they are found."""
        spec = pod.spec
        wants = spec and (spec.nodeSelector, spec.affinity, spec.tolerations)
        key = self._encoder.encode(wants)
        known = self._known.get(key)
        if known is None:
            reasons = tuple(_reason(pod, node) for node in self._nodes)
            known = Eligibility(np.array([not reason for reason in reasons], np.bool_), reasons)
            self._known[key] = known
        return known


def _reason(pod: Pod, node: NodeView) -> str:
    spec = node.spec
    if spec is not None and spec.unschedulable and untolerated(pod, [_Taint()]) is not None:
        return CORDONED
    taint = untolerated(pod, (spec and spec.taints) or ())
    if taint is not None:
        return f"node(s) had untolerated taint {{{taint.key}: {taint.value or ''}}}"
    return "" if matches_affinity(pod, node) else AFFINITY


# ---- kube-scheduler's cycle for one pod after another: filter, score, choose, bind.

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
        cache.add_event_handler(engine.in_flight.pod_changed)
        for each in pods:
            cache.put_pod(each.peer)
        views = cache.snapshot().nodes
        # Of nodes that are as good as each other the first by name is taken.
        self.names: Sequence[str] = sorted(views)
        nodes = [views[name] for name in self.names]
        self.resources = NodeResources(nodes)
        self._eligibility = NodeEligibility(nodes)

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
        eligibility = self._eligibility.eligibility(asked.pod)
        fitting = np.flatnonzero(eligibility.open & self.resources.fits(wanted))
        try:
            # As kube-scheduler, nobody is asked about no nodes.
            decided = self._filter(asked, fitting) if len(fitting) else None
            if decided is not None and len(feasible := fitting[decided.codes == 0]):
                return self._bind(asked, wanted, policy, self._choose(asked, wanted, feasible))
        except EngineError as error:
            return Pending(asked.key, policy, {f"Placet's error: {error}": len(fitting)})
        return Pending(asked.key, policy, self._reasons(wanted, eligibility, decided))

    def _filter(self, asked: Waiting, rows: NodeRows) -> Decision:
        names = [self.names[row] for row in rows]
        return self._engine.filter(asked.body, names, None, math.inf)

    def _choose(self, asked: Waiting, wanted: Demand, rows: NodeRows) -> int:
        """The place with the highest sum of scores. One alone is not scored (C29)."""
        if len(rows) == 1:
            return int(rows[0])
        totals = self.resources.least_allocated(wanted)[rows]
        names = [self.names[row] for row in rows]
        scores = self._engine.prioritize(asked.body, names, None, math.inf)
        if scores is not None:
            totals = totals + np.array(scores, np.int64) * (self._weight * _SCALE)
        return int(rows[int(np.argmax(totals))])

    def _bind(self, asked: Waiting, wanted: Demand, policy: str, row: int) -> Placed:
        node = self.names[row]
        there = msgspec.structs.replace(asked.peer, nodeName=node, phase="Running")
        self._cache.put_pod(there)
        self.resources.take(row, wanted)
        return Placed(asked.key, policy, node)

    def _reasons(
        self, wanted: Demand, eligibility: Eligibility, decided: Decision | None
    ) -> dict[str, int]:
        """What its event would list, the reason of most nodes first."""
        found = Counter(reason for reason in eligibility.reasons if reason)
        for resource, lacks in self.resources.lacking(wanted):
            text = "Too many pods" if resource == PODS else f"Insufficient {resource}"
            found[text] += int((lacks & eligibility.open).sum())
        if decided is not None:
            for verdict, count in zip(decided.verdicts, decided.counts(), strict=True):
                if not isinstance(verdict, Feasible):
                    found[full_reason(verdict.policy, verdict.clause, verdict.reason)] += count
        ordered = sorted(found.items(), key=lambda item: (-item[1], item[0]))
        return {reason: count for reason, count in ordered if count}

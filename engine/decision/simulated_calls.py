"""SimulatedCalls: answers to callers that place no pod, such as autoscalers and deschedulers.

kube-scheduler asks about pods that wait and nodes of the cluster; others ask what would be (C55).
They are judged by the same rules and counts, and leave nothing behind. SimulatedCalls belong to an
engine and live as long as it does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from engine.cache.cache import Cache
from engine.cache.node_table import NodeRows, Snapshot, with_pods
from engine.decision import filtering
from engine.decision.placement import PlacingParts
from engine.decision.recent_answers import of_no_node
from engine.decision.verb_call import VerbCall
from engine.decision.verdict import Decision, feasible
from engine.errors import BriefWaitError, WaitingError
from engine.objects.decoding import revision_of
from engine.objects.request_pod import Node, ObjectCodec, RequestPod


@dataclass(frozen=True, slots=True)
class _Cluster:
    """A cluster with nodes that it does not have."""

    shown: Snapshot
    pods: Cache

    def snapshot(self) -> Snapshot:
        return self.shown


class SimulatedCalls:
    """The simulated calls of one engine, made of its parts: judged as others, and not recorded."""

    def __init__(self, placing: PlacingParts, codec: ObjectCodec) -> None:
        self._calls, self._placement, *_ = placing
        self._codec = codec

    def open(
        self,
        pod: RequestPod,
        names: Sequence[str],
        nodes: Sequence[bytes] | None,
        deadline: float,
    ) -> tuple[VerbCall, NodeRows] | None:
        """A simulated call, and the rows of its nodes; None for a call that places its pod.

        Raises EngineError.
        """
        calls, pods, unknown = self._calls, self._placement.pods, dict[str, Node]()
        if (snapshot := calls.snapshot()) is None:
            return None
        is_placed = pods.may_wait(pod)
        for name, body in zip(names, nodes, strict=True) if nodes is not None else ():
            if name not in snapshot.table.rows:
                unknown[name] = node = self._codec.node(body)
                version = getattr(node.metadata, "resourceVersion", None) or ""
                is_placed = is_placed and not pods.never_had(name, revision_of(version))
        if is_placed:
            return None
        if unknown:
            calls = calls.over(_Cluster(_with(snapshot, unknown), pods))
        call = calls.open(pod, names, deadline)
        return call, call.snapshot.table.find(names)

    def decide(self, call: VerbCall, rows: NodeRows) -> Decision:
        """A verdict per row. Raises EngineError."""
        if call.plan.empty or not len(rows):
            return feasible(len(rows))
        plan, table, evaluation = call.plan, call.snapshot.table, call.evaluation
        try:
            decided = plan.filters.decide(table, rows, evaluation)
            if plan.filters.reads_pods:
                filtering.check_on_the_way(plan.filters, decided, table, rows, evaluation)
            decided = self._placement.judged(call, rows, decided)
        except BriefWaitError as error:
            # Nobody waits for a simulation.
            raise WaitingError(str(error)) from None
        is_hopeless = np.count_nonzero(decided.codes) == len(decided.codes)
        return of_no_node(decided) if is_hopeless else decided


def _with(snapshot: Snapshot, more: Mapping[str, Node]) -> Snapshot:
    """The cluster with more nodes, which have the pods that are bound to their names, if any."""
    table, strays = snapshot.table, snapshot.strays.values()
    rows, views = dict(table.rows), list(table.nodes)
    for name, node in more.items():
        rows[name] = len(views)
        views.append(with_pods(node, tuple(pod for pod in strays if pod.nodeName == name)))
    versions = np.concatenate([table.versions, np.ones(len(more), np.int64)])
    found = replace(table, rows=rows, nodes=views, versions=versions, index=None)
    return replace(snapshot, table=found)

"""PluginFilters: the nodes that kube-scheduler would ask about, after its own plugins.

A look at a rejected pod needs them: a node that kube-scheduler never offers is no reason to requeue
the pod. Nodes and pods tell what the plugins say (`engine.objects.eligibility`). PluginFilters
belongs to the engine and lives as long as it does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from engine.cache.node_table import NodeRows, NodeTable, NodeWithPods
from engine.objects.eligibility import insufficient, unfit
from engine.objects.remembered import Remembered
from engine.objects.request_pod import Pod, RequestPod
from engine.program.columns import Freshness, grown
from grammar.values.quantity import Quantity

# The nodes between two looks at the clock.
_NODES_PER_LOOK = 64
# A code, a version, and whether the node is stale.
_BYTES_PER_NODE = 13
# Taints are named, so reasons may come and go: beyond this number, start over.
_MOST_REASONS = 1000


class PluginFilters:
    """The filters of kube-scheduler's own plugins, for one kind of pod after another."""

    def __init__(self) -> None:
        self._encoder = msgspec.json.Encoder()
        self._memos: Remembered[bytes, _Memo] = Remembered(size=lambda _, memo: memo.bytes)

    def allowed(
        self,
        pod: RequestPod,
        table: NodeTable,
        rows: NodeRows,
        check: Callable[[], None],
        *,
        room: bool = True,
    ) -> npt.NDArray[np.bool_]:
        """Which of these nodes the plugins allow, without resources that no node has.

        Without `room`, what is left of resources does not matter. `check` raises an EngineError
        when the time is over; the next call continues.
        """
        memo = self._memo(pod, len(table.nodes))
        ignored = unknown_resources(pod.pod, table)
        if not room:
            ignored = {insufficient(r) for r in ("pods", *pod.pod.requests)}
        return memo.allow(pod.pod, table, rows, ignored, check)

    def kind(self, pod: RequestPod) -> bytes:
        """What the plugins look at of a pod: they say the same of pods of one kind."""
        spec = pod.pod.spec
        constraints = spec and (spec.nodeSelector, spec.affinity, spec.tolerations)
        takes = [(r, str(each)) for r, each in pod.pod.requests.items()], pod.pod.hostPorts
        return self._encoder.encode((constraints, takes))

    def _memo(self, asked: RequestPod, nodes: int) -> _Memo:
        key = self.kind(asked)
        if (known := self._memos.get(key)) is None:
            known = self._memos.put(key, _Memo(len(key) + nodes * _BYTES_PER_NODE))
        return known


def unknown_resources(pod: Pod, table: NodeTable) -> set[str]:
    """The reasons about extended resources of which nothing is known here."""
    return {*map(insufficient, unknown_devices(pod.requests, table.nodes))}


def unknown_devices(
    requests: Mapping[str, Quantity], nodes: Sequence[NodeWithPods | None]
) -> set[str]:
    """The extended resources that no node has, or that pods have on nodes without.

    An extender manages them, or a DeviceClass stands for them by its `extendedResourceName`.
    """
    wanted = [r for r, each in requests.items() if "/" in r and each.nanos]
    known = [node for node in nodes if node is not None] if wanted else ()
    return {
        r
        for r in wanted
        if not any(r in node.allocatable for node in known)
        or any(r in (node.requested or ()) and r not in node.allocatable for node in known)
    }


class _Memo:
    """A memo of the plugins' reasons against each node for one kind of pod, as codes by row."""

    def __init__(self, size: int) -> None:
        """`size` is that of the memo in bytes, with its key."""
        self.bytes = size
        self._fresh = Freshness()
        self._codes: npt.NDArray[np.int32] = np.empty(0, np.int32)
        self._reasons: list[tuple[str, ...]] = [()]
        self._known: dict[tuple[str, ...], int] = {(): 0}

    def allow(
        self,
        pod: Pod,
        table: NodeTable,
        rows: NodeRows,
        ignored: Collection[str],
        check: Callable[[], None],
    ) -> npt.NDArray[np.bool_]:
        """Which of these nodes have no reason against them, except ignored ones."""
        if len(self._reasons) > _MOST_REASONS:
            self._fresh.forget()
            self._reasons, self._known = [()], {(): 0}
        portions = self._fresh.stale(table, lambda: 0, rows)
        self._codes = grown(self._codes, len(table.nodes), 0)
        for portion in portions:
            done = 0
            try:
                for done, row in enumerate(portion.tolist()):
                    if done and not done % _NODES_PER_LOOK:
                        check()
                    self._codes[row] = self._code(pod, table.nodes[row])
                done = len(portion)
            finally:
                self._fresh.worked_out(table, portion[:done])
        codes = self._codes[rows]
        allowed = [all(each in ignored for each in reasons) for reasons in self._reasons]
        return np.array(allowed, np.bool_)[codes]

    def _code(self, pod: Pod, node: NodeWithPods | None) -> int:
        reasons = unfit(pod, node) if node is not None else ("",)
        if (code := self._known.get(reasons)) is None:
            code = self._known[reasons] = len(self._reasons)
            self._reasons.append(reasons)
        return code

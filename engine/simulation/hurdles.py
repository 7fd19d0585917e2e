"""What keeps a pod off a node whatever else is there: cordons, taints, selectors and affinity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
from cachetools import LRUCache

from engine.cache.node_view import NodeView
from engine.eligibility import matches_affinity, untolerated
from engine.objects import Pod
from engine.simulation.room import Mask

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
class Standing:
    """Where a pod may be, and for each node why it may not, empty where it may."""

    open: Mask
    reasons: Sequence[str]


class Hurdles:
    """The nodes in order. They do not change, so pods that want the same are answered the same."""

    def __init__(self, nodes: Sequence[NodeView]) -> None:
        self._nodes = nodes
        self._known: LRUCache[bytes, Standing] = LRUCache(_REMEMBERED)
        self._encoder = msgspec.json.Encoder()

    def standing(self, pod: Pod) -> Standing:
        """The texts are those of kube-scheduler's plugins, in whose order they are found."""
        spec = pod.spec
        wants = spec and (spec.nodeSelector, spec.affinity, spec.tolerations)
        key = self._encoder.encode(wants)
        known = self._known.get(key)
        if known is None:
            reasons = tuple(_reason(pod, node) for node in self._nodes)
            known = Standing(np.array([not reason for reason in reasons], np.bool_), reasons)
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

"""What every node has and what its pods take of it, as columns of whole numbers over nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engine.cache.node_table import NodeView
from engine.objects.peer import Peer
from grammar.values.quantity import NANO, Quantity

Mask = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]

CPU, MEMORY, PODS = "cpu", "memory", "pods"
# What least-allocated takes a container for that names no request (util.DefaultMilliCPURequest).
_UNNAMED = {CPU: 100, MEMORY: 200 << 20}
# 64 PiB of memory; a hundred times as much is still an int64.
_LARGEST = 2**56


@dataclass(frozen=True, slots=True)
class Demand:
    """What a pod takes: of each resource that it asks for, and one of `pods`.

    `scored` is what least-allocated counts of cpu and memory: the same, and a little for a pod that
    names none.
    """

    amounts: Mapping[str, int]
    scored: Mapping[str, int]


def amount(resource: str, quantity: Quantity) -> int:
    """As kube-scheduler counts: cpu in thousandths, all else in ones, rounded up."""
    unit = NANO // 1000 if resource == CPU else NANO
    return max(0, min(-(-quantity.nanos // unit), _LARGEST))


def demand(pod: Peer) -> Demand:
    """What a pod takes.

    A peer tells requests by pod, not by container: unnamed is what none of its containers names.
    """
    amounts = {resource: amount(resource, asked) for resource, asked in pod.requests.items()}
    containers = len(pod.containers)
    scored = {r: amounts.get(r) or least * containers for r, least in _UNNAMED.items()}
    return Demand({r: n for r, n in amounts.items() if n} | {PODS: 1}, scored)


class NodeResources:
    """The nodes in order, with the pods on them; `take` adds one."""

    def __init__(self, nodes: Sequence[NodeView]) -> None:
        self._none = np.zeros(len(nodes), np.int64)
        self._allocatable = _columns([node.allocatable for node in nodes])
        self._requested = {r: self._none.copy() for r in self._allocatable}
        self._requested |= _columns([node.requested or {} for node in nodes])
        there = [[demand(pod).scored for pod in node.pods or ()] for node in nodes]
        self._scored = {r: _sums([[s[r] for s in pods] for pods in there]) for r in _UNNAMED}
        # Of whole columns, whose sum an int64 need not hold.
        self._totals = {r: sum(column.tolist()) for r, column in self._requested.items()}

    @property
    def resources(self) -> Sequence[str]:
        """Those that some node has: cpu and memory, others by name, and pods."""
        some = [r for r, column in self._allocatable.items() if column.any()]
        return sorted(some, key=lambda r: (r == PODS, r not in (CPU, MEMORY), r))

    def fits(self, asked: Demand) -> Mask:
        """Where there is enough of everything."""
        fits = np.ones(len(self._none), np.bool_)
        for _, lacks in self.lacking(asked):
            fits &= ~lacks
        return fits

    def lacking(self, asked: Demand) -> Iterator[tuple[str, Mask]]:
        """Each resource that is asked for, with where there is too little of it."""
        for resource, wanted in asked.amounts.items():
            has = self._allocatable.get(resource, self._none)
            yield resource, wanted > has - self._requested.get(resource, self._none)

    def least_allocated(self, asked: Demand) -> Ints:
        """0..100: the part of cpu and of memory that would be free, and the mean of the two.

        In whole numbers, rounded down twice, as NodeResourcesFit does it (leastResourceScorer).
        """
        total, known = self._none.copy(), self._none.copy()
        for resource, wanted in asked.scored.items():
            has = self._allocatable.get(resource, self._none)
            free = np.maximum(has - self._scored[resource] - wanted, 0)
            total += free * 100 // np.maximum(has, 1)
            known += has > 0
        least: Ints = total // np.maximum(known, 1)
        return least

    def take(self, node: int, asked: Demand) -> None:
        """A pod is on the node from now on."""
        for resource, wanted in asked.amounts.items():
            # Nothing is taken where there is none, so the column is there.
            self._requested[resource][node] += wanted
            self._totals[resource] += wanted
        for resource, wanted in asked.scored.items():
            self._scored[resource][node] += wanted

    def allocatable(self, resource: str) -> int:
        """Of all nodes together."""
        column = self._allocatable.get(resource, self._none)
        return sum(column.tolist())

    def requested(self, resource: str) -> int:
        """On all nodes together."""
        return self._totals.get(resource, 0)


def _columns(amounts: Sequence[Mapping[str, Quantity]]) -> dict[str, Ints]:
    columns: dict[str, Ints] = {}
    for i, on_node in enumerate(amounts):
        for resource, quantity in on_node.items():
            if resource not in columns:
                columns[resource] = np.zeros(len(amounts), np.int64)
            columns[resource][i] = amount(resource, quantity)
    return columns


def _sums(numbers: Sequence[Sequence[int]]) -> Ints:
    return np.array([min(sum(some), _LARGEST) for some in numbers], np.int64)

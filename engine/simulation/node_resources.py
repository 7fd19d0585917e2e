"""NodeResources: what nodes have and what their pods take, as columns of whole numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engine.cache.node_table import NodeWithPods
from engine.decision.part import Sums
from engine.objects.peer import Peer
from engine.objects.resources import CPU, MEMORY, MOST_AMOUNT, PODS, amount, needs
from engine.work import Work

Mask = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]

_NODES_OF_A_PORTION = 32
# The requests that least-allocated assumes for a container without any
# (util.DefaultMilliCPURequest).
_UNNAMED = {CPU: 100, MEMORY: 200 << 20}


@dataclass(frozen=True, slots=True)
class ResourceDemand:
    """Demand of a pod: amounts of each resource, with one of `pods`.

    `scored` are the amounts of cpu and memory for least-allocated, which assumes some for a pod
    that requests none.
    """

    amounts: Mapping[str, int]
    scored: Mapping[str, int]


def demand(pod: Peer) -> ResourceDemand:
    """The demand of a pod.

    A peer has requests per pod, not per container, so defaults apply only to resources that none of
    its containers names. A request of 0 is one.
    """
    named, containers = pod.requests, len(pod.containers)
    scored = {
        r: amount(r, named[r]) if r in named else least * containers
        for r, least in _UNNAMED.items()
    }
    return ResourceDemand(needs(named), scored)


class NodeResources:
    """The resources of nodes in order, with the pods on them.

    Nodes need not have room for `ignored` resources. `resources_of` makes one.
    """

    def __init__(self, nodes: int, ignored: Collection[str]) -> None:
        self._ignored = frozenset(ignored)
        self._none = np.zeros(nodes, np.int64)
        self._allocatable = dict[str, Ints]()
        self._requested = dict[str, Ints]()
        self._scored = {resource: self._none.copy() for resource in _UNNAMED}
        # Python integers, because the sum of a column may exceed an int64.
        self._totals = Counter[str]()

    def fill(
        self,
        row: int,
        node: NodeWithPods,
        beside: Mapping[str, Sums],
        scored: Callable[[Peer], Mapping[str, int]],
    ) -> None:
        """Sets what a node has. `scored` is what a pod takes for least-allocated."""
        has = {r: amount(r, each) for r, each in node.allocatable.items()}
        used = {r: amount(r, each) for r, each in (node.requested or {}).items()}
        has |= {name: most for name, (most, _) in beside.items()}
        used |= {name: taken for name, (_, taken) in beside.items()}
        for resource in has.keys() | used.keys():
            if resource not in self._requested:
                self._allocatable[resource] = self._none.copy()
                self._requested[resource] = self._none.copy()
            self._allocatable[resource][row] = has.get(resource, 0)
            self._requested[resource][row] = used.get(resource, 0)
        self._totals.update(used)
        pods = [scored(pod) for pod in node.pods or ()]
        for resource, column in self._scored.items():
            column[row] = min(sum(each[resource] for each in pods), MOST_AMOUNT)

    @property
    def resources(self) -> Sequence[str]:
        """The resources that some node has: cpu, memory, others by name, and pods."""
        some = [r for r, column in self._allocatable.items() if column.any()]
        return sorted(some, key=lambda r: (r == PODS, r not in (CPU, MEMORY), r))

    def fits(self, demanded: ResourceDemand) -> Mask:
        """The nodes that have enough of every resource."""
        fits = np.ones(len(self._none), np.bool_)
        for _, lacks in self.lacking(demanded):
            fits &= ~lacks
        return fits

    def lacking(self, demanded: ResourceDemand) -> Iterator[tuple[str, Mask]]:
        """Each resource of the demand with the nodes that have too little of it."""
        for resource, needed in demanded.amounts.items():
            if resource not in self._ignored:
                yield resource, needed > self._free(resource)

    def least_allocated(self, demanded: ResourceDemand) -> Ints:
        """The score 0..100 of each node: the mean of the free fractions of cpu and of memory.

        In whole numbers, rounded down twice, as in NodeResourcesFit (leastResourceScorer).
        """
        total, known = self._none.copy(), self._none.copy()
        for resource, needed in demanded.scored.items():
            has = self._allocatable.get(resource, self._none)
            free = np.maximum(has - self._scored[resource] - needed, 0)
            total += free * 100 // np.maximum(has, 1)
            known += has > 0
        least: Ints = total // np.maximum(known, 1)
        return least

    def fits_without(self, node: int, demanded: ResourceDemand, gone: Iterable[Peer]) -> bool:
        """Whether a node has enough of every resource if some of its pods are gone."""
        freed = Counter[str]()
        for pod in gone:
            freed.update(demand(pod).amounts)
        return all(
            needed <= self._free(resource).item(node) + freed[resource]
            for resource, needed in demanded.amounts.items()
            if resource not in self._ignored
        )

    def _free(self, resource: str) -> Ints:
        used = self._requested.get(resource, self._none)
        return self._allocatable.get(resource, self._none) - used

    def add(self, node: int, demanded: ResourceDemand, sign: int = 1) -> None:
        """A pod has come to a node; with a sign of -1, it has left the node."""
        for resource, needed in demanded.amounts.items():
            # It does not exist if no node has an ignored resource.
            if resource not in self._requested:
                continue
            self._requested[resource][node] += sign * needed
            self._totals[resource] += sign * needed
        for resource, needed in demanded.scored.items():
            self._scored[resource][node] += sign * needed

    def allocatable(self, resource: str) -> int:
        """The allocatable amount of all nodes together."""
        column = self._allocatable.get(resource, self._none)
        return sum(column.tolist())

    def requested(self, resource: str) -> int:
        """The requested amount on all nodes together."""
        return self._totals[resource]


def resources_of(
    nodes: Sequence[NodeWithPods],
    ignored: Collection[str] = (),
    beside: Sequence[Mapping[str, Sums]] = (),
) -> Work[NodeResources]:
    """The resources of nodes, in portions; `beside` is what else each of them has."""
    known = dict[tuple[int, int], Mapping[str, int]]()

    def scored(pod: Peer) -> Mapping[str, int]:
        # Pods with equal requests share them, and they live as long as the nodes.
        key = id(pod.requests), len(pod.containers)
        if (found := known.get(key)) is None:
            found = known[key] = demand(pod).scored
        return found

    made = NodeResources(len(nodes), {*ignored, *(name for its in beside for name in its)})
    for row, node in enumerate(nodes):
        made.fill(row, node, beside[row] if beside else {}, scored)
        if not row % _NODES_OF_A_PORTION:
            yield
    return made

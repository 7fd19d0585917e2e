"""NodeRoom: what nodes have left of each resource, in columns of whole numbers by row.

It belongs to Gangs and lives as long as they do. A node is read again only after it has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np
import numpy.typing as npt

from engine.cache.node_table import NodeRows, NodeTable, NodeWithPods
from engine.objects.peer import Peer
from engine.objects.resources import MOST_AMOUNT, PODS, amount
from engine.program.columns import Freshness, grown

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


def needs_of(pod: Peer) -> Mapping[str, int]:
    """What a pod takes of each resource, with one of `pods`."""
    amounts = {name: amount(name, each) for name, each in pod.requests.items()}
    return {name: taken for name, taken in amounts.items() if taken} | {PODS: 1}


class FreeColumns:
    """What the nodes of one table have left; `take` and `give_back` change it for one placement.

    A node of which nothing is known has room for everything.
    """

    def __init__(self, free: Mapping[str, Ints], rows: int) -> None:
        self._free = free
        self._none: Ints = np.zeros(rows, np.int64)

    def capacity(self, needs: Mapping[str, int], rows: NodeRows) -> Ints:
        """How many pods with these needs each of the rows has room for."""
        found = np.full(len(rows), MOST_AMOUNT, np.int64)
        for name, need in needs.items():
            if name not in self._free:
                # No node has it, so an extender manages it, or no node will be offered.
                continue
            np.minimum(found, self._free[name][rows] // need, out=found)
        capacity: Ints = np.maximum(found, 0)
        return capacity

    def take(self, row: int, needs: Mapping[str, int]) -> None:
        for name, need in needs.items():
            if name in self._free:
                self._free[name][row] -= need

    def give_back(self, row: int, needs: Mapping[str, int]) -> None:
        for name, need in needs.items():
            if name in self._free:
                self._free[name][row] += need


class NodeRoom:
    """The columns of the last table."""

    def __init__(self) -> None:
        self._fresh = Freshness()
        self._free: dict[str, Ints] = {}

    def columns(
        self, table: NodeTable, resources: Iterable[str], check: Callable[[], None]
    ) -> FreeColumns:
        """Columns of these resources that the caller may change.

        `check` raises an EngineError when the time is over; the next call continues.
        """
        size = len(table.nodes)
        for portion in self._fresh.stale(table, lambda: 0):
            self._free = {name: grown(each, size, 0) for name, each in self._free.items()}
            for row in portion.tolist():
                self._read(row, table.nodes[row], size)
            self._fresh.worked_out(table, portion)
            check()
        wanted = {name: self._free[name].copy() for name in resources if name in self._free}
        return FreeColumns(wanted, size)

    def _read(self, row: int, node: NodeWithPods | None, size: int) -> None:
        for column in self._free.values():
            column[row] = 0
        if node is None:
            return
        has, requested = node.allocatable, node.requested
        if not has or requested is None:
            for column in self._free.values():
                column[row] = MOST_AMOUNT
            return
        for name in has:
            if name not in self._free:
                self._free[name] = np.zeros(size, np.int64)
            left = amount(name, has[name]) - amount(name, requested[name])
            self._free[name][row] = max(left, -MOST_AMOUNT)

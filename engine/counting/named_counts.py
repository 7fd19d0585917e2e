"""Named counts: the numbers of pods that a policy gives a name, and rules read.

A NamedCount is kept for all pods that are alike to it, and lives as long as a plan has it. It keeps
the last numbers, so that rules are evaluated again only where a number is a new one. A CallCounts
is of one call: pods are counted when the first rule reads a count.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from engine.cache.node_table import UNKNOWN_ROW, NodeTable
from engine.counting.groups import OUTSIDE, KeptCounts
from engine.counting.in_flight_pods import GroupIds
from engine.counting.node_groups import CallGroups, CountNumbers, OnTheWay
from engine.counting.pod_counter import PodCounter
from engine.program.frame import Frame
from engine.program.program import NamedCountProgram


class NamedCount:
    """One count, for pods that are alike to it.

    `pod_values` is what it reads of them, None if that cannot be compared.
    """

    def __init__(
        self, program: NamedCountProgram, pod_values: Hashable | None, numbers: Iterator[int]
    ) -> None:
        """`numbers` are those of changes; others may take some of them."""
        self.program = program
        self.pod_values = pod_values
        self.kept = KeptCounts(adds_amounts=program.count.peers.amount is not None)
        self._numbers = numbers
        self._ids: GroupIds = np.empty(0, np.int32)
        self._last: dict[OnTheWay, CountNumbers] = {}

    def numbers(self, counter: PodCounter, groups: CallGroups) -> CountNumbers:
        """The count in each group, as it is now. Raises EngineError."""
        ids, size = self._groups(groups)
        way = groups.on_the_way
        found = counter.numbers(self.program.count, self, ids, size, way)
        last = self._last.get(way)
        if last is None or last.ids is not ids or len(last.values) != size:
            changed = np.full(size + 1, next(self._numbers))
        elif np.array_equal(last.values, found):
            return last
        else:
            changed = last.changed.copy()
            changed[:size][last.values != found] = next(self._numbers)
        made = self._last[way] = CountNumbers(ids, found, changed)
        return made

    def _groups(self, groups: CallGroups) -> tuple[GroupIds, int]:
        """The group of each row, and the number of groups."""
        scope, rows = self.program.scope, len(groups.table.nodes)
        if scope == "group":
            return groups.grouped(self.program.group)
        if len(self._ids) != rows:
            # Rows of nodes that are gone count nothing.
            self._ids = np.arange(rows, dtype=np.int32) * (scope == "node")
            self._ids[UNKNOWN_ROW] = OUTSIDE
        return self._ids, rows if scope == "node" else 1


@dataclass(slots=True)
class CallCounts:
    """The named counts as one call sees them, by digest."""

    named: Mapping[str, NamedCount]
    counter: PodCounter
    table: NodeTable

    def numbers(self, digest: str, groups: CallGroups) -> CountNumbers | None:
        named = self.named.get(digest)
        return None if named is None else named.numbers(self.counter, groups)

    def value(self, digest: str, found: CountNumbers, frame: Frame) -> object:
        named, node = self.named[digest], frame.node
        group = 0
        if named.program.scope != "cluster":
            name = "" if node is None else node.name  # type: ignore[attr-defined]
            group = int(found.ids[self.table.rows.get(name, UNKNOWN_ROW)])
            if group < 0:
                return None
        number = found.values.item(group)
        if frame.gone:
            number -= self.counter.adds(named.program.count, named, frame.gone)
        return named.program.value(max(0, number))

"""Fills: how full the bounds of strict counts are, group by group, as a pod that counts sees them.

The numbers are those with which filter decides: what every pod adds that is, or may end, in a
group. A bound of what a workload has is one for each workload.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal as OneOf

import msgspec
import numpy as np

from engine.cache.node_table import KnownRows, Snapshot
from engine.counting.bounds import LARGEST, Floats, GroupCounts, fullness
from engine.counting.groups import CountHeadroom
from engine.decision.journal import recorded_counts
from engine.explanation.inspection import Inspection
from engine.facts import NamedClause
from engine.objects.peer import Peer, placed_pod
from engine.program.frame import Frame
from engine.program.operations import THOUSANDTHS
from engine.program.program import Program
from engine.work import Work
from grammar.values.errors import EvaluationError

# The groups of one bound that are listed.
_MOST_GROUPS = 50


class GroupFill(msgspec.Struct, frozen=True):
    """A group of nodes: what counts there, and how much may. Of a spread: beyond the emptiest."""

    name: str
    used: float
    most: float


class BoundFill(NamedClause, frozen=True):
    """How full a bound of some kind is: the fullest groups; `more` have no place in the list.

    `of` is the workload whose pods count, empty where the clause says itself which pods do. Of
    cards it is the amount, and the first group is all nodes.
    """

    of: str
    groups: Sequence[GroupFill]
    more: int
    kind: OneOf["share", "spread", "limit", "cards"]

    @property
    def part(self) -> float:
        """What is used of the fullest group."""
        return self.groups[0].used / self.groups[0].most


def selects(program: Program, pod: Peer, snapshot: Snapshot, frame: Frame) -> bool:
    """Whether a policy may select a pod that is there; true where more of the pod would be read."""
    if program.namespace not in (None, pod.namespace):
        return False
    if program.select is None or program.selects_by is None:
        return True
    frame.pod, frame.memo = placed_pod(pod), {}
    frame.namespaceObject = snapshot.namespaces.get(pod.namespace)
    try:
        return program.select(frame) is True
    except EvaluationError:
        return False


def fill_of_cards(
    policy: str, clause: str, amount: str, nodes: Mapping[str, tuple[int, int]]
) -> BoundFill:
    """What pods take of an amount of the cards; `nodes` have some of it, and what is taken."""
    order = sorted(nodes, key=lambda name: (-nodes[name][1] / nodes[name][0], name))
    every = GroupFill("all nodes", *(sum(each[i] for each in nodes.values()) for i in (1, 0)))
    listed = [GroupFill(name, nodes[name][1], nodes[name][0]) for name in order[:_MOST_GROUPS]]
    more = len(order) - len(listed)
    return BoundFill(policy, clause, amount, [every, *listed], more, "cards")


def fills_of(inspection: Inspection, node: str) -> Work[list[BoundFill]]:
    """The fill of each bound that holds for a pod, which is on this node, or on none.

    Yields after each portion. Raises DeadlineExceededError for what gets no further.
    """
    yield from inspection.headrooms_of_pod()
    names, table, found = inspection.names, inspection.table, list[BoundFill]()
    known_rows = KnownRows(table.find(names), table.rows)
    here = names.index(node) if node in table.rows else None
    for headroom in inspection.headrooms:
        used, most = fullness(headroom.clause, _with_pod(headroom, here))
        if headroom.clause.count.peers.amount is not None:
            used, most = used / THOUSANDTHS, most / THOUSANDTHS
        (recorded,) = recorded_counts([headroom], known_rows) or (None,)
        if recorded is None:
            continue
        name_of = recorded.group_names()
        groups = np.unique(headroom.groups[headroom.groups >= 0])
        groups = groups[(most[groups] > 0) & (most[groups] < LARGEST / THOUSANDTHS)]
        if not len(groups):
            continue
        parts = used / np.where(most > 0, most, 1)
        order = groups[np.argsort(-parts[groups], kind="stable")]
        listed = [
            GroupFill(name_of(group), _number(used, group), _number(most, group))
            for group in order[:_MOST_GROUPS].tolist()
        ]
        count = headroom.clause.count
        pod = inspection.peer
        name = pod.name if pod.workload is None else pod.workload.title
        of = "" if count.peers.where is not None else name
        more, kind = len(order) - len(listed), headroom.clause.kind
        found.append(BoundFill(count.policy, count.name, of, listed, more, kind))
    return found


def _with_pod(headroom: CountHeadroom, here: int | None) -> GroupCounts:
    """The counts with the pod that is asked about, where it has a node."""
    counts = headroom.counts
    if here is None or (group := headroom.groups[here]) < 0:
        return counts
    high, low = counts.high.copy(), counts.low.copy()
    high[group] += counts.own
    low[group] += counts.own
    return msgspec.structs.replace(counts, high=high, low=low)


def _number(numbers: Floats, group: int) -> float:
    found = float(numbers[group])
    return int(found) if found.is_integer() else round(found, 3)

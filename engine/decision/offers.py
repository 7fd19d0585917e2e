"""Offers: the nodes with headroom that a pod is offered, and those that are held back for others.

A pod on its way counts on every node that it was offered, so each offer takes a place in each group
of nodes. The rule, for limits, sums, spreads, shares and cards alike:

    A pod is offered every node with headroom as long as, whatever kube-scheduler chooses, one more
    pod like it still fits on some node afterwards, or nobody waits. If none would, nodes are held
    back in as many groups as other pods wait, so that each of them finds a place; the pod keeps one
    group at least. Several floors can hold only if the pod ends in one group: then it is offered
    one, whoever waits, and whether another pod fits or not.

Headroom itself is of the worst case, so no offer can pass a bound, whether it is wide or narrow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from zlib import crc32

import numpy as np
import numpy.typing as npt

from engine.cache.node_table import NodeRows, NodeTable, NodeWithPods
from engine.counting.bounds import Mask
from engine.counting.groups import Headroom
from engine.program.columns import grown
from engine.program.frame import Floats

# The resources by which kube-scheduler's own NodeResourcesFit tells how full a node is.
_RESOURCES = ("cpu", "memory")
_NO_VERSION = -1
# Odd, without a pattern.
_FACTOR = np.uint32(0x9E3779B1)
# The steps of a score, of how full a node is, and of chance, in one number of 63 bits.
_SCORE_STEPS, _FULL_BITS, _CHANCE_BITS = 1 << 18, 14, 24
_WORST = np.iinfo(np.int64).max

# The rank of each node, the best one with the smallest number.
Ranks = npt.NDArray[np.int64]
# A clause whose offers take places for which others wait, and the nodes with room for a second pod.
_Taking = tuple[Headroom, Mask]


def narrowed(
    headrooms: Sequence[Headroom], opened: Mask, ranks: Callable[[], Ranks]
) -> Sequence[tuple[Headroom, Mask]]:
    """The clauses that hold nodes back, and the nodes that are left to offer after each of them.

    There are none where every node that is `opened`, by all clauses, is offered. One node is open.
    First come the clauses that hold only if what is offered is in one group.
    """
    taking = [(each, each.roomy) for each in headrooms if each.roomy is not None]

    def order(each: _Taking) -> tuple[int, int]:
        """The fewest nodes with room for another pod first, then the fewest groups."""
        headroom, roomy = each
        return int(np.count_nonzero(opened & roomy)), len(np.unique(headroom.groups[opened]))

    taking.sort(key=order)
    found, kept = list[tuple[Headroom, Mask]](), opened
    for headroom, _ in taking:
        if headroom.in_one_group and len(np.unique(headroom.groups[kept])) > 1:
            kept = _in_best_groups(headroom, kept, ranks())
            found.append((headroom, kept))
    needed = found.copy()
    for headroom, _ in taking:
        if _another_fits(taking, opened, kept):
            return found
        if not headroom.in_one_group:
            kept = _in_best_groups(headroom, kept, ranks())
            found.append((headroom, kept))
    # Where no other pod would fit all the same, holding nodes back for it helps nobody.
    return found if _another_fits(taking, opened, kept) else needed


def _another_fits(taking: Sequence[_Taking], opened: Mask, kept: Mask) -> bool:
    """Whether a second pod like the asked pod fits on an open node, wherever the first one goes."""
    left = opened
    for headroom, roomy in taking:
        groups = headroom.groups
        # The last entry is that of OUTSIDE, -1.
        may_be_taken = np.zeros(int(groups.max()) + 2, np.bool_)
        may_be_taken[groups[kept]] = True
        left = left & (roomy | ~may_be_taken[groups])
    return bool(np.count_nonzero(left))


def _in_best_groups(headroom: Headroom, kept: Mask, ranks: Ranks) -> Mask:
    """The nodes in the best groups of a clause; it leaves a group to each pod that waits."""
    groups = headroom.groups
    best = np.full(int(groups.max()) + 2, _WORST)
    np.minimum.at(best, groups[kept], ranks[kept])
    number = max(1, int(np.count_nonzero(best < _WORST)) - headroom.wait)
    is_kept = np.zeros(len(best), np.bool_)
    is_kept[np.argpartition(best, number - 1)[:number]] = True
    return kept & is_kept[groups]


class NodeRanking:
    """The order in which nodes are kept for a pod.

    The best by our own scores comes first, then the emptiest by requests, then chance. Chance is of
    the uid of the pod and the name of the node, so that every replica and `simulate` choose alike.
    A node is read again where its version has changed. It belongs to Placement.
    """

    def __init__(self) -> None:
        self._owner: object = None
        self._versions = np.empty(0, np.int64)
        self._full = np.empty(0, np.float64)
        self._names = np.empty(0, np.uint32)

    def ranks(self, table: NodeTable, rows: NodeRows, suits: Floats, uid: str, last: Mask) -> Ranks:
        """The ranks of rows; `suits` has our own scores. Rows that are `last` follow all others."""
        self._update(table, rows)
        # The multiplication spreads the differences of names over all bits.
        mixed = (self._names[rows] ^ np.uint32(crc32(uid.encode()))) * _FACTOR
        ranks = ((32 * last - suits + 16) * _SCORE_STEPS).astype(np.int64)
        full = (self._full[rows] * ((1 << _FULL_BITS) - 1)).astype(np.int64)
        chance = (mixed >> np.uint32(32 - _CHANCE_BITS)).astype(np.int64)
        return (ranks << (_FULL_BITS + _CHANCE_BITS)) | (full << _CHANCE_BITS) | chance

    def _update(self, table: NodeTable, rows: NodeRows) -> None:
        if self._owner is not table.owner:
            self._owner, self._versions = table.owner, self._versions[:0]
        size = len(table.nodes)
        self._versions = grown(self._versions, size, _NO_VERSION)
        self._full, self._names = grown(self._full, size, 0), grown(self._names, size, 0)
        for row in rows[self._versions[rows] != table.versions[rows]].tolist():
            if (node := table.nodes[row]) is not None:
                self._full[row], self._names[row] = _fullness(node), crc32(node.name.encode())
        self._versions[rows] = table.versions[rows]


def _fullness(node: NodeWithPods) -> float:
    """The mean of the parts of resources that the pods on a node request, 0 where none is known."""
    if node.requested is None:
        return 0.0
    parts = [node.requested[r].nanos / max(1, node.allocatable[r].nanos) for r in _RESOURCES]
    return sum(min(1.0, part) for part in parts) / len(parts)

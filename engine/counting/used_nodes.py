"""Used nodes: how many nodes have a counted pod, at most and at least, wherever the next pod goes.

An in-flight pod may end on any node that it was offered, but only on one of them. So several of
them can take as many nodes as there are pods, and never more than the nodes that they were offered.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from engine.counting.in_flight_pods import GroupIds

Counts = npt.NDArray[np.int64]
# The group of the nodes that do not count.
_OFF = 0


def nodes_in_use(
    placed: Counts, certain: Counts, in_flight: Sequence[GroupIds]
) -> tuple[Counts, Counts]:
    """The most and the fewest nodes in use once one more pod is on each node.

    It is 0 on a node where the pod takes no further node. `placed` and `certain` are the pods on
    each node, with and without the pods that are only assumed there. `in_flight` are the nodes
    where each other pod may end.
    """
    used = placed > 0
    used[_OFF] = True
    # Nodes where some in-flight pod ends if it takes a further node at all, and nodes where one of
    # several `wide` pods may end.
    single, several = np.zeros((2, len(placed)), np.bool_)
    wide = 0
    for groups in in_flight:
        fresh = groups[(groups >= 0) & ~used[groups]]
        if len(fresh) == 1:
            single[fresh] = True
        elif len(fresh):
            several[fresh] = True
            wide += 1
    several &= ~single
    in_use = int(used.sum()) - 1
    # Each wide pod takes one more of the nodes that are left, as long as there are some.
    left = int(several.sum()) - several
    most = in_use + int(single.sum()) + ~single + np.minimum(wide, left)
    most[used] = 0
    certainly = certain > 0
    certainly[_OFF] = False
    # The certain ones, and the one that the pod takes.
    fewest = np.full(len(placed), int(certainly.sum()) + 1, np.int64)
    fewest[used | single | several] = 0
    return most.astype(np.int64), fewest

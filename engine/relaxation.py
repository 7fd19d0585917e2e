"""Which clauses stand in a pod's way: how often each, which nodes are close, what would help."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Refused = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Relaxation:
    """Some clauses, by index, without which `gained` nodes would pass that do not now."""

    clauses: tuple[int, ...]
    gained: int


@dataclass(frozen=True, slots=True)
class Standing:
    """What a table of refusals comes to, clause by clause and node by node, all by index.

    `alone` is how many nodes fail a clause and no other; `passing` those that fail none; `nearest`
    are the others, the fewest failing clauses first.
    """

    fails: tuple[int, ...]
    alone: tuple[int, ...]
    passing: int
    nearest: tuple[int, ...]
    relaxations: tuple[Relaxation, ...]


def standing(refused: Refused) -> Standing:
    """From a row per clause and a column per node."""
    counts = refused.sum(axis=0)
    order = np.argsort(counts, kind="stable")
    nearest = order[counts[order] > 0]
    return Standing(
        fails=tuple(refused.sum(axis=1).tolist()),
        alone=tuple((refused & (counts == 1)).sum(axis=1).tolist()),
        passing=int((counts == 0).sum()),
        nearest=tuple(nearest.tolist()),
        relaxations=tuple(_relaxations(refused, counts)),
    )


def _relaxations(refused: Refused, counts: npt.NDArray[np.int64]) -> list[Relaxation]:
    """The smallest sets of clauses that free a node, those first that free the most.

    A node is freed by leaving out all that it fails, so the smallest sets are those that some node
    with the fewest failing clauses fails.
    """
    failing = counts[counts > 0]
    if not len(failing):
        return []
    fewest = int(failing.min())
    closest = refused[:, counts == fewest]
    sets, gained = np.unique(closest, axis=1, return_counts=True)
    found = [
        Relaxation(tuple(np.nonzero(sets[:, i])[0].tolist()), int(gained[i]))
        for i in range(sets.shape[1])
    ]
    return sorted(found, key=lambda r: (-r.gained, r.clauses))

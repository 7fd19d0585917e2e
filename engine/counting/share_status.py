"""How a share stands in the cluster as it is, for people: nothing is decided by it."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass

import numpy as np

from engine.cache.snapshot import Snapshot
from engine.cache.tallies import Scope
from engine.counting.groups import ON, CountGroups, target
from engine.counting.pod_counter import KnownPods
from engine.objects.peer import Peer
from engine.program.frame import Frame
from engine.program.program import ShareProgram
from grammar.errors import EvaluationError


@dataclass(frozen=True, slots=True)
class PodCounts:
    """The pods that a policy selects, on the nodes of its share if it has one, and as it wants it.

    `violations` is by how many pods bounds are passed: by drift, for what is decided keeps to them.
    """

    matched: int
    placed: int | None = None
    target: int | None = None
    violations: int | None = None


class ShareStatus:
    """Counts for one policy; what it has worked out of nodes is kept between two looks."""

    def __init__(
        self,
        name: Hashable,
        scope: Scope,
        counts: Callable[[Peer], bool],
        share: ShareProgram | None,
    ) -> None:
        """`counts`, for which `name` stands, says which pods of the scope are selected."""
        self._name = name
        self._scope = scope
        self._counts = counts
        self._share = share
        self._groups = CountGroups(share, _unheard) if share is not None else None

    def look(self, pods: KnownPods, snapshot: Snapshot, frame: Frame) -> PodCounts:
        """The counts now. `frame` has no pod: a share of this kind reads none."""
        tally = pods.tally(self._name, self._scope, self._counts)
        placed = tally.placed
        matched = placed + len(tally.waiting)
        if self._share is None or self._groups is None:
            return PodCounts(matched)
        self._groups.look(snapshot.table, lambda: frame, _no_deadline)
        rows = snapshot.table.find(list(tally.nodes))
        amounts = np.fromiter(tally.nodes.values(), np.int64, len(tally.nodes))
        on = int(amounts[self._groups.ids[rows] == ON].sum())
        wanted = target(self._share.bound, matched)
        over = max(0, on - wanted) if self._share.bound.kind != "at least" else 0
        short = max(0, placed - on - (matched - wanted))
        if self._share.bound.kind == "at most":
            short = 0
        return PodCounts(matched, on, wanted, over + short)


def _unheard(policy: str, clause: str, error: EvaluationError) -> None:
    """Whoever decides by the share hears of it."""


def _no_deadline() -> None:
    """Nobody waits."""

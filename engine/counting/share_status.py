"""ShareStatus: how many pods a policy selects and where they are, for its status.

It only reports; decisions count for themselves. It belongs to the status reporter and lives as long
as one version of the policy is enforced.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace

import numpy as np

from engine.cache.node_table import Snapshot
from engine.cache.pods_excluding import KnownPods
from engine.cache.tallies import Scope
from engine.counting.bounds import ON, wanted_on
from engine.counting.groups import CountGroups
from engine.counting.pod_counter import by_workload, surplus
from engine.objects.peer import Peer
from engine.program.frame import Evaluation
from engine.program.program import ShareProgram


@dataclass(frozen=True, slots=True)
class PodCounts:
    """The counts of pods that a policy selects: all, those on the share, and its target.

    There is no target where it depends on the pod.

    `violations` is the number of pods beyond the bounds. Drift makes them, and rollouts leave them:
    decisions keep to the bounds.
    """

    matched: int
    placed: int | None = None
    target: int | None = None
    violations: int | None = None


class ShareStatus:
    """The share of one policy, for its status; what was evaluated of nodes is kept."""

    def __init__(
        self,
        name: Hashable,
        scope: Scope,
        counts: Callable[[Peer], bool],
        share: ShareProgram | None,
    ) -> None:
        """`counts` says which pods of the scope are selected; `name` identifies it."""
        self._name = name
        self._scope = scope
        self._counts = counts
        self._share = share
        # There is no pod to compute a number with: only the sides count.
        self._groups = None
        if share is not None:
            self._groups = CountGroups(replace(share, count=replace(share.count, number=None)))

    def count(self, pods: KnownPods, snapshot: Snapshot, evaluation: Evaluation) -> PodCounts:
        """The counts now. The frame has no pod: a share of this kind reads none.

        Raises DeadlineExceededError and ExpensivePolicyError; the next count continues.
        """
        tally = pods.tallies.get(self._name, self._scope, self._counts)
        placed = tally.placed
        matched = placed + len(tally.waiting)
        if self._share is None or self._groups is None:
            return PodCounts(matched)
        self._groups.update(snapshot.table, evaluation)
        rows = snapshot.table.find(list(tally.nodes))
        amounts = np.fromiter(tally.nodes.values(), np.int64, len(tally.nodes))
        on = int(amounts[self._groups.ids[rows] == ON].sum())
        if self._share.bound.amount is None:
            return PodCounts(matched, on)
        unwanted, _ = surplus(pods, by_workload(tally, placed=False))
        total = matched - unwanted
        wanted = wanted_on(self._share.bound, total, matched)
        # Too many on the share, except for `at least`; too many elsewhere, except for `at most`.
        over = max(0, on - wanted) if self._share.bound.kind != "at least" else 0
        short = max(0, placed - on - (matched - wanted))
        if self._share.bound.kind == "at most":
            short = 0
        return PodCounts(matched, on, wanted, over + short)

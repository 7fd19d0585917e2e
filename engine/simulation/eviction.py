"""Eviction: which pods kube-scheduler would evict for another one, and on which node.

It is the dry run of DefaultPreemption, as far as resources of nodes are concerned, and the choice
among the nodes that are left. Nothing is kept between two calls.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from engine.cache.node_table import NodeWithPods
from engine.decision.preemption import Victims
from engine.objects.disruption_budget import Budgets, violating
from engine.objects.peer import Peer, importance
from grammar.values.time import NEVER

# Whether the pod has room on a node without some pods.
Fits = Callable[[Collection[Peer]], bool]
# Makes every priority positive, so that a node with fewer pods wins (pickOneNodeForPreemption).
_SHIFT = 2**31


def dry_run(priority: int, node: NodeWithPods, budgets: Budgets, fits: Fits) -> Victims | None:
    """The victims on a node; None if all pods of lower priority are too few, or none is needed."""
    lower = sorted((pod for pod in node.pods or () if pod.priority < priority), key=importance)
    gone = {pod.uid: pod for pod in lower}
    if not lower or not fits(gone.values()):
        return None
    breaks = violating(lower, budgets)
    # Those that violate a budget are spared first, then the others, the most important ones first.
    for pod in sorted(lower, key=lambda pod: pod.uid not in breaks):
        del gone[pod.uid]
        if not fits(gone.values()):
            gone[pod.uid] = pod
    if not gone:
        return None
    victims = sorted(gone.values(), key=importance)
    return Victims([pod.uid for pod in victims], len(gone.keys() & breaks))


def preferred(candidates: Mapping[str, Sequence[Peer]], violations: Mapping[str, int]) -> str:
    """The node that kube-scheduler takes of these, each with its victims; of equals the first."""

    def rank(name: str) -> tuple[int, int, int, int, int]:
        victims = candidates[name]
        highest = max(pod.priority for pod in victims)
        started = (
            pod.started.nanos if pod.started is not None else NEVER
            for pod in victims
            if pod.priority == highest
        )
        total = sum(pod.priority + _SHIFT for pod in victims)
        return violations[name], highest, total, len(victims), -min(started)

    return min(candidates, key=rank)

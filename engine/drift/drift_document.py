"""Drift document: which pods break which rules now, since when, and what a repair would do.

The terminal, the view's API, the page, metrics and statuses show a DriftDocument and nothing else.
`version` changes where one of its keys means something else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal as OneOf

import msgspec

VERSION = 1
RepairMode = OneOf["off", "dry-run", "on"]
RepairState = OneOf[
    "idle", "off", "dry run", "waiting", "moving", "no place", "stopped", "may not evict"
]


class BrokenClause(msgspec.Struct, frozen=True):
    """A clause that would not let the pod on its node now, with its word; `since` it was seen."""

    policy: str
    clause: str
    kind: str
    text: str
    since: str

    @property
    def is_alone(self) -> bool:
        """Whether the pod breaks it by itself: a repair moves no gangs."""
        return self.kind != "gang"


class DriftedPod(msgspec.Struct, frozen=True):
    """A pod that breaks a rule on its node. `workload` is like `Deployment/web`, null without one.

    Of a bound that is passed by some pods, as many are here, in the `order` of a repair. `places`
    are the first of the `nodes` where it could go once the pods before it have moved; `reason` says
    why there is none. `kept` says why a repair would leave it where it is; empty for a pod that it
    would move.
    """

    order: int
    pod: str
    uid: str
    workload: str | None
    node: str
    clauses: Sequence[BrokenClause]
    places: Sequence[str]
    nodes: int
    reason: str
    kept: str

    @property
    def moves(self) -> bool:
        """Whether a repair would move it."""
        return not self.kept and bool(self.places)


class ClauseDrift(msgspec.Struct, frozen=True):
    """Drift from a clause: how many pods break it, would move in a repair, and are stuck.

    `since` is the earliest time of one of them.
    """

    policy: str
    clause: str
    kind: str
    pods: int
    movable: int
    stuck: int
    since: str


class PolicyRepair(msgspec.Struct, frozen=True):
    """The repairs of a policy that has some, since it is as it is now, under this leader.

    `text` says why nothing is evicted now, or is empty. `evicted`, `refused` by a disruption budget
    and `failed` are numbers of evictions, and `returned` of pods that broke a rule again. `moving`
    are pods whose replacement has no node yet. The clauses that are `stopped` are not repaired.
    """

    policy: str
    state: RepairState
    text: str
    evicted: int
    refused: int
    failed: int
    returned: int
    moving: Sequence[str]
    stopped: Sequence[str]


class DriftDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What has drifted, as a replica saw it `at` a time, in a look of some seconds.

    `problem` says why it has not looked, and then `at` is empty. `pods` are in the order of a
    repair; `more` may break rules too, and were not looked at. `skipped` are the templates of pods
    about which nothing is known, with the reason, such as a policy that takes too long.
    """

    replica: str
    problem: str = ""
    at: str = ""
    seconds: float = 0.0
    looked: int = 0
    clauses: Sequence[ClauseDrift] = ()
    pods: Sequence[DriftedPod] = ()
    more: int = 0
    skipped: Sequence[str] = ()
    repairs: Sequence[PolicyRepair] = ()
    version: int = VERSION


def clauses_of(pods: Sequence[DriftedPod]) -> Sequence[ClauseDrift]:
    """The clauses that the pods break, by policy and name."""
    found: dict[tuple[str, str], list[tuple[DriftedPod, BrokenClause]]] = {}
    for pod in pods:
        for broken in pod.clauses:
            found.setdefault((broken.policy, broken.clause), []).append((pod, broken))
    return [
        ClauseDrift(
            policy,
            clause,
            pairs[0][1].kind,
            len(pairs),
            sum(pod.moves for pod, _ in pairs),
            sum(not pod.places for pod, _ in pairs),
            min(broken.since for _, broken in pairs),
        )
        for (policy, clause), pairs in sorted(found.items())
    ]

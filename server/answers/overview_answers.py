"""Answers about the whole cluster: nodes, pods that wait, how full bounds are, and edits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal as OneOf

import msgspec

from engine.explanation.document import Cause
from engine.explanation.fills import BoundFill

Action = OneOf["created", "changed", "edited", "deleted"]


class NodesInShort(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes, each by its place in all of these lists; they are in the order of their names.

    `groups` are the values of the `label`, and `group` has the place of the node's value there; -1
    for a node without the label. `labels` are others by which nodes can be grouped. `cpu`, `memory`
    and `cards` are percentages of what is allocatable that pods request, -1 where there is none.
    `state` is 0 for a node that is ready, 1 for one that takes no pods, and 2 for one that is not
    ready.
    """

    label: str
    labels: Sequence[str]
    groups: Sequence[str]
    names: Sequence[str]
    group: Sequence[int]
    cpu: Sequence[int]
    memory: Sequence[int]
    pods: Sequence[int]
    cards: Sequence[int] | None
    state: Sequence[int]


class PolicyEdit(msgspec.Struct, frozen=True):
    """An edit of a policy: when, and by whom as far as the object or the replica can tell."""

    address: str
    at: str
    by: str
    action: Action


class ReplicaOverview(msgspec.Struct, frozen=True, kw_only=True):
    """The overview of a replica. While the cluster is not known, `nodes` is null, for a `problem`.

    `pods` have a node, and `waiting` have none. `edits` has the last ones, the newest first.
    """

    replica: str
    at: str
    problem: str
    nodes: NodesInShort | None
    pods: int
    waiting: int
    edits: Sequence[PolicyEdit]


class WaitingPods(msgspec.Struct, frozen=True):
    """Pods of one workload that wait: the first of them, their number, and why that one waits.

    `since` is when the first was created, null if that is not known. `asked` says that a scheduler
    has said something about the pod. `cause` is that of its explanation; it is null while it is not
    worked out, or where `problem` says why there is none.
    """

    pod: str
    pods: int
    since: str | None
    asked: bool
    cause: Cause | None
    problem: str


class WaitingList(msgspec.Struct, frozen=True):
    """The waiting pods, those that wait longest first; `more` are pods of other workloads.

    `complete` says that all causes are worked out: asked again, the replica goes on.
    """

    replica: str
    waiting: Sequence[WaitingPods]
    more: int
    complete: bool


class FillList(msgspec.Struct, frozen=True):
    """The fill of each bound of strict limits, shares and spreads, and cards, the fullest first.

    They are seen from some pods of each policy, so of bounds of workloads there may be others.
    """

    replica: str
    at: str
    bounds: Sequence[BoundFill]


# ---- one policy


class SelectedPod(msgspec.Struct, frozen=True):
    """A pod that a policy selects; `node` is null while it waits."""

    pod: str
    node: str | None
    phase: str


class SelectedPods(msgspec.Struct, frozen=True):
    """The pods that a policy selects, as far as what is known of a pod that is there tells it.

    `pods` are all of them, of which so many are `waiting`; `listed` are the first, those that wait
    before others. `exactly` is false where the policy reads more of a pod, so that some may be too
    many.
    """

    replica: str
    policy: str
    pods: int
    waiting: int
    exactly: bool
    listed: Sequence[SelectedPod]


# ---- numbers over time


class HistorySeries(msgspec.Struct, frozen=True):
    """The numbers of one series, one for each time; null where there is none.

    `waiting pods`, `rejected nodes` of a minute, `rejected POLICY: CLAUSE` of the ten clauses that
    rejected most nodes in the minute, `p99 VERB` in seconds of a minute, and `full POLICY: CLAUSE`
    in percent.
    """

    name: str
    numbers: Sequence[float | None]


class NumberHistory(msgspec.Struct, frozen=True):
    """Numbers over time. `times` are in seconds since 1970.

    Of more than 720 samples the largest number of some stands for them. Without `kept` it began
    with the replica, and ends with it.
    """

    replica: str
    kept: bool
    times: Sequence[int]
    series: Sequence[HistorySeries]

"""Answers of the view about one pod: which policies concern it, and what they say of each node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal as OneOf

import msgspec

from engine.explanation.evidence_document import ClauseOnNode, ScoreTerm
from server.answers.view_answers import DecisionDetail, NodeScore

What = OneOf["policies", "nodes", "counts", "time"]


class ConcernedPolicy(msgspec.Struct, frozen=True):
    """A policy that can apply to the pod, how it applies, and the reason.

    `applies` is `governs`, `as a guardrail`, `in audit`, `rejects all` or `no`.
    """

    address: str
    applies: str
    because: str


class RejectingClause(msgspec.Struct, frozen=True):
    """A clause that rejects nodes; `text` is its reason in full."""

    policy: str
    clause: str
    text: str


class NodeGroup(msgspec.Struct, frozen=True):
    """The nodes that the same clauses reject; without clauses, those that pass."""

    rejectedBy: Sequence[RejectingClause]
    nodes: int
    names: Sequence[str]


class ClauseSummary(msgspec.Struct, frozen=True):
    """A clause that can reject nodes, how many it rejects, and how many are rejected by it alone.

    `errors` is the number of nodes on which it cannot be evaluated.
    """

    policy: str
    clause: str
    fails: int
    failsOnlyThis: int
    errors: int


class NearestMiss(msgspec.Struct, frozen=True):
    """A node that one clause alone rejects; `detail` is the text of the clause for this node."""

    node: str
    rejectedBy: RejectingClause
    detail: str


class NodeExplanation(msgspec.Struct, frozen=True):
    """What each clause says of one node, with the values that it read.

    The `adds` of `terms` add up to the score before it is rounded. `score` is null for a node that
    is rejected, or if no score applies.
    """

    node: str
    passes: bool
    score: int | None
    clauses: Sequence[ClauseOnNode]
    terms: Sequence[ScoreTerm]


class Change(msgspec.Struct, frozen=True):
    """One of the four things that a decision follows from, and how it differs now."""

    what: What
    text: str


class PodExplanation(msgspec.Struct, frozen=True, kw_only=True):
    """What would be decided about a pod now, over all nodes that the replica knows.

    `on` is the node of the pod, null for a pending pod; the pod counts there. `groups` has each
    node once: the group that passes comes first, then the largest. `nearest` has at most 20 nodes.
    `scores` are 0..10 for the nodes that pass, the best first; null if no score applies. `then` is
    the last decision, null if it is not kept; `changes` says what is other now. `node` is null
    unless the question names a node. `caveat` says what an extender cannot see.
    """

    replica: str
    pod: str
    at: str
    on: str | None
    policies: Sequence[ConcernedPolicy]
    nodes: int
    passing: int
    groups: Sequence[NodeGroup]
    clauses: Sequence[ClauseSummary]
    nearest: Sequence[NearestMiss]
    scores: Sequence[NodeScore] | None
    then: DecisionDetail | None
    changes: Sequence[Change]
    node: NodeExplanation | None
    caveat: str

"""PodExplanation: the one account of what is decided about a pod, and why.

`placet explain`, `placet analyze`, the REPL, the page and the view's API show a PodExplanation and
nothing else. Its keys are the same everywhere; `version` changes where one means something else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal as OneOf

import msgspec

from engine.explanation.decision_document import ClauseCounts, DecisionDetail, PolicyAudit
from engine.gangs.gang import Presence

VERSION = 1
CAVEAT = (
    "kube-scheduler asks only about nodes that passed its own plugins; of these, volumes, devices,"
    " pod affinity and topology spread are not known here, but the event FailedScheduling of the"
    " pod counts all nodes"
)
Applies = OneOf["governs", "as a guardrail", "in audit", "gives way", "rejects all", "no"]
TracedPart = OneOf["when", "require", "bound", "value"]
What = OneOf["policies", "nodes", "counts", "time"]
GangProgress = OneOf["waiting", "fits", "gathering", "given up", "begun", "not tried"]
CauseKind = OneOf[
    "placed",
    "deleted",
    "gated",
    "unreachable extender",
    "extender error",
    "policy not in force",
    "missing rights",
    "placet",
    "other scheduler",
    "not asked yet",
    "policy",
    "count",
    "gang",
    "held back",
    "kube-scheduler",
    "other extender",
    "unknown",
]


class Cause(msgspec.Struct, frozen=True):
    """Why a pod is pending, and what to do about it; `hint` may be empty."""

    kind: CauseKind
    text: str
    hint: str = ""


class PolicyNotInForce(msgspec.Struct, frozen=True):
    """A policy that is not in force as written, what holds instead, and its first error."""

    policy: str
    instead: str
    because: str


class ConcernedPolicy(msgspec.Struct, frozen=True):
    """A policy that can apply to the pod, how it applies, and the reason.

    `applies` is `governs`, `as a guardrail`, `in audit`, `gives way`, `rejects all` or `no`.
    `digest` is that of the version in force.
    """

    address: str
    applies: Applies
    because: str
    digest: str

    @property
    def concerns(self) -> bool:
        """Whether it selects the pod."""
        return self.applies not in ("rejects all", "no")


class NamedClause(msgspec.Struct, frozen=True):
    """A clause by the address of its policy and its name."""

    policy: str
    clause: str


class RejectingClause(NamedClause, frozen=True):
    """A clause that rejects nodes; `text` is its reason in full."""

    text: str


class RejectionOfNode(RejectingClause, frozen=True):
    """A clause that rejects a node. `detail` says by how much, in lines; it may be empty."""

    detail: str


class UnfitNodes(msgspec.Struct, frozen=True):
    """The nodes that one of kube-scheduler's own plugins rejects; `text` is its reason."""

    text: str
    nodes: int
    names: Sequence[str]


class NodeGroup(msgspec.Struct, frozen=True):
    """The nodes that the same clauses reject; without clauses, those that pass.

    `heldBack` is why nodes that pass are not offered for now, else empty.
    """

    rejectedBy: Sequence[RejectingClause]
    nodes: int
    names: Sequence[str]
    heldBack: str = ""


class Requirement(msgspec.Struct, frozen=True):
    """One `require` of a filter, and the number of nodes on which it does not hold."""

    text: str
    fails: int


class ClauseSummary(NamedClause, frozen=True):
    """A clause that can reject nodes, how many it rejects, and how many no other clause rejects.

    `errors` is the number of nodes on which it cannot be evaluated. `message` is its reason as the
    pod's event has it. `counts` says that it counts pods.
    """

    fails: int
    failsOnlyThis: int
    errors: int
    message: str
    counts: bool
    requires: Sequence[Requirement] = ()


class NearestMiss(msgspec.Struct, frozen=True):
    """A node that is rejected by few clauses."""

    node: str
    rejectedBy: Sequence[RejectionOfNode]


class Relaxation(msgspec.Struct, frozen=True):
    """The clauses without which `gained` more nodes would pass."""

    without: Sequence[NamedClause]
    gained: int


class NodeRow(msgspec.Struct, frozen=True):
    """A node, whether it passes, whether it is offered, its score, and the reasons as lines.

    `score` is null for a node that is not scored. The reasons of kube-scheduler's own plugins come
    last; `passes` and `offered` are about policies alone.
    """

    node: str
    passes: bool
    offered: bool
    score: int | None
    why: Sequence[str]


class ScoredNode(msgspec.Struct, frozen=True):
    """The score of a node, 0..10, and the same before it was rounded."""

    node: str
    score: int
    exactly: float


class ReadValue(msgspec.Struct, frozen=True, omit_defaults=True):
    """A part of an expression, and its value in the syntax of the language, or its error.

    A part of another one has a greater `depth`.
    """

    expression: str
    depth: int
    value: str | None = None
    error: str | None = None


class TracedExpression(msgspec.Struct, frozen=True):
    """An expression of a clause, as `part` of it, and the values of its parts."""

    part: TracedPart
    text: str
    values: Sequence[ReadValue]


class CountedPod(msgspec.Struct, frozen=True):
    """A pod that a clause counts, and how it is there."""

    name: str
    presence: str


class NodeCounts(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a clause counts for a node, and the pods behind it."""

    text: str
    pods: Sequence[CountedPod]
    emptiestDomain: Sequence[CountedPod] = ()


class ClauseOnNode(RejectingClause, frozen=True, omit_defaults=True):
    """What one clause says of a node; `text` is its reason where it does not hold."""

    holds: bool
    detail: str = ""
    expressions: Sequence[TracedExpression] = ()
    counts: NodeCounts | None = None


class ScoreTerm(NamedClause, frozen=True):
    """The points 0..100 that one clause gives a node, and how much they add to the score.

    `missing` says that the clause has no number for the node. `value` is null for a count.
    """

    weight: float
    points: float
    adds: float
    missing: bool
    value: TracedExpression | None


class NodeExplanation(msgspec.Struct, frozen=True):
    """What each clause says of one node, with the values that it read.

    `outcome` says it in short. The `adds` of `terms` add up to the score before it is rounded.
    `score` is null for a node that is not scored. `unfit` are the reasons of kube-scheduler's own
    plugins against the node.
    """

    node: str
    passes: bool
    outcome: str
    score: int | None
    clauses: Sequence[ClauseOnNode]
    terms: Sequence[ScoreTerm]
    unfit: Sequence[str] = ()


class MemberOfGang(msgspec.Struct, frozen=True):
    """A member as `namespace/name`, how it is there, and its node; null for one that waits.

    It is `bound` to its node, `held` there by its bind call for some seconds, `placed` there on
    paper, or `waiting`.
    """

    pod: str
    presence: Presence
    node: str | None
    seconds: float | None


class GangExplanation(NamedClause, frozen=True):
    """The gang of the pod, as its clause sees it.

    `name` is what its members have in common, after the namespace. `message` is what its texts in
    the pod's events begin with. `quorum` members are placed together; it is null where it cannot be
    told. `state` is `waiting`, `gathering` for so many `seconds`, `given up`, `begun` once a member
    is on a node, or `not tried`; a command, which knows of nobody who gathers, says `fits`. `text`
    says what the gang waits for, or how far it is. After `againIn` seconds it is tried again.
    `exist`, `held`, `placed` and `bound` are numbers of members; the held ones have a place, too.
    `members` are the first thousand.
    """

    name: str
    message: str
    quorum: int | None
    state: GangProgress
    text: str
    seconds: float | None
    againIn: float | None
    exist: int
    placed: int
    held: int
    bound: int
    members: Sequence[MemberOfGang]


class Change(msgspec.Struct, frozen=True):
    """A change of one of the four causes of a decision, in words."""

    what: What
    text: str


class PodExplanation(msgspec.Struct, frozen=True, kw_only=True):
    """What would be decided about a pod now, over all nodes that are known.

    `replica` is null if a command worked it out by itself. `on` is the node of the pod, null for a
    pending pod; a replica counts the pod there, and a command does not. `cause` is null where
    nothing is known of a scheduler's answers and some node would take the pod. `said` is what
    schedulers have said last of the pod, null if that is not known. `problem` is what
    kube-scheduler would get in the place of an answer, else null. `otherPolicies` is the number of
    policies of other namespaces. `toldToOthers` says what portable policies have put into the spec
    of the pod.

    `heldBack` is the number of nodes that pass and are not offered for now; null where there is no
    answer. `groups` has each node once: the group that passes comes
    first, then the largest. `unfit` has by reason the nodes that kube-scheduler's own plugins
    reject, as far as nodes and pods show it; a node may have several reasons. `nearest` are at most
    20 nodes, those with the fewest rejecting clauses first. `rows` has the nodes by name, null if
    there are more than 20 and not all are wanted. `scores` has the best node first; null if no
    score applies. `counts` is what strict clauses count. `then` is the last decision, null if it is
    not kept or not asked for; `changes` says what is other now. `node` is null unless the question
    names a node. `gang` is null for a pod that is in none. `caveat` says what an extender cannot
    see.
    """

    version: int = VERSION
    replica: str | None = None
    pod: str
    at: str
    on: str | None
    cause: Cause | None = None
    said: str | None = None
    notInForce: Sequence[PolicyNotInForce] = ()
    problem: str | None = None
    exempt: str | None = None
    policies: Sequence[ConcernedPolicy] = ()
    otherPolicies: int = 0
    toldToOthers: Sequence[str] = ()
    nodes: int = 0
    passing: int = 0
    heldBack: int | None = None
    groups: Sequence[NodeGroup] = ()
    unfit: Sequence[UnfitNodes] = ()
    clauses: Sequence[ClauseSummary] = ()
    nearest: Sequence[NearestMiss] = ()
    relaxations: Sequence[Relaxation] = ()
    audits: Sequence[PolicyAudit] = ()
    rows: Sequence[NodeRow] | None = None
    scores: Sequence[ScoredNode] | None = None
    counts: Sequence[ClauseCounts] = ()
    then: DecisionDetail | None = None
    changes: Sequence[Change] = ()
    node: NodeExplanation | None = None
    gang: GangExplanation | None = None
    caveat: str = CAVEAT

    @property
    def is_decided(self) -> bool:
        """Whether the policies decide about the pod; else `problem` says what it waits for."""
        return self.nodes > 0 or self.problem is None

    @property
    def unfit_passing(self) -> int:
        """The number of nodes that pass the policies, but not kube-scheduler's own plugins."""
        passing = {name for group in self.groups if not group.rejectedBy for name in group.names}
        return len(passing & {name for each in self.unfit for name in each.names})

    @property
    def offered(self) -> int:
        """The number of nodes that pass and are not held back."""
        return self.passing - (self.heldBack or 0)

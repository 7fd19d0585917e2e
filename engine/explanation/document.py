"""Document of an explanation: the one account of what is decided about a pod, or was, and why.

`placet explain`, the REPL, the page and the view's API show a PodExplanation and
nothing else; of the last call about a pod there is a PodDecision, which has the same parts. The
keys are the same everywhere; `version` changes where one means something else.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal as OneOf

import msgspec
import numpy as np

from engine.decision.audit_log import AuditedPod, AuditLog, PolicyAudit, PolicyAudits
from engine.decision.journal import (
    ConcernedPolicies,
    CountedGroup,
    DecisionRecord,
    PreemptionDetail,
    RecordedCounts,
)
from engine.decision.verdict import Feasible, HeldBack, Verdict, full_reason
from engine.enforced import PolicyNotInForce
from engine.explanation.reader import EVERYTHING, Reader
from engine.facts import Cause, ExplainedPart, NamedClause
from engine.gangs.gang import GangExplanation

VERSION = 2
CAVEAT = (
    "kube-scheduler asks only about nodes that passed its own plugins; of these, volumes, devices,"
    " pod affinity and topology spread are not known here, but the event FailedScheduling of the"
    " pod counts all nodes"
)
Applies = OneOf["governs", "as a guardrail", "in audit", "gives way", "rejects all", "no"]
TracedPart = OneOf["when", "require", "bound", "value"]
What = OneOf["policies", "nodes", "counts", "time"]


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


class RejectingClause(NamedClause, frozen=True):
    """A clause that rejects nodes; `text` is its reason in full."""

    text: str


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


def in_order(groups: Iterable[NodeGroup]) -> list[NodeGroup]:
    """The group that passes first, then the largest."""
    return sorted(
        groups, key=lambda g: (bool(g.rejectedBy), bool(g.heldBack), -g.nodes, g.names[0])
    )


class Requirement(msgspec.Struct, frozen=True):
    """One `require` of a filter, and the number of nodes on which it does not hold."""

    text: str
    fails: int


class ClauseSummary(NamedClause, frozen=True):
    """A clause that can reject nodes, how many it rejects, and how many no other clause rejects.

    `errors` is the number of nodes on which it cannot be evaluated. `message` is its reason as the
    pod's event has it; `opening` is how it begins, if the rest changes. `counts` says that it
    counts pods.
    """

    fails: int
    failsOnlyThis: int
    errors: int
    message: str
    counts: bool
    requires: Sequence[Requirement] = ()
    opening: str | msgspec.UnsetType = msgspec.UNSET


class ScoredNode(msgspec.Struct, frozen=True, omit_defaults=True):
    """The score of a node, 0..10; `missing` says which clauses have no number for it, and why."""

    node: str
    score: int
    missing: Sequence[str] = ()


class ReadValue(msgspec.Struct, frozen=True, omit_defaults=True):
    """A value that was read: a part of an expression in the syntax of the language, or its error.

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
    """What a clause counts for a node, and the first pods behind it; `more` are not listed."""

    text: str
    pods: Sequence[CountedPod]
    emptiestDomain: Sequence[CountedPod] = ()
    more: int = 0


class ClauseOnNode(RejectingClause, frozen=True, omit_defaults=True):
    """What one clause says of a node; `text` is its reason where it does not hold.

    `detail` is what the policy says beside its reason.
    """

    holds: bool
    detail: str = ""
    expressions: Sequence[TracedExpression] = ()
    counts: NodeCounts | None = None


class NearestMiss(msgspec.Struct, frozen=True):
    """A near miss: a node that few clauses reject, and what these say of it."""

    node: str
    rejectedBy: Sequence[ClauseOnNode]


class ScoreTerm(NamedClause, frozen=True):
    """A term of a score: the points 0..100 of one clause, and how much they add to the score.

    `missing` says that the clause has no number for the node. `value` is null for a count.
    """

    weight: float
    points: float
    adds: float
    missing: bool
    value: TracedExpression | None


class NodeExplanation(msgspec.Struct, frozen=True):
    """The explanation of one node: every clause, with the values that it read.

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


class Change(msgspec.Struct, frozen=True):
    """A change of one of the four causes of a decision, in words."""

    what: What
    text: str


class ClauseCounts(msgspec.Struct, frozen=True):
    """The counts of a strict clause: its groups with pods."""

    policy: str
    clause: str
    groups: Sequence[CountedGroup]


class PodAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """An answer about a pod, decided or explained: which policies concern it, and what nodes get.

    `replica` is null if a command worked it out by itself. `problem` is what kube-scheduler got, or
    would get, in the place of an answer, else null. Of the `passing` nodes so many are `heldBack`,
    which are not offered for now; null where there is no answer. `groups` has each node once: the
    group that passes comes first, then the largest; a decision has none where no policy concerns
    the pod. `audits` says what policies in audit mode would do. `scores` has the best node first;
    null if no score applies, or nobody asked for scores. `counts` is what strict clauses count.
    `parts` are what capabilities say, for people.
    """

    replica: str | None = None
    pod: str
    at: str
    problem: str | None = None
    policies: Sequence[ConcernedPolicy] = ()
    nodes: int = 0
    passing: int = 0
    heldBack: int | None = None
    groups: Sequence[NodeGroup] = ()
    audits: Sequence[PolicyAudit] = ()
    scores: Sequence[ScoredNode] | None = None
    counts: Sequence[ClauseCounts] = ()
    parts: Sequence[ExplainedPart] = ()


class PodDecision(PodAnswer, frozen=True, kw_only=True):
    """The decision in the last call about a pod, over the nodes that kube-scheduler offered.

    `number` counts the calls of filter since the replica started, and `generation` the sets of
    policies; `policiesChanged` says whether there is another set since. `seconds` is how long the
    decision of filter took, and `scoredSeconds` that of prioritize after it; null if there was
    none. `preemption` is the last call of preempt, which may be older, null if there was none.
    """

    number: int
    uid: str
    generation: int
    policiesChanged: bool
    seconds: float | None
    scoredSeconds: float | None
    preemption: PreemptionDetail | None = None


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """A summary of the last call about a pod; see PodDecision.

    `governing` is the policy that governs the pod, null if none does.
    """

    number: int
    pod: str
    at: str
    nodes: int
    passing: int
    heldBack: int
    governing: str | None
    problem: str | None
    seconds: float | None
    scoredSeconds: float | None


class PodExplanation(PodAnswer, frozen=True, kw_only=True):
    """The explanation of what would be decided about a pod now, over all nodes that are known.

    `on` is the node of the pod, null for a pending pod; a replica counts the pod there, and a
    command does not. `cause` is null where nothing is known of a scheduler's answers and some node
    would take the pod. `said` is what schedulers have said last of the pod, null if that is not
    known. `otherPolicies` is the number of policies of other namespaces. `toldToOthers` says what
    portable policies have put into the spec of the pod.

    `unfit` has by reason the nodes that kube-scheduler's own plugins reject, as far as nodes and
    pods show it; a node may have several reasons. `nearest` are at most 20 nodes, those with the
    fewest rejecting clauses first. `then` is the last decision, null if it is not kept or not asked
    for; `changes` says what is other now. `node` is null unless the question names a node. `gang`
    is null for a pod that is in none. `caveat` says what an extender cannot see.
    """

    version: int = VERSION
    on: str | None
    cause: Cause | None = None
    said: str | None = None
    notInForce: Sequence[PolicyNotInForce] = ()
    exempt: str | None = None
    otherPolicies: int = 0
    toldToOthers: Sequence[str] = ()
    unfit: Sequence[UnfitNodes] = ()
    clauses: Sequence[ClauseSummary] = ()
    nearest: Sequence[NearestMiss] = ()
    then: PodDecision | None = None
    changes: Sequence[Change] = ()
    node: NodeExplanation | None = None
    gang: GangExplanation | None = None
    caveat: str = CAVEAT

    def as_known_by(self, other: PodExplanation) -> PodExplanation:
        """The explanation with the parts of another one, and with the cause of a part."""
        cause = other.cause if other.cause in [part.cause for part in other.parts] else None
        told = {name: getattr(other, name) for name in ("parts", "gang", "audits", "toldToOthers")}
        return msgspec.structs.replace(self, **told, cause=cause or self.cause)

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
    def closest(self) -> Sequence[NodeGroup]:
        """The groups that the fewest clauses reject; without these clauses they would pass."""
        rejected = [group for group in self.groups if group.rejectedBy]
        fewest = min((len(group.rejectedBy) for group in rejected), default=0)
        return [group for group in rejected if len(group.rejectedBy) == fewest]

    @property
    def offered(self) -> int:
        """The number of nodes that pass and are not held back."""
        return self.passing - (self.heldBack or 0)


# ---- the last call about a pod, as it was recorded


class Listing(msgspec.Struct, frozen=True):
    """A listing of the kept decisions of a replica, newest first; `more` says there are others.

    `number` is that of the last decision.
    """

    replica: str
    decisions: Sequence[Summary]
    more: bool
    number: int


def summary(record: DecisionRecord) -> Summary:
    passing, held = 0 if record.error else record.offered, 0
    if (answered := record.answered) is not None:
        found = np.bincount(answered.codes, minlength=len(answered.verdicts)).tolist()
        pairs = list(zip(answered.verdicts, found, strict=True))
        held = sum(nodes for verdict, nodes in pairs if isinstance(verdict, HeldBack))
        passing = held + sum(nodes for verdict, nodes in pairs if isinstance(verdict, Feasible))
    return Summary(
        number=record.number,
        pod=f"{record.namespace}/{record.name}",
        at=record.at.to_second(),
        nodes=record.offered,
        passing=passing,
        heldBack=held,
        governing=record.policies.governing,
        problem=record.error or None,
        seconds=None if record.error else round(record.seconds, 6),
        scoredSeconds=None if record.scored is None else round(record.scored_seconds, 6),
    )


def decided(
    replica: str,
    record: DecisionRecord,
    generation: int,
    log: AuditLog,
    reader: Reader = EVERYTHING,
) -> PodDecision:
    """The decision of a record for a reader; `generation` is the journal's now."""
    known = msgspec.structs.asdict(summary(record))
    del known["governing"]
    audits = [_audit(address, pod) for address, pod in log.of(record.uid)]
    return PodDecision(
        **known,
        replica=replica,
        uid=record.uid,
        generation=record.generation,
        policiesChanged=record.generation != generation,
        policies=_policies(record.policies),
        groups=_groups(record, reader),
        audits=audits,
        scores=_scores(record),
        counts=counts_of(record.counts, reader),
        preemption=record.preempted,
        parts=[each.part for each in audits],
    )


def counts_of(counts: Iterable[RecordedCounts], reader: Reader) -> list[ClauseCounts]:
    """The counts with the names of groups that the reader may see."""
    found = (each for each in counts if each.is_of_nodes or reader.may_list(None))
    return [ClauseCounts(*each.by_group()) for each in found]


def _policies(concerned: ConcernedPolicies) -> list[ConcernedPolicy]:
    winner = concerned.governing
    parts: tuple[tuple[Applies, str, Sequence[str]], ...] = (
        ("as a guardrail", "", concerned.guardrails),
        ("governs", "", () if winner is None else (winner,)),
        ("gives way", f"`{winner}` governs", concerned.gave_way),
        ("in audit", "", concerned.audited),
    )
    return [
        ConcernedPolicy(address, applies, because, concerned.digests.get(address, ""))
        for applies, because, addresses in parts
        for address in addresses
    ]


def _groups(record: DecisionRecord, reader: Reader) -> list[NodeGroup]:
    """The nodes by their verdicts."""
    if (answered := record.answered) is None:
        return []
    found: dict[int, list[str]] = {}
    for code, name in zip(answered.codes.tolist(), answered.nodes.names(), strict=True):
        found.setdefault(code, []).append(name)
    return in_order([_group(answered.verdicts[code], found[code], reader) for code in found])


def _group(verdict: Verdict, names: list[str], reader: Reader) -> NodeGroup:
    names = sorted(names)
    if isinstance(verdict, Feasible):
        return NodeGroup([], len(names), names)
    text = full_reason(verdict.policy, verdict.clause, verdict.reason)
    if isinstance(verdict, HeldBack):
        return NodeGroup([], len(names), names, text)
    text = f"{text}: {reader.error(verdict.error)}" if verdict.error else text
    return NodeGroup([RejectingClause(verdict.policy, verdict.clause, text)], len(names), names)


def _scores(record: DecisionRecord) -> Sequence[ScoredNode] | None:
    if record.scored is None:
        return None
    pairs = zip(record.scored.nodes.names(), record.scored.points.tolist(), strict=True)
    return [ScoredNode(n, s) for n, s in sorted(pairs, key=lambda pair: (-pair[1], pair[0]))]


# ---- what policies in audit mode would have done


def _audit(address: str, pod: AuditedPod) -> PolicyAudit:
    since = pod.since if pod.wouldWait else None
    return PolicyAudit(address, pod.rejected, pod.clauses, pod.offered - pod.rejected, since)


class AuditList(msgspec.Struct, frozen=True):
    """The policies in audit mode of a replica, by address."""

    replica: str
    at: str
    policies: Sequence[PolicyAudits]

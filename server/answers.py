"""Answers of the view: the structs that it sends as JSON, and the questions with a body.

They are the form of what the parts of `server.view` work out: the status of a replica, its
policies, the whole cluster, drafts, and simulations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any
from typing import Literal as OneOf

import msgspec
from msgspec import Meta

from engine.decision.audit_log import PolicyAudits
from engine.decision.recent_answers import RejectedStatus
from engine.enforced import PolicyNotInForce
from engine.explanation.effects import EffectOfPolicy
from engine.explanation.fills import BoundFill
from engine.facts import Cause, Facts, NamedClause
from engine.simulation.what_if import NodesToAdd
from grammar.messages.diagnostics import Diagnostic
from policies.editor.completion import Candidate


class ClauseRejections(NamedClause, frozen=True):
    """The nodes that a clause has rejected since the replica started, in all calls of filter."""

    nodes: int


class PolicyInForce(msgspec.Struct, frozen=True):
    """A policy that decides; `expensive` says that it had no time for a call of the last minute.

    `unmet` is a share with a lower bound for which pods wait, because no offered node keeps to it.
    """

    address: str
    guardrail: bool
    mode: str
    weight: int
    digest: str
    expensive: bool
    unmet: str


class FailedCheck(msgspec.Struct, frozen=True):
    """A check of `/readyz` that does not hold; one that is a warning does not make it fail."""

    name: str
    failure: str
    warning: bool


class InFlight(msgspec.Struct, frozen=True):
    """A pod in flight to some node; `pod` is its uid while its name is not known."""

    pod: str
    seconds: float
    nodes: int | None


class CertificateInUse(msgspec.Struct, frozen=True):
    """The certificate of new connections; `warning` says that it has expired, or will soon."""

    file: str
    expires: str
    warning: str


class LeaseStatus(msgspec.Struct, frozen=True):
    """The Lease: the name of this replica, the holder, and why asking about it fails now."""

    identity: str
    holder: str
    held: bool
    failure: str


class TaskStatus(msgspec.Struct, frozen=True):
    """The status of a background task."""

    running: bool
    restarts: int
    lastFailure: str


class WatchedResource(msgspec.Struct, frozen=True, kw_only=True):
    """A watched resource: its objects, and how the watch goes.

    `failure` is what fails now, and `failures` are all so far by kind. `lastUnreadable` is the last
    object that could not be read.
    """

    objects: int
    resourceVersion: str = ""
    synced: bool
    secondsSinceLastEvent: float | None
    relists: Mapping[str, int] = {}
    failure: str = ""
    failures: Mapping[str, int] = {}
    unreadable: int = 0
    lastUnreadable: str = ""


class ClusterStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The status of a watched cluster; `missing` says what is not known yet.

    `lease` is null for the only replica. Only the leader knows by policy how many pods are
    `beyondBounds`; null is not known. `failing` has the work with the API server that fails now,
    and `background` the tasks by name.
    """

    missing: str = ""
    lease: LeaseStatus | None = None
    rejected: RejectedStatus | None = None
    beyondBounds: Mapping[str, int] | None = None
    tasks: int = 0
    failing: Mapping[str, str] = {}
    background: Mapping[str, TaskStatus] = {}
    resources: Mapping[str, WatchedResource]


class ReplicaStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What a replica is and knows at this time.

    `notInForce` are strict policies without a valid version, and `broken` all policies with errors,
    with what holds instead. `cluster` is the state of what is watched, null without one. `inFlight`
    has the first of `podsInFlight`, and `rejections` the clauses that rejected nodes. `facts` are
    what `capabilities` know. `certificate` is null for a server without TLS.
    """

    replica: str
    version: str
    at: str
    started: str
    ready: bool
    failing: Sequence[FailedCheck]
    policies: Sequence[PolicyInForce]
    notInForce: Sequence[str]
    broken: Sequence[PolicyNotInForce] = ()
    cluster: ClusterStatus | None
    podsInFlight: int
    inFlight: Sequence[InFlight]
    facts: Facts = {}
    rejections: Sequence[ClauseRejections]
    decisions: int
    recorded: int
    certificate: CertificateInUse | None = None
    capabilities: Sequence[str] = ()


# ---- policies


State = OneOf["in force", "last valid version in force", "not in force"]


# The line and the column of an offset in a text.
Position = Callable[[int], tuple[int, int]]


class Problem(msgspec.Struct, frozen=True):
    """A problem of a text; lines and columns count from 1, and the end is exclusive.

    `hint` is null if there is no remedy to name.
    """

    code: str
    severity: str
    message: str
    hint: str | None
    notes: Sequence[str]
    line: int
    column: int
    endLine: int
    endColumn: int


class PodNumbers(msgspec.Struct, frozen=True):
    """The numbers of pods in the status of a policy object, which the leader writes.

    Of the `matchedPods`, `placedPods` are on the nodes of its share, `targetPods` are wanted there,
    and `violations` are beyond the bounds. Null where there is no such number.
    """

    matchedPods: int | None = None
    placedPods: int | None = None
    targetPods: int | None = None
    violations: int | None = None


class PolicyEdit(msgspec.Struct, frozen=True):
    """An edit of a policy: when, and by whom as far as the object or the replica can tell."""

    address: str
    at: str
    by: str
    action: OneOf["edited", "deleted"]


class PolicySummary(msgspec.Struct, frozen=True, kw_only=True):
    """A policy in short. `namespace` is null for a cluster policy.

    Of a file that cannot be read as policies, `address` is its name. `origin` is the file, or the
    object as `placementpolicies/NAMESPACE/NAME`. `inForce` is null for a policy that is not in
    force, or made for `use` alone. `overruledBy` are policies that governed pods which this one
    selects too, in decisions that are kept. `selected` is the number of pods of the cluster, of
    which so many are `waiting`; both are null where it decides nothing. `edit` is the last one that
    is known.
    """

    address: str
    description: str
    namespace: str | None
    origin: str
    state: State
    inForce: PolicyInForce | None
    errors: int
    warnings: int
    overruledBy: Sequence[str]
    pods: PodNumbers
    selected: int | None
    waiting: int | None
    edit: PolicyEdit | None


class PolicyList(msgspec.Struct, frozen=True):
    """The policies that a replica knows, in the order of their addresses."""

    replica: str
    at: str
    policies: Sequence[PolicySummary]


class SelectedPod(msgspec.Struct, frozen=True):
    """A pod that a policy selects; `node` is null while it waits."""

    pod: str
    node: str | None


class PolicyDetail(PolicySummary, frozen=True, kw_only=True):
    """A policy in full. `text` is its file, or its object as YAML.

    `audit` is null for a policy that is not in audit mode. `listed` are the first of the selected
    pods, those that wait before others. `exactly` is false where the policy reads more of a pod
    than is known of one that is there, so that some may be too many.
    """

    replica: str
    text: str
    diagnostics: Sequence[Problem]
    audit: PolicyAudits | None = None
    exactly: bool
    listed: Sequence[SelectedPod]


def problems(found: Iterable[Diagnostic], position: Position) -> Sequence[Problem]:
    return [
        Problem(
            *(each.code, each.severity, each.message, each.hint, each.notes),
            *position(each.span.start),
            *position(each.span.end),
        )
        for each in found
    ]


# ---- drafts


MOST_TEXT = 256 * 1024
MOST_CLUSTER = 4 * 1024 * 1024


class DraftText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A text of policies, as in a file; the `name` of a manifest ends in `.yaml`."""

    text: Annotated[str, Meta(max_length=MOST_TEXT)]
    name: Annotated[str, Meta(max_length=253)] = "draft.policy"


class PastedPod(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A pasted pod: manifests of pods and workloads, and a node to be shown in full.

    `pod` is the one that is asked about, as a simulation names it; without it the first one.
    """

    text: Annotated[str, Meta(max_length=MOST_TEXT)]
    pod: Annotated[str, Meta(max_length=512)] | None = None
    node: Annotated[str, Meta(max_length=253)] | None = None


class CheckedDraft(msgspec.Struct, frozen=True):
    """What `placet check` says of a draft."""

    diagnostics: Sequence[Problem]


class Point(DraftText, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A point in a draft: `offset` counts the characters before it."""

    offset: Annotated[int, Meta(ge=0, le=MOST_TEXT)]


class CompletedDraft(msgspec.Struct, frozen=True):
    """The completed draft: each candidate replaces the text from its `start` on."""

    candidates: Sequence[Candidate]


class Trial(DraftText, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A trial of a draft on a cluster: the content of a cluster file, in YAML or JSON.

    Without a file, the cluster is that of the server now.
    """

    cluster: Annotated[str, Meta(max_length=MOST_CLUSTER)] | None = None


class ChangedPod(msgspec.Struct, frozen=True):
    """A pod whose answer changes. `before` and `after` are the numbers of nodes that pass.

    `on` is its node, null for a pod that waits. `admits` and `rejects` are the nodes whose verdict
    changes, at most 20 of each. The best node is that with most points, the first by name of
    several; none if all have the same. An `error` says why there is no decision with the draft.
    """

    pod: str
    on: str | None
    before: int
    after: int
    admits: Sequence[str]
    rejects: Sequence[str]
    bestBefore: str | None
    bestAfter: str | None
    error: str | None


class TriedDraft(msgspec.Struct, frozen=True):
    """The tried draft: the changes with its policies, which replace namesakes or join the others.

    Nothing is tried if there are errors. The cluster has so many `nodes` and `pods`; so many pods
    were `asked` about, those without a node first. `effects` are those of the draft's policies.
    """

    diagnostics: Sequence[Problem]
    nodes: int
    pods: int
    asked: int
    changed: Sequence[ChangedPod]
    effects: Sequence[EffectOfPolicy] = ()


# ---- the whole cluster


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


class ReplicaOverview(msgspec.Struct, frozen=True, kw_only=True):
    """The overview of a replica. `pods` have a node, and `waiting` have none.

    `edits` has the last ones, the newest first.
    """

    replica: str
    at: str
    nodes: NodesInShort
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


# ---- numbers over time


class NumberHistory(msgspec.Struct, frozen=True):
    """Numbers over time, by series. `times` are in seconds since 1970.

    A series has a number for each time, null where there is none: `waiting pods`, `rejected nodes`
    of a minute, `rejected POLICY: CLAUSE` of the ten clauses that rejected most nodes in the
    minute, `p99 VERB` in seconds of a minute, and `full POLICY: CLAUSE` in percent. Of more than
    720 samples the largest number of some stands for them. Without `kept` it began with the
    replica, and ends with it.
    """

    replica: str
    kept: bool
    times: Sequence[int]
    series: Mapping[str, Sequence[float | None]]


# ---- simulations

# The most nodes of a question that go, and the pods of it.
MOST_DRAINED, MOST_PODS = 100, 1000
_Name = Annotated[str, Meta(min_length=1, max_length=512)]


class SimulationQuestion(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A simulation of pods that are placed in turn, by the policies in force, on the cluster now.

    `pods` are pods and workloads, as a text in YAML or JSON or as a list of objects. `namespace` is
    that of objects without one. Without `pods` they are those that leave drained nodes, or, if no
    node is drained, those of the cluster that wait: of the namespace, or of all if it is empty.
    `drain` names nodes, which take no pods. `weight` is that of the extender in kube-scheduler's
    configuration. `pluginScores` says whether kube-scheduler's own score counts.
    """

    pods: str | list[dict[str, Any]] | None = None
    namespace: Annotated[str, Meta(max_length=63)] = ""
    addNodes: Annotated[Sequence[NodesToAdd], Meta(max_length=20)] = ()
    drain: Annotated[Sequence[_Name], Meta(max_length=MOST_DRAINED)] = ()
    weight: Annotated[int, Meta(ge=1, lt=2**31)] = 1
    pluginScores: bool = True

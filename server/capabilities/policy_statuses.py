"""Policy statuses: what the status of each policy object says, and how the leader writes it.

A status is made of parts, and each part stands beside its topic.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, cycle, islice
from typing import Any, Literal

import msgspec

from engine.cache.cache import Cache
from engine.cache.node_table import Snapshot
from engine.cache.policy_objects import namespace_of
from engine.cache.tallies import Scope
from engine.cluster.client import Api, patch, path_of
from engine.counting.count_clauses import PodCounts, ShareStatus
from engine.enforced import EnforcedPolicies
from engine.errors import ApiError, DeadlineExceededError, ExpensivePolicyError
from engine.fairness import in_turns
from engine.objects.peer import Peer
from engine.program.frame import Evaluation, Frame
from engine.program.program import Program
from grammar.clauses.share import Share
from grammar.messages.texts import cut
from grammar.tree.ast import Expr
from grammar.tree.clause_parts import Bound
from grammar.tree.policy import Policy, Setting, of_kind
from grammar.tree.printer import print_expression
from grammar.values.maps import EMPTY_RECORD
from grammar.values.time import Timestamp
from policies.admission import CheckedObject, lines
from policies.resource import (
    ClusterSpec,
    Manifest,
    Metadata,
    PolicyStatus,
    StatusCondition,
    VersionInForce,
)
from policies.sugar import CLAUSE, matches
from policies.validation import CheckedFile

GROUP_PATH = "/apis/placement-policy.scheduling.x-k8s.io/v1"
_MOST_LINES, _MOST_TEXT = 64, 1024
# The objects about which nothing is new that are reported at a time.
_A_TURN = 250

EXPENSIVE = "it takes too much time to evaluate: its pods wait while it does"
UNMET = (
    "share `{}` cannot be met now: pods wait, and no node that kube-scheduler offers keeps to it"
)
# The status, reason and message of a condition.
Outcome = tuple[Literal["True", "False"], str, str]


@dataclass(frozen=True, slots=True)
class Outcomes:
    """The outcomes of decisions, by the addresses of policies; conflicts by names of objects.

    `expensive` are the policies that had no time lately, and `unmet` has the share for whose nodes
    pods wait. A conflict is a text about the policy that governs the pods instead.
    """

    conflicts: Mapping[str, str] = field(default_factory=dict)
    expensive: Collection[str] = ()
    unmet: Mapping[str, str] = field(default_factory=dict)


class PodSelection:
    """The selection of pods by the `podSelector` and `namespaceSelector` of an object.

    `version` is another one where other pods are selected.
    """

    def __init__(self, manifest: Manifest, cache: Cache) -> None:
        spec, metadata = manifest.spec, manifest.metadata
        is_cluster = isinstance(spec, ClusterSpec)
        self.scope = Scope(None if is_cluster else metadata.namespace)
        self._selector = spec.podSelector
        self._inside: frozenset[str] | None = None
        if isinstance(spec, ClusterSpec) and (among := spec.namespaceSelector) is not None:
            known = cache.namespaces()
            self._inside = frozenset(each.name for each in known if matches(among, each.labels))
        self.version = (metadata.uid, metadata.generation, self._inside)

    def has(self, pod: Peer) -> bool:
        """Whether a pod of the scope is selected."""
        if self._inside is not None and pod.namespace not in self._inside:
            return False
        return pod.deletionTimestamp is None and matches(self._selector, pod.labels)


@dataclass(slots=True)
class ReportedPolicy:
    """A policy object and its new status, to which each part adds `fields` and `conditions`.

    `written` is the status that it has. Without a policy in force there is no `program` and no
    `address`, and without a valid manifest no `selection`.
    """

    name: str
    checked: CheckedObject
    file: CheckedFile
    metadata: Metadata
    written: PolicyStatus
    program: Program | None
    selection: PodSelection | None
    snapshot: Snapshot
    fields: dict[str, Any] = field(default_factory=dict)
    conditions: dict[str, Outcome] = field(default_factory=dict)

    @property
    def address(self) -> str:
        return self.program.address if self.program is not None else ""

    @property
    def status(self) -> PolicyStatus:
        generation = self.metadata.generation
        conditions = (
            StatusCondition(kind, status, reason, cut(text, _MOST_TEXT), "", generation)
            for kind, (status, reason, text) in self.conditions.items()
        )
        return PolicyStatus(
            observedGeneration=generation, conditions=tuple(conditions), **self.fields
        )


StatusPart = Callable[[ReportedPolicy], None]
# A topic is asked before each round for its part of every status.
StatusTopic = Callable[[], StatusPart]


@dataclass(frozen=True, slots=True)
class Reported:
    """Reported policy object, with the written and the wanted status.

    `name` is the object's in the cache, and `path` that of the API server.
    """

    name: str
    path: str
    resource_version: str
    written: PolicyStatus
    wanted: PolicyStatus


class Statuses:
    """The statuses of policy objects, from the enforced policies and the pods of the cluster."""

    def __init__(
        self,
        cache: Cache,
        portion: Callable[[Frame], Evaluation],
        topics: Sequence[StatusTopic] = (),
        *,
        binds: bool = True,
    ) -> None:
        """`portion` gives the context of what nobody waits for. `binds`: there is a verb bind."""
        self._cache = cache
        self._portion = portion
        self._topics = topics
        self._binds = binds
        # By the name of an object, what its last report was made of, counts aside.
        self._seen: dict[str, tuple[object, ...]] = {}
        # How many objects have had their turn.
        self._turns = 0
        # By the name of an object: its version and program, and their counts.
        self._kept: dict[str, tuple[object, ShareStatus, PodCounts | None]] = {}

    @property
    def beyond_bounds(self) -> Mapping[str, int]:
        """The pods beyond the bounds of each policy that has some, as counted last."""
        last = {name.partition("/")[2]: counts for name, (_, _, counts) in self._kept.items()}
        return {name: c.violations for name, c in last.items() if c is not None and c.violations}

    def reports(
        self,
        enforced: EnforcedPolicies,
        objects: Mapping[str, bytes],
        snapshot: Snapshot,
        outcomes: Outcomes | None = None,
    ) -> Iterator[Reported]:
        """The reports of objects.

        Objects with news are there, and some of the rest in turn, whose numbers may have changed.
        An object that has changed since it was read is left out.
        """
        known = outcomes or Outcomes()
        for gone in self._seen.keys() - enforced.objects.keys():
            self._kept.pop(gone, None)
            del self._seen[gone]
        again = self._in_turn(enforced.objects)
        files = {file.source.name: file for file in enforced.validation.files}
        at_bind = partial(_work_at_bind, binds=self._binds)
        own: Sequence[StatusPart] = (self._count, _effect, at_bind)
        parts = (*own, *(topic() for topic in self._topics))
        for name, checked in enforced.objects.items():
            if (raw := objects.get(name)) is None:
                continue
            program, file = enforced.programs.get(name), files.get(name, checked.file)
            decided = _decided(name, program, known)
            seen = raw, file, program, *decided.values()
            if name not in again and self._seen.get(name) == seen:
                continue
            self._seen[name] = seen
            metadata, written = reported(raw)
            manifest = checked.manifest
            if manifest is not None and manifest.metadata.generation != metadata.generation:
                continue
            selection = PodSelection(manifest, self._cache) if manifest is not None else None
            policy = ReportedPolicy(
                name, checked, file, metadata, written, program, selection, snapshot
            )
            _readiness(policy, enforced, decided)
            for part in parts:
                part(policy)
            version = metadata.resourceVersion
            yield Reported(name, object_path(name), version, written, policy.status)

    def _in_turn(self, objects: Collection[str]) -> frozenset[str]:
        """The objects whose turn it is."""
        if len(objects) <= _A_TURN:
            return frozenset(objects)
        first = self._turns % len(objects)
        self._turns = first + _A_TURN
        return frozenset(islice(cycle(objects), first, first + _A_TURN))

    def _count(self, policy: ReportedPolicy) -> None:
        """The counts now; the last ones, or None, where there was not time enough for them."""
        name, program, selection = policy.name, policy.program, policy.selection
        if selection is None:
            return
        version = (*selection.version, id(program))
        kept = self._kept.get(name)
        if kept is None or kept[0] != version:
            counts = program.counts if program is not None else ()
            # The share that the declarative part of an object is compiled to.
            own = next((c for c in counts if c.kind == "share" and c.count.name == CLAUSE), None)
            share_status = ShareStatus(("status", version), selection.scope, selection.has, own)
            kept = self._kept[name] = version, share_status, None
        slots = program.slots if program is not None else 0
        frame = Frame(EMPTY_RECORD, Timestamp.now(), slots=slots)
        _, share_status, counted = kept
        with suppress(DeadlineExceededError, ExpensivePolicyError):
            counted = share_status.count(self._cache, policy.snapshot, self._portion(frame))
            self._kept[name] = version, share_status, counted
        if counted is not None:
            policy.fields["matchedPods"] = counted.matched
            policy.fields["placedPods"] = counted.placed
            policy.fields["targetPods"] = counted.target
            policy.fields["violations"] = counted.violations


class _ReportedObject(msgspec.Struct):
    metadata: Metadata
    status: msgspec.Raw = msgspec.Raw(b"{}")


def reported(raw: bytes) -> tuple[Metadata, PolicyStatus]:
    """The metadata and status of an object; a status in another format counts as empty."""
    policy = msgspec.json.decode(raw, type=_ReportedObject)
    try:
        return policy.metadata, msgspec.json.decode(policy.status, type=PolicyStatus)
    except msgspec.MsgspecError:
        return policy.metadata, PolicyStatus()


def object_path(name: str) -> str:
    """The API path of the object `placementpolicies/shop/web`."""
    resource, _, key = name.partition("/")
    namespace, _, short = key.rpartition("/")
    return path_of(GROUP_PATH, resource, namespace, short)


# ---- the parts of every policy


def _readiness(
    policy: ReportedPolicy, enforced: EnforcedPolicies, decided: Mapping[str, Outcome]
) -> None:
    """The part in force of an object, its mistakes, and the outcome of decisions."""
    manifest, errors = policy.checked.manifest, lines(policy.file, "error")
    good = policy.checked.holds and not errors
    in_force = policy.written.inForce
    if good and manifest is not None:
        spec = manifest.spec
        in_force = VersionInForce(policy.metadata.generation, spec.rules or "", spec.parameters)
    first = errors[0] if errors else ""
    compiled: Outcome = ("True", "Compiled", "nothing is wrong with it")
    ready: Outcome = ("True", "InForce", "it is in force as it is written")
    if not good or policy.program is None:
        reason = "NotInForce" if policy.program is None else "LastGoodInForce"
        instead = enforced.instead_of(policy.name, policy.name.partition("/")[2])
        ready = ("False", reason, f"{instead}: {first}" if first else instead)
    policy.conditions["Ready"] = ready
    policy.conditions["Compiled"] = compiled if good else ("False", "Errors", first)
    policy.conditions |= decided
    source = next((each.policy for each in policy.file.policies), None)
    texts = tuple(line[:_MOST_TEXT] for line in (*errors, *lines(policy.file, "warning")))
    policy.fields["inForce"] = in_force
    policy.fields["mode"] = _mode(source)[:64] if source is not None else ""
    policy.fields["target"] = cut(_target(source), 256) if source is not None else ""
    policy.fields["diagnostics"] = texts[:_MOST_LINES]


def _decided(name: str, program: Program | None, known: Outcomes) -> Mapping[str, Outcome]:
    """The conditions that decisions have shown."""
    address = program.address if program is not None else ""
    conflict, unmet = known.conflicts.get(name, ""), known.unmet.get(address, "")
    quiet = "no other policy was seen to govern pods that it selects"
    met = "no pod waits for the nodes of a share"
    cheap = "its evaluation takes the time that it may take"
    return {
        "Conflicting": condition("Overruled", conflict, quiet),
        "Unmet": condition("NoNode", UNMET.format(unmet) if unmet else "", met),
        "Expensive": condition(
            "TooMuchTime", EXPENSIVE if address in known.expensive else "", cheap
        ),
    }


def condition(reason: str, text: str, otherwise: str) -> Outcome:
    """A condition that is true for this reason if there is a text about it."""
    return ("True", reason, text) if text else ("False", "None", otherwise)


def _effect(policy: ReportedPolicy) -> None:
    """Whether a policy selects no pod."""
    if policy.program is not None:
        text = "its selector selects none of the pods that there are"
        is_idle = policy.fields.get("matchedPods") == 0
        policy.conditions["NoEffect"] = condition(
            "SelectsNoPod", text if is_idle else "", "it selects pods"
        )


# ---- the part of policies with work at bind

# What a server without the verb bind needs for such a policy.
TO_BIND = "serve with `--bind`, and set the extender's `bindVerb`"


def _work_at_bind(policy: ReportedPolicy, *, binds: bool) -> None:
    """Whether the work that a policy does at bind is done.

    Without bind, the policy is not ready either: `kubectl get` shows the reason of that.
    """
    work = policy.program.binding_work if policy.program is not None else ""
    if not work:
        return
    text = "" if binds else f"it {work} at bind: {TO_BIND}"
    policy.conditions["NoBinder"] = condition(
        "ServedWithoutBind", text, f"it {work} at bind, which is served"
    )
    if text and policy.conditions["Ready"][0] == "True":
        policy.conditions["Ready"] = ("False", "NoBinder", text)


# Another version of the object will come, or none.
_CHANGED = {404, 409}
# The API server does not take this object, whoever else is written.
_INVALID = {400, 413, 422}


async def write(api: Api, reports: Iterable[Reported], now: str) -> None:
    """Write every status that has changed, in turns by namespace.

    After a conflict the object is left for the next call, which has its newest version. An object
    that the API server refuses keeps no other from its status. Raises ApiError, also for the first
    refused object at the end, and ApiUnreachableError.
    """
    refused: ApiError | None = None
    for report in chain.from_iterable(in_turns(reports, lambda each: namespace_of(each.name))):
        wanted = with_times(report.wanted, report.written, now)
        if wanted == report.written:
            continue
        try:
            await patch(api, f"{report.path}/status", _change(report, wanted))
        except ApiError as error:
            if error.status in _INVALID:
                refused = refused or error
            elif error.status not in _CHANGED:
                raise
    if refused is not None:
        raise refused


def with_times(wanted: PolicyStatus, written: PolicyStatus, now: str) -> PolicyStatus:
    """The wanted status, each condition with the time when its `status` last changed."""
    known = {condition.type: condition for condition in written.conditions}

    def timed(condition: StatusCondition) -> StatusCondition:
        before = known.get(condition.type)
        same = before is not None and before.status == condition.status
        time = before.lastTransitionTime if same and before is not None else now
        return msgspec.structs.replace(condition, lastTransitionTime=time)

    return msgspec.structs.replace(wanted, conditions=tuple(map(timed, wanted.conditions)))


def _change(report: Reported, wanted: PolicyStatus) -> Mapping[str, object]:
    """A merge patch, in which null removes a field."""
    before: Mapping[str, Any] = msgspec.to_builtins(report.written)
    after: Mapping[str, Any] = msgspec.to_builtins(wanted)
    status = {**dict.fromkeys(before), **after}
    metadata = {"resourceVersion": report.resource_version}
    return {"metadata": metadata, "status": status}


# ---- what a policy does, in two words of a table
#
# What an object sets, such as its `enforcementMode`, concerns only a part of it.


def _mode(policy: Policy) -> str:
    """`Strict`, `BestEffort`, both, or `Audit`; empty without a clause."""
    settings = (item for item in policy.items if isinstance(item, Setting))
    if any(s.name == "mode" and s.value == "audit" for s in settings):
        return "Audit"
    strict = any(c.verb != "prioritize" for c in policy.clauses)
    prefers = any(c.points_weight is not None for c in policy.clauses)
    return "+".join(["Strict"] * strict + ["BestEffort"] * prefers)


def _target(policy: Policy) -> str:
    """`at most 40%` of a share, and the other clauses by their kinds: `filter, 2 scores`."""
    shares = [*of_kind(policy.items, Share)]
    kinds = Counter(c.keyword for c in policy.clauses if c not in shares)
    others = (kind if n == 1 else f"{n} {kind.removesuffix('s')}s" for kind, n in kinds.items())
    return ", ".join((*(_bound(share.bound) for share in shares), *others))


def _bound(bound: Bound) -> str:
    amount = bound.amount
    number = print_expression(amount) if isinstance(amount, Expr) else f"{amount:g}"
    return f"{bound.kind} {number}{'%' if bound.percent else ''}"

"""Policy statuses: what the status of each policy object says, as the leader writes it."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import cycle, islice
from types import MappingProxyType
from typing import Literal

import msgspec

from engine.cache.cache import Cache
from engine.cache.node_table import Snapshot
from engine.cache.tallies import Scope
from engine.cluster.client import path_of
from engine.cluster.status_writer import Reported
from engine.counting.in_flight_pods import Schedulers
from engine.counting.share_status import PodCounts, ShareStatus
from engine.drift.drift_document import PolicyRepair
from engine.enforced import EnforcedPolicies
from engine.errors import DeadlineExceededError, ExpensivePolicyError
from engine.gangs.gang import GangStatus
from engine.objects.gate import ENABLED, GATE, OPT_IN
from engine.objects.peer import Peer
from engine.objects.request_pod import Exemptions, form_versions
from engine.portable.portable_clauses import ClauseVerdict
from engine.program.frame import Evaluation, Frame
from engine.program.program import Program, ShareProgram
from engine.program.tables import SourceStatus
from grammar.messages.texts import cut
from grammar.tree.ast import Expr
from grammar.tree.clause_parts import Bound
from grammar.tree.clauses import Policy, Setting, Share, of_kind
from grammar.tree.printer import print_expression
from grammar.values.maps import EMPTY_RECORD
from grammar.values.time import SECOND, Timestamp
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
from server.runtime.audit_reporting import AuditStatuses
from server.runtime.early_pods import EarlyPods
from server.runtime.reloader import TO_BIND

GROUP_PATH = "/apis/placement-policy.scheduling.x-k8s.io/v1"
_MOST_LINES, _MOST_TEXT = 64, 1024
# The objects about which nothing is new that are reported at a time.
_A_TURN = 250

EXPENSIVE = "it takes too much time to evaluate: its pods wait while it does"

UNMET = (
    "share `{}` cannot be met now: pods wait, and no node that kube-scheduler offers keeps to it"
)

UNGATED = (
    f"pods that it selects were created without `{GATE}`, so kube-scheduler did not ask about "
    f"them: label their namespaces with `{OPT_IN}={ENABLED}`, and create the pods again"
)
WITHOUT_MARKER = (
    f"the pod was created without `{GATE}`, so kube-scheduler does not ask about it: label the "
    f"namespace with `{OPT_IN}={ENABLED}`, and create the pod again"
)

# There is no event about a pod that is older than this when a watch first shows it: after a start,
# or with the first use of the gate, these are all pods.
_NEW_SECONDS = 60.0
_MOST_NEW = 1000

# What others can be told of a policy, by clause.
PortabilityOf = Callable[[Program], Sequence[ClauseVerdict]]
# The pods that break clauses of a policy by their kinds, by address; None while that is not known.
DriftOf = Callable[[], Mapping[str, Mapping[str, int]] | None]
# The repairs of policies that have some.
RepairsOf = Callable[[], Iterable[PolicyRepair]]
_READY = ("Ready", "True")
# The status, reason and message of a condition.
_Outcome = tuple[Literal["True", "False"], str, str]


class _ReportedObject(msgspec.Struct):
    metadata: Metadata
    status: msgspec.Raw = msgspec.Raw(b"{}")


class UngatedPods:
    """The pods that were created without the marker, and the new ones among them.

    kube-scheduler does not ask about these pods. On one event loop.
    """

    def __init__(
        self,
        schedulers: Schedulers,
        exemptions: Callable[[], Exemptions],
        now: Callable[[], Timestamp] = Timestamp.now,
    ) -> None:
        self._schedulers = schedulers
        self._exemptions = exemptions
        self._now = now
        self._new: deque[Peer] = deque(maxlen=_MOST_NEW)

    @property
    def exemptions(self) -> Exemptions:
        """No policy decides about these pods, so they need no marker."""
        return self._exemptions()

    def among(self, selects: Callable[[Peer], bool]) -> Callable[[Peer], bool]:
        """Whether a pod is ungated, and selected."""
        pass_by, exempts = self._schedulers.pass_by, self.exemptions.exempts
        return lambda pod: pass_by(pod) and selects(pod) and not exempts(pod)

    def pod_changed(self, old: Peer | None, new: Peer | None, _revision: int) -> None:
        """Takes a change of the cache."""
        if old is not None or new is None or new.created is None:
            return
        age = (self._now().nanos - new.created.nanos) / SECOND
        if age < _NEW_SECONDS and self.among(lambda _: True)(new):
            self._new.append(new)

    def take_new(self) -> Sequence[Peer]:
        """The new ungated pods since the last call; of too many, the last ones."""
        found = list(self._new)
        self._new.clear()
        return found


class Statuses:
    """The statuses of policy objects, from the enforced policies and the pods of the cluster."""

    def __init__(
        self,
        cache: Cache,
        portion: Callable[[Frame], Evaluation],
        ungated: UngatedPods | None = None,
        portability: PortabilityOf | None = None,
        gangs: Callable[[], Iterable[GangStatus]] = tuple,
        sources: Callable[[], Iterable[SourceStatus]] = tuple,
        audits: AuditStatuses | None = None,
        early: EarlyPods | None = None,
        drift: DriftOf = lambda: None,
        repairs: RepairsOf = tuple,
        *,
        binds: bool = True,
    ) -> None:
        """`portion` gives the context of evaluations for which nobody waits.

        `ungated` are counted where kube-scheduler asks only about marked pods. `portability` says
        what of a portable policy others are told. `gangs` gives those that wait or gather, and
        `sources` how those of tables of data do. `audits` says what policies in audit mode would
        have done, and `early` counts pods that were placed before their policy. `drift` has the
        pods that break clauses now, and `repairs` what is done about them. `binds` says that this
        server has the verb bind.
        """
        self._repairs = repairs
        self._drift = drift
        self._gangs = gangs
        self._sources = sources
        self._audits = audits
        self._early = early
        self._binds = binds
        self._portability = portability
        self._cache = cache
        self._portion = portion
        self._ungated = ungated
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
        conflicts: Mapping[str, str],
        expensive: Collection[str],
        snapshot: Snapshot,
        unmet: Mapping[str, str] = MappingProxyType({}),
    ) -> Iterator[Reported]:
        """The reports of objects; `conflicts` are by the names of the objects.

        They are those about which something is new, and some of the others in turn, whose numbers
        may be others.

        `expensive` has the addresses of policies that had no time lately, and `unmet`, by the
        address of a policy, its share for whose nodes pods wait.

        An object that has changed since it was read is left out.
        """
        for gone in self._seen.keys() - enforced.objects.keys():
            self._kept.pop(gone, None)
            del self._seen[gone]
        again = self._in_turn(enforced.objects)
        files = {file.source.name: file for file in enforced.validation.files}
        sources = {source.digest: source for source in self._sources()}
        gangs = Counter((gang.policy, gang.state) for gang in self._gangs())
        drift = self._drift()
        repairs = {each.policy: each for each in self._repairs()}
        for name, checked in enforced.objects.items():
            if name not in objects:
                continue
            manifest = checked.manifest
            program, file = enforced.programs.get(name), files.get(name, checked.file)
            conflict = conflicts.get(name, "")
            is_expensive = program is not None and program.address in expensive
            share = unmet.get(program.address, "") if program is not None else ""
            seen = objects[name], file, program, conflict, is_expensive, share
            if name not in again and self._seen.get(name) == seen:
                continue
            self._seen[name] = seen
            metadata, written = reported(objects[name])
            if manifest is not None and manifest.metadata.generation != metadata.generation:
                continue
            wanted = _status(
                checked,
                file,
                written,
                metadata,
                program,
                conflict,
                partial(enforced.instead_of, name),
                share,
                is_expensive=is_expensive,
            )
            counts = (
                self._counts(name, manifest, program, snapshot) if manifest is not None else None
            )
            if counts is not None:
                wanted = msgspec.structs.replace(
                    wanted,
                    matchedPods=counts.matched,
                    placedPods=counts.placed,
                    targetPods=counts.target,
                    violations=counts.violations,
                )
            if program is not None:
                wanted = _with_effect(wanted)
            if program is not None and program.gangs:
                wanted = msgspec.structs.replace(
                    wanted,
                    waitingGangs=gangs[program.address, "waiting"],
                    gatheringGangs=gangs[program.address, "gathering"],
                    givenUpGangs=gangs[program.address, "given up"],
                )
            if program is not None and drift is not None:
                wanted = _with_drift(wanted, drift.get(program.address, {}))
            if program is not None and (repair := repairs.get(program.address)) is not None:
                wanted = _with_repair(wanted, repair)
            if manifest is not None and self._ungated is not None:
                wanted = _with_ungated(wanted, self._passed_by(name, manifest, self._ungated))
            if manifest is not None and program is not None and not program.audit:
                early = self._early_pods(program.address, manifest, metadata, written, snapshot)
                wanted = msgspec.structs.replace(wanted, earlyPods=early)
            if program is not None and self._audits is not None:
                audit = self._audits.of(program, metadata, written)
                wanted = msgspec.structs.replace(wanted, audit=audit)
            if program is not None and program.binding_work:
                wanted = _with_binder(wanted, program.binding_work, binds=self._binds)
            if program is not None and program.tables:
                wanted = _with_sources(wanted, [sources.get(t.digest) for t in program.tables])
            if manifest is not None and program is not None and self._portability is not None:
                wanted = self._with_portability(wanted, name, manifest, program, self._portability)
            yield Reported(object_path(name), metadata.resourceVersion, written, wanted)

    def _in_turn(self, objects: Collection[str]) -> frozenset[str]:
        """The objects whose turn it is."""
        if len(objects) <= _A_TURN:
            return frozenset(objects)
        first = self._turns % len(objects)
        self._turns = first + _A_TURN
        return frozenset(islice(cycle(objects), first, first + _A_TURN))

    def _counts(
        self, name: str, manifest: Manifest, program: Program | None, snapshot: Snapshot
    ) -> PodCounts | None:
        """The counts now; the last ones, or None, where there was not time enough for them."""
        metadata = manifest.metadata
        version = (metadata.uid, metadata.generation, id(program), self._namespaces(manifest))
        kept = self._kept.get(name)
        if kept is None or kept[0] != version:
            counts = self.selects(manifest)
            share_status = ShareStatus(
                ("status", version), scope_of(manifest), counts, _share(program)
            )
            kept = self._kept[name] = version, share_status, None
        slots = program.slots if program is not None else 0
        frame = Frame(EMPTY_RECORD, Timestamp.now(), slots=slots)
        _, share_status, counted = kept
        with suppress(DeadlineExceededError, ExpensivePolicyError):
            counted = share_status.count(self._cache, snapshot, self._portion(frame))
            self._kept[name] = version, share_status, counted
        return counted

    def _passed_by(self, name: str, manifest: Manifest, ungated: UngatedPods) -> int:
        """The ungated pods that a policy selects."""
        metadata, inside = manifest.metadata, self._namespaces(manifest)
        version = (name, metadata.uid, metadata.generation, inside, ungated.exemptions)
        tally = self._cache.tallies.get(
            ("ungated", version), scope_of(manifest), ungated.among(self.selects(manifest))
        )
        return tally.placed + len(tally.waiting)

    def _with_portability(
        self,
        status: PolicyStatus,
        name: str,
        manifest: Manifest,
        program: Program,
        portability: PortabilityOf,
    ) -> PolicyStatus:
        """The status with what others are told of a portable policy."""
        if not program.source.policy.portable:
            return status
        outcome = _told(portability(program))
        condition = StatusCondition("Portable", *outcome, "", status.observedGeneration)
        selects, address, digest = self.selects(manifest), program.address, program.digest

        def is_outdated(pod: Peer) -> bool:
            told = form_versions(pod.annotations).get(address, digest)
            return told != digest and selects(pod)

        version = (name, manifest.metadata.uid, digest, self._namespaces(manifest))
        tally = self._cache.tallies.get(("outdated", version), scope_of(manifest), is_outdated)
        return msgspec.structs.replace(
            status, conditions=(*status.conditions, condition), outdatedPods=len(tally.waiting)
        )

    def _early_pods(
        self,
        address: str,
        manifest: Manifest,
        metadata: Metadata,
        written: PolicyStatus,
        snapshot: Snapshot,
    ) -> int | None:
        """The pods that were placed before the policy was in force."""
        if self._early is None:
            return None
        scope, selects = scope_of(manifest), self.selects(manifest)
        return self._early.count(
            address,
            metadata,
            written,
            snapshot.pods,
            lambda pod: scope.holds(pod) and selects(pod),
        )

    def _namespaces(self, manifest: Manifest) -> frozenset[str] | None:
        """The namespaces that a cluster policy selects; None without a namespace selector."""
        if not isinstance(manifest.spec, ClusterSpec) or manifest.spec.namespaceSelector is None:
            return None
        selector = manifest.spec.namespaceSelector
        known = self._cache.namespaces()
        return frozenset(each.name for each in known if matches(selector, each.labels))

    def selects(self, manifest: Manifest) -> Callable[[Peer], bool]:
        """Whether the `podSelector` and `namespaceSelector` of an object select a pod."""
        selector, inside = manifest.spec.podSelector, self._namespaces(manifest)

        def counts(pod: Peer) -> bool:
            if inside is not None and pod.namespace not in inside:
                return False
            return pod.deletionTimestamp is None and matches(selector, pod.labels)

        return counts


def scope_of(manifest: Manifest) -> Scope:
    is_cluster = isinstance(manifest.spec, ClusterSpec)
    return Scope(None if is_cluster else manifest.metadata.namespace)


def reported(raw: bytes) -> tuple[Metadata, PolicyStatus]:
    """The metadata and status of an object; a status in another format counts as empty."""
    policy = msgspec.json.decode(raw, type=_ReportedObject)
    try:
        return policy.metadata, msgspec.json.decode(policy.status, type=PolicyStatus)
    except msgspec.MsgspecError:
        return policy.metadata, PolicyStatus()


def _status(
    checked: CheckedObject,
    file: CheckedFile,
    written: PolicyStatus,
    metadata: Metadata,
    program: Program | None,
    conflict: str,
    instead: Callable[[], str],
    unmet: str,
    *,
    is_expensive: bool,
) -> PolicyStatus:
    """The status of an object without its counts; `instead` says what holds where it has errors.

    `unmet` is the share for whose nodes pods wait.
    """
    errors = lines(file, "error")
    good = checked.holds and not errors
    in_force = written.inForce
    if good and checked.manifest is not None:
        spec = checked.manifest.spec
        in_force = VersionInForce(metadata.generation, spec.rules or "", spec.parameters)
    first = errors[0] if errors else ""
    because = f": {first}" if first else ""
    ready: _Outcome
    if program is None:
        ready = ("False", "NotInForce", f"{instead()}{because}"[:_MOST_TEXT])
    elif good:
        ready = ("True", "InForce", "it is in force as it is written")
    else:
        ready = ("False", "LastGoodInForce", f"{instead()}{because}"[:_MOST_TEXT])
    outcomes: Mapping[str, _Outcome] = {
        "Ready": ready,
        "Compiled": (
            ("True", "Compiled", "nothing is wrong with it") if good else ("False", "Errors", first)
        ),
        "Conflicting": (
            ("True", "Overruled", conflict)
            if conflict
            else ("False", "None", "no other policy was seen to govern pods that it selects")
        ),
        "Unmet": (
            ("True", "NoNode", UNMET.format(unmet))
            if unmet
            else ("False", "None", "no pod waits for the nodes of a share")
        ),
        "Expensive": (
            ("True", "TooMuchTime", EXPENSIVE)
            if is_expensive
            else ("False", "None", "its evaluation takes the time that it may take")
        ),
    }
    policy = next((each.policy for each in file.policies), None)
    texts = tuple(line[:_MOST_TEXT] for line in (*errors, *lines(file, "warning")))
    return PolicyStatus(
        observedGeneration=metadata.generation,
        conditions=tuple(
            StatusCondition(kind, *outcome, "", metadata.generation)
            for kind, outcome in outcomes.items()
        ),
        inForce=in_force,
        mode=_mode(policy)[:64] if policy is not None else "",
        target=cut(_target(policy), 256) if policy is not None else "",
        diagnostics=texts[:_MOST_LINES],
    )


def _with_effect(status: PolicyStatus) -> PolicyStatus:
    """The status with the condition of a policy that selects no pod."""
    outcome: _Outcome = ("False", "None", "it selects pods")
    if status.matchedPods == 0:
        outcome = "True", "SelectsNoPod", "its selector selects none of the pods that there are"
    condition = StatusCondition("NoEffect", *outcome, "", status.observedGeneration)
    return msgspec.structs.replace(status, conditions=(*status.conditions, condition))


def _told(verdicts: Sequence[ClauseVerdict]) -> _Outcome:
    """What others are told: all, some or none of the clauses, and why not the rest."""
    left = [f"{v.clause or 'all clauses'}: {v.reason}" for v in verdicts if v.reason]
    text = "; ".join(left)[:_MOST_TEXT]
    if not left and all(verdict.exact for verdict in verdicts):
        return "True", "Told", "new pods say all of it in Kubernetes' own words"
    if len(left) < len(verdicts):
        return "True", "ToldInPart", text
    return "False", "StaysInPlacet", text


def _with_ungated(status: PolicyStatus, number: int) -> PolicyStatus:
    """The status with the condition of the gate; it names no number, which changes often."""
    outcome: _Outcome = (
        ("True", "NoMarker", UNGATED)
        if number
        else ("False", "None", f"all pods that it selects have `{GATE}`")
    )
    condition = StatusCondition("Ungated", *outcome, "", status.observedGeneration)
    return msgspec.structs.replace(
        status, conditions=(*status.conditions, condition), ungatedPods=number
    )


def _with_drift(status: PolicyStatus, kinds: Mapping[str, int]) -> PolicyStatus:
    """The status with the pods that break its clauses; the condition has no number."""
    outcome: _Outcome = ("False", "None", "no pod on a node breaks one of its clauses")
    if kinds:
        text = f"pods break clauses of these kinds: {', '.join(sorted(kinds))}; see `placet drift`"
        outcome = "True", "PodsBreakClauses", text
    condition = StatusCondition("Drifted", *outcome, "", status.observedGeneration)
    pods = sum(kinds.values())
    return msgspec.structs.replace(
        status, conditions=(*status.conditions, condition), driftedPods=pods
    )


def _with_repair(status: PolicyStatus, repair: PolicyRepair) -> PolicyStatus:
    """The status with the condition of a policy that has repairs: true while pods are moved."""
    reason = "".join(word.capitalize() for word in repair.state.split())
    text = cut(repair.text or "no pod is to be moved now", _MOST_TEXT)
    outcome: _Outcome = ("True" if repair.state == "moving" else "False", reason, text)
    condition = StatusCondition("Repairing", *outcome, "", status.observedGeneration)
    return msgspec.structs.replace(status, conditions=(*status.conditions, condition))


def _with_binder(status: PolicyStatus, work: str, *, binds: bool) -> PolicyStatus:
    """The status with the condition of a policy that does this work at bind.

    Without bind, the policy is not ready either: `kubectl get` shows the reason of that.
    """
    text, conditions = f"it {work} at bind: {TO_BIND}", status.conditions
    outcome: _Outcome = ("False", "None", f"it {work} at bind, which is served")
    if not binds:
        outcome = "True", "ServedWithoutBind", text
        lost = {"status": "False", "reason": "NoBinder", "message": text}
        conditions = tuple(
            msgspec.structs.replace(each, **lost) if (each.type, each.status) == _READY else each
            for each in conditions
        )
    condition = StatusCondition("NoBinder", *outcome, "", status.observedGeneration)
    return msgspec.structs.replace(status, conditions=(*conditions, condition))


def _with_sources(status: PolicyStatus, sources: Iterable[SourceStatus | None]) -> PolicyStatus:
    """The status with the condition of a policy that reads tables; None is not asked yet.

    Its text has no age and nothing of the last try, which are others each time.
    """
    failing = {s.label: s for s in sources if s is not None and (s.reason or _is_old(s))}
    outcome: _Outcome = ("False", "None", "its tables are read")
    if failing:
        is_gone = any(source.is_stale for source in failing.values())
        text = "; ".join(_failure(source) for _, source in sorted(failing.items()))
        outcome = "True", "NoRows" if is_gone else "OldRows", cut(text, _MOST_TEXT)
    condition = StatusCondition("DataFailing", *outcome, "", status.observedGeneration)
    return msgspec.structs.replace(status, conditions=(*status.conditions, condition))


def _is_old(source: SourceStatus) -> bool:
    """Whether a source gives rows, which are stale when they come."""
    return source.is_stale and source.age is not None


def _failure(source: SourceStatus) -> str:
    read = "no rows are read" if source.is_stale else "the last rows are read"
    return f"{source.label}: {read}: {source.first_error or 'they are stale when they come'}"


def _share(program: Program | None) -> ShareProgram | None:
    """The share that the declarative part of an object is compiled to."""
    shares = program.shares if program is not None else ()
    return next((share for share in shares if share.count.name == CLAUSE), None)


def object_path(name: str) -> str:
    """The API path of the object `placementpolicies/shop/web`."""
    resource, _, key = name.partition("/")
    namespace, _, short = key.rpartition("/")
    return path_of(GROUP_PATH, resource, namespace, short)


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

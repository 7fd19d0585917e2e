"""Call: the beginning of a verb: its pod, a snapshot of the cluster, and the plan for the pod.

The CallOpener belongs to the engine and lives as long as it does; a Call lives until the verb is
answered. OfferedNodes keeps the nodes of full-node requests between calls.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol

import msgspec
import numpy as np

from engine.cache.cache import Cache
from engine.cache.ended_pods import lately
from engine.cache.node_table import (
    NO_NODES,
    NodeRows,
    NodeTable,
    NodeWithPods,
    Snapshot,
    as_offered,
)
from engine.counting.groups import CountContext
from engine.counting.in_flight_pods import InFlightPod, InFlightPods
from engine.counting.named_counts import CallCounts
from engine.counting.node_groups import CallGroups, KnownGroups
from engine.counting.pod_counter import PodCounter
from engine.decision.plan import Plan, RoomMaker, SharedMemos
from engine.decision.registry import Registry
from engine.errors import NotSyncedError
from engine.objects.peer import UNLABELLED, Peer
from engine.objects.remembered import MOST_REMEMBERED, Remembered
from engine.objects.request_pod import Exemptions, ObjectCodec, Pod, RequestPod
from engine.program.frame import Evaluation, Frame
from engine.program.policy_time import CallTime, DecisionTime
from engine.program.program import applies
from engine.program.tables import Tables
from grammar.messages.texts import shown
from grammar.values.errors import EvaluationError
from grammar.values.time import NEVER, Timestamp

# In a cluster of more nodes than these, all memories are larger in proportion, as plans are. At
# 5,000 nodes and three scores, a plan takes some 250,000 bytes.
_MANY_NODES = 2_500
# The memory of plans for questions that no call waits for.
_ASIDE_BYTES = 8 << 20
# The longest step of work that nobody waits for and no policy is charged for.
STEP_SECONDS = 0.010


class ClusterState(Protocol):
    """The state of a cluster, as snapshots: of files, of a live cluster, or of nothing."""

    def snapshot(self) -> Snapshot:
        """Raises NotSyncedError while not all of the cluster is known."""
        ...

    @property
    def pods(self) -> Cache:
        """The pods of the last snapshot, for counting."""
        ...


@dataclass(frozen=True, slots=True)
class Occurrence:
    """An occurrence that a capability tells of: a line of the log, and what metrics count.

    `fields` go with the line. `counts` have the name of a metric, its labels, of which the first is
    the address of a policy, and how much is added.
    """

    text: str
    fields: Mapping[str, str | int | float]
    counts: Sequence[tuple[str, Sequence[str], float]] = ()


class Observer:
    """An observer of what operators should see of decisions besides the answers.

    This one hears nothing; others hear what they have a method for.
    """

    def rejected(self, policy: str, clause: str, nodes: int) -> None: ...
    def held_back(self, policy: str, clause: str, nodes: int) -> None: ...
    def failed(self, policy: str, clause: str, error: str) -> None: ...
    def would_reject(self, policy: str, clause: str, nodes: int) -> None: ...
    def conflict(self, winner: str, loser: str) -> None: ...
    def bypassed(self, pod: str, uid: str, reason: str) -> None: ...
    def expensive(self, policy: str) -> None: ...
    def gave_up(self, work: str, about: str) -> None: ...
    def shortened(self, policy: str, clause: str, text: str) -> None: ...
    def unnamed_scheduler(self, name: str) -> None: ...
    def occurred(self, occurrence: Occurrence) -> None: ...


class VerbCall(msgspec.Struct, frozen=True, eq=False):
    """One call of a verb. `known` is None while the cluster is not known."""

    pod: RequestPod
    known: Snapshot | None
    plan: Plan
    evaluation: Evaluation
    cluster: ClusterState
    exempts: Callable[[Peer], bool]

    @property
    def snapshot(self) -> Snapshot:
        """The snapshot of this call. Raises NotSyncedError."""
        return self.known or self.cluster.snapshot()

    def context(self, snapshot: Snapshot) -> CountContext:
        """The pod, and what rules about more pods read of it."""
        return _context(self.pod, self.plan, snapshot, self.evaluation, self.exempts)


def _context(
    pod: RequestPod,
    plan: Plan,
    snapshot: Snapshot,
    evaluation: Evaluation,
    exempts: Callable[[Peer], bool],
) -> CountContext:
    root, frame = snapshot.workloads.get(pod.controller), plan.frame
    if plan.time_dependent_counts:
        frame = frame.anew()
        frame.now, frame.tables = Timestamp(evaluation.now()), evaluation.frame().tables
    namespace = snapshot.namespaces.get(pod.namespace)
    labels = namespace.labels if namespace is not None else UNLABELLED
    peer = partial(pod.rooted, root, labels)
    given = evaluation.time, root, plan, evaluation.report, exempts
    return CountContext(pod, peer, frame, *given)


class KeptPlans:
    """Plans of one purpose, and the memos that they share."""

    def __init__(self, memos: SharedMemos, most: int = MOST_REMEMBERED) -> None:
        self.memos = memos
        self._most = most
        self.plans: Remembered[Hashable, Plan] = Remembered(
            most, lambda _, plan: plan.bytes, lambda plan: plan.where
        )

    def make_room(self, nodes: int) -> None:
        """Keeps as many plans in a larger cluster."""
        times = max(1.0, nodes / _MANY_NODES)
        self.plans.most = round(self._most * times)
        self.plans.memory.most = round(MOST_REMEMBERED * times)

    def adopt(self, registry: Registry) -> None:
        """Drops the plans with policies that are gone, and has the others looked at again."""
        here = frozenset(registry.programs)
        for key in [*self.plans]:
            if (plan := self.plans.peek(key)) is None or not plan.programs <= here:
                self.plans.pop(key)
            else:
                plan.outdated = True

    def plan(self, key: Hashable, now: Callable[[], int], make: Callable[[], Plan]) -> Plan:
        """The plan that is kept for a key, or a new one."""
        found = self.plans.peek(key)
        if found is None or found.outdated or (found.until != NEVER and not found.lasts(now())):
            return self.plans.put(key, make() if found is None else make().follows(found))
        self.plans.own[found.where].move_to_end(key)
        return found


@dataclass(eq=False, slots=True)
class CallOpener:
    """Opens calls. `registry` has the policies that are enforced; it is replaced as a whole.

    `facts` are what a part knows beside the nodes, and `tables` the tables of data.
    """

    registry: Registry
    cluster: ClusterState
    _observer: Observer
    exemptions: Exemptions
    _in_flight: InFlightPods
    _time: DecisionTime
    _rooms: RoomMaker
    facts: object = None
    tables: Tables = field(default_factory=dict)
    groups: KnownGroups = field(init=False)
    _kept: KeptPlans = field(default_factory=lambda: KeptPlans(SharedMemos()))
    # Surveys of all pods must not take the place of plans that decide.
    _aside: KeptPlans = field(default_factory=lambda: KeptPlans(SharedMemos(), _ASIDE_BYTES))

    def __post_init__(self) -> None:
        self.groups = KnownGroups(self.registry.groups)

    def over(self, cluster: ClusterState) -> CallOpener:
        """Opens calls about another cluster, for which nothing is kept."""
        given = self._observer, self.exemptions, self._in_flight, self._time, self._rooms
        made = CallOpener(self.registry.anew(), cluster, *given)
        made.facts, made.tables = self.facts, self.tables
        return made

    def adopt(self, registry: Registry) -> None:
        """Takes other policies; what was kept for those that stay is kept."""
        self.registry = registry
        self.groups.adopt(registry.groups)
        for kept in (self._kept, self._aside):
            kept.adopt(registry)

    def forget(self) -> None:
        """Forgets what was kept for all policies."""
        self._kept = KeptPlans(SharedMemos())
        self._aside = KeptPlans(SharedMemos(), _ASIDE_BYTES)

    def take_facts(self, facts: object) -> None:
        """Takes what a part knows now, which anything may depend on that was kept."""
        self.facts = facts
        self.forget()

    def take_tables(self, tables: Tables) -> None:
        """Takes other tables; what reads those that have changed is evaluated again."""
        old, self.tables = self.tables, tables
        every = {**old, **tables}
        changed = {d for d in every if old.get(d) is not tables.get(d)}
        for plan in (*self._kept.plans.values(), *self._aside.plans.values()):
            plan.tables_changed(changed)

    def open(self, pod: RequestPod, names: Sequence[str], deadline: float) -> VerbCall:
        """A call about these nodes; `deadline` is in seconds of the clock. Raises EngineError."""
        time = self._time
        return self._open(pod, names, CallTime(time.clock, deadline, time.policies))

    def look(self, pod: RequestPod) -> VerbCall:
        """A call for which nobody waits: one portion about no nodes. Raises EngineError."""
        return self._open(pod, (), self._time.portion())

    def aside(self, pod: RequestPod) -> VerbCall:
        """A call that no policy is charged for: one step of some milliseconds, about no nodes.

        It may end within an evaluation. Raises EngineError.
        """
        clock = self._time.clock
        return self._open(pod, (), CallTime(clock, clock() + STEP_SECONDS), self._aside)

    def beside(self, pod: RequestPod, call: VerbCall) -> VerbCall:
        """A call about another pod, in the time of a call. Raises EngineError."""
        return self._open(pod, (), call.evaluation.time)

    def now(self) -> Timestamp:
        return self._time.now()

    def portion(self, frame: Frame) -> Evaluation:
        """The context of evaluations for which nobody waits; it lasts for one portion."""
        time = self._time.portion()
        frame.check = time.check_within
        now = frame.now.nanos
        return Evaluation(lambda: frame, lambda: now, time, self.clause_failed, self.shortened)

    def _open(
        self, pod: RequestPod, names: Sequence[str], time: CallTime, kept: KeptPlans | None = None
    ) -> VerbCall:
        known, keeper, exemptions = self.snapshot(), kept or self._kept, self.exemptions
        exempt = (
            exemptions.reason(pod) if pod.bypass or pod.namespace in exemptions.namespaces else ""
        )
        if known is None and not exempt and not self.registry.complete:
            self.cluster.snapshot()  # raises NotSyncedError, which says what is missing
        inputs, registry = _CallInputs(self, pod, known, time), self.registry
        evaluation = inputs.evaluation()
        # A plan keeps its namespace alive, so that its id is not reused.
        shape, space = pod.shape(registry.shapes), inputs.namespace
        of_cluster = inputs.root, inputs.group, inputs.failures
        key = (id(space), pod.namespace, *of_cluster, exempt, shape)

        def make() -> Plan:
            keeper.make_room(len(known.table.rows) if known is not None else 0)
            return Plan(
                *(registry, pod.namespace, space, evaluation, keeper.memos, self._rooms),
                nodes=len(names),
                pod=pod.decoded_bytes + len(shape),
                exempt=exempt,
            )

        plan = inputs.take(keeper.plan(key, inputs.now, make))
        if plan.conditional:
            which = [applies(clause, evaluation) for clause in plan.conditional]
            plan = inputs.take(keeper.plan((*key, *which), inputs.now, make))
        for other in plan.selection.gave_way:
            governing = plan.selection.governing
            assert governing is not None, "no policy gives way without one that governs"
            self._observer.conflict(governing.address, other.address)
        return VerbCall(pod, known, plan, evaluation, self.cluster, exemptions.exempts)

    def snapshot(self) -> Snapshot | None:
        """The cluster, or None while not all of it is known."""
        try:
            return self.cluster.snapshot()
        except NotSyncedError:
            return None

    def clause_failed(self, policy: str, clause: str, error: EvaluationError) -> None:
        """Reports an evaluation that failed."""
        self._observer.failed(policy, clause, shown(str(error)))

    def shortened(self, policy: str, clause: str, text: str) -> None:
        """Reports a text that an answer shows only in part."""
        self._observer.shortened(policy, clause, text)

    def in_flight(self, pod: RequestPod, table: NodeTable) -> Sequence[InFlightPod]:
        """The other pods that may end on nodes of a table."""
        return self._in_flight.others(pod.uid, table)


class _CallInputs:
    """The inputs of a call's evaluations: its frame, groups and counts, made when first needed."""

    def __init__(
        self, opener: CallOpener, pod: RequestPod, known: Snapshot | None, time: CallTime
    ) -> None:
        self._opener, self._registry = opener, opener.registry
        self._pod, self._known, self._time = pod, known, time
        self._plan: Plan | None = None
        self._frame: Frame | None = None
        self._groups: CallGroups | None = None
        self._moment: Timestamp | None = None
        self.namespace = known.namespaces.get(pod.namespace) if known is not None else None
        self.root = known.workloads.get(pod.controller) if known is not None else None
        self.group = opener.cluster.pods.group(pod.namespace, pod.group) if pod.group else None
        # Where earlier pods of the pod's controller failed.
        attempts = known.failures.get(pod.controller) if known is not None else None
        self.failures = lately(attempts, self.now()) if attempts else ()

    def evaluation(self) -> Evaluation:
        """The context of evaluations. Nobody keeps it here: that would be a circle of objects."""
        reports = self._opener.clause_failed, self._opener.shortened
        return Evaluation(self.frame, self.now, self._time, *reports, self.groups)

    def now(self) -> int:
        if self._moment is None:
            self._moment = self._opener.now()
        return self._moment.nanos

    def take(self, plan: Plan) -> Plan:
        """Takes the plan of the call: frames have no groups before there is one."""
        self._plan = plan
        if self._frame is not None and self._registry.reads_groups:
            self._frame.groups = self.groups()
        return plan

    def frame(self) -> Frame:
        if self._frame is None:
            given = self._whole(), Timestamp(self.now())
            slots, check = self._registry.slots, self._time.check_within
            made = Frame(*given, slots=slots, namespace=self.namespace, check=check)
            self._frame = made
            made.cardFacts, made.tables = self._opener.facts, self._opener.tables
            if self._plan is not None and self._registry.reads_groups:
                made.groups = self.groups()
        return self._frame

    def _whole(self) -> Pod:
        """The pod with what only the cluster knows of it."""
        pod = self._pod.pod
        if self.root is None and self.group is None and not self.failures:
            return pod
        workload, group = self.root or pod.workload, self.group or pod.group
        return replace(pod, workload=workload, group=group, failures=self.failures)

    def _check(self) -> None:
        # The frame gets another check for what is evaluated after the answer.
        self._frame.check() if self._frame is not None else self._time.check()

    def groups(self) -> CallGroups:
        if self._groups is None:
            nodes = self._known.table if self._known is not None else NO_NODES
            in_flight = partial(self._opener.in_flight, self._pod, nodes)
            given = self._opener.groups, nodes, in_flight, self._check
            self._groups = CallGroups(*given, counts=self._counts)
        return self._groups

    def _counts(self) -> CallCounts:
        opener, plan = self._opener, self._plan
        # The call itself would be a circle.
        assert plan is not None, "frames have no groups before there is a plan"
        there = self._known or opener.cluster.snapshot()
        exempts = opener.exemptions.exempts
        context = _context(self._pod, plan, there, self.evaluation(), exempts)
        others = opener.in_flight(self._pod, there.table)
        counter = PodCounter(opener.cluster.pods, others, there.table, context)
        return CallCounts(plan.named, counter, there.table)


# The largest table: names come and go, and a table of this size starts over.
_MOST_NODES = 20_000
# A table that has more bytes of JSON than this starts over, too.
_MOST_BYTES = 128 << 20


@dataclass(frozen=True, slots=True)
class _Seen:
    """A node as seen: its JSON, and the cache's view of the node at that time."""

    body: bytes
    counted: NodeWithPods | None


class OfferedNodes:
    """A table of the nodes of full-node requests; each version of a node is decoded once."""

    def __init__(self, codec: ObjectCodec) -> None:
        self._codec = codec
        self._start_over()

    def _start_over(self) -> None:
        self._rows: dict[str, int] = {}
        self._seen: list[_Seen | None] = [None]
        self._views: list[NodeWithPods | None] = [None]
        self._versions = np.zeros(1, np.int64)
        self._owner = object()
        self._version = 0
        self._bytes = 0

    def table(
        self, names: Sequence[str], bodies: Sequence[bytes], snapshot: Snapshot | None
    ) -> tuple[NodeTable, NodeRows]:
        """The table, and the row of each offered node. Raises BadObjectError.

        The table is valid until the next call.
        """
        if len(self._rows) + len(names) > _MOST_NODES or self._bytes > _MOST_BYTES:
            self._start_over()
        counted = snapshot.table.node if snapshot is not None else (lambda _: None)
        changed = []
        found = np.empty(len(names), np.intp)
        for i, (name, body) in enumerate(zip(names, bodies, strict=True)):
            row = self._rows.get(name)
            known = counted(name)
            if row is None:
                row = self._rows[name] = len(self._seen)
                self._seen.append(None)
                self._views.append(None)
            seen = self._seen[row]
            if seen is None or seen.counted is not known or seen.body != body:
                self._views[row] = as_offered(self._codec.node(body), known)
                self._bytes += len(body) - (len(seen.body) if seen is not None else 0)
                self._seen[row] = _Seen(bytes(body), known)
                changed.append(row)
            found[i] = row
        if len(self._versions) < len(self._seen):
            more = np.zeros(len(self._seen) - len(self._versions), np.int64)
            self._versions = np.concatenate([self._versions, more])
        self._version += 1
        self._versions[changed] = self._version
        return NodeTable(self._owner, self._rows, self._views, self._versions), found

"""Engine: decides the verbs over a snapshot, the enforced policies and a deadline, one at a time.

The engine is built once, with everything it needs, and lives as long as the server or the command.
Decisions are synchronous: nothing else happens on the event loop while one is made.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from engine.cache.cache import PodEventHandler
from engine.cache.node_table import KnownRows, NodeRows, NodeTable, Snapshot, without
from engine.counting.in_flight_pods import AskedPod, InFlightPods
from engine.counting.node_groups import count_on_the_way
from engine.counting.pod_counter import PodCounter
from engine.decision import filtering
from engine.decision.audit_log import Audits
from engine.decision.moves import Moves
from engine.decision.part import DecisionPart, PartMaker, PartSite, WokenPods
from engine.decision.placement import ONLY_REPLICA, Placement, PlacingParts, ReplicaRole
from engine.decision.plan import OfShape, Room
from engine.decision.plugin_filters import PluginFilters
from engine.decision.preemption import Preemption, Victims, on_their_nodes
from engine.decision.recent_answers import AfterDecision, SecondLooks
from engine.decision.registry import Registry
from engine.decision.simulated_calls import SimulatedCalls
from engine.decision.verb_call import CallOpener, ClusterState, Observer, OfferedNodes, VerbCall
from engine.decision.verdict import Decision, Scores, feasible
from engine.errors import EngineError, NotSyncedError, RefusedError
from engine.fairness import MOST_HELD, FairShares
from engine.objects.peer import Peer, rooted
from engine.objects.request_pod import NO_EXEMPTIONS, Exemptions, ObjectCodec, RequestPodReader
from engine.parts import PARTS
from engine.program.frame import Evaluation, Floats, Frame, Points
from engine.program.policy_time import SYSTEM_TIME, DecisionTime
from engine.program.program import FilterProgram, PreemptProgram
from engine.program.tables import Tables

P = TypeVar("P")
FoundNodes = tuple[NodeTable, NodeRows, KnownRows | None]


@dataclass(frozen=True, slots=True)
class Admission:
    """The admission of a pod that may be bound, and its deletion cost if a share sets one.

    Its Binding sets the `annotations`. `is_counted` says that strict counts have admitted it, as
    the leader. `waits` are the parts that the Binding has to wait for, and `until` is for how many
    seconds it may wait for `bind` clauses first; 0 where they have nothing to wait for.
    """

    pod: Peer
    deletion_cost: int | None
    is_counted: bool = False
    waits: Sequence[DecisionPart] = ()
    until: float = 0.0
    annotations: Mapping[str, str] = field(default_factory=dict)


class Engine:
    """The engine decides the verbs.

    `role` says what this replica decides, `time` how time is measured, and `after` takes what
    decisions leave behind. `codec` reads pods, `in_flight` has those that may end on nodes that
    they were offered, `looks` looks again at pods that were rejected, and `moves` at pods that have
    a node. `audits` has a log of what policies in audit mode would have rejected. `parts` decide,
    too; `held` counts the bind calls that wait, and `woken` are pods to ask about at once.
    `pod_handlers` are to hear of the pods of the cache.
    """

    def __init__(
        self,
        registry: Registry,
        cluster: ClusterState,
        codec: ObjectCodec,
        observer: Observer,
        *,
        exemptions: Exemptions = NO_EXEMPTIONS,
        role: ReplicaRole = ONLY_REPLICA,
        time: DecisionTime = SYSTEM_TIME,
        after: AfterDecision | None = None,
        parts: Sequence[PartMaker] = PARTS,
    ) -> None:
        def rooms(*of_shape: *OfShape) -> Sequence[Room]:
            return [room for part in self.parts for room in part.rooms(*of_shape)]

        self.in_flight = InFlightPods(time.clock, role.schedulers)
        self._after = after = after or AfterDecision(time.clock)
        given = registry, cluster, observer, exemptions, self.in_flight, time
        self._calls = CallOpener(*given, rooms)
        # A pod that is asked about, or is being bound, counts by what policies read of any pod.
        codec.keep(registry.annotations)
        self.codec, self._cluster = codec, cluster
        self._observer = observer
        self._offered = OfferedNodes(codec)
        self.placement = Placement(cluster, self.in_flight, role, time.now)
        self.audits = Audits(self._calls, self.placement, observer, after.later)
        self._hold = role.hold
        self._pods = RequestPodReader(codec)
        self._time = time
        placing = PlacingParts(self._calls, self.placement, PluginFilters(), self._pods)
        # The bind calls that wait for a condition, or for a part of decisions, or will wait.
        self.held, self.woken = FairShares(MOST_HELD), WokenPods()

        def suits(call: VerbCall, table: NodeTable, rows: NodeRows) -> Floats:
            return self._scored(call, table, rows, rows).astype(float)

        site = PartSite(placing, time.clock, suits, observer, self.held, self.woken)
        self.parts = tuple(make(site) for make in parts)
        handlers = (part.pod_changed for part in self.parts)
        self.pod_handlers: Sequence[PodEventHandler] = (self.in_flight.pod_changed, *handlers)
        self.moves = Moves(placing)
        self.looks = SecondLooks(placing, self.parts)
        self._simulated = SimulatedCalls(placing, codec)

    @property
    def registry(self) -> Registry:
        return self._calls.registry

    @property
    def expensive(self) -> frozenset[str]:
        """The addresses of the policies that had no time for a call of the last minute."""
        return self._time.expensive

    @property
    def unmet(self) -> Mapping[str, str]:
        """By the address of a policy, its share with a lower bound for which pods wait lately."""
        return self._after.unmet.by_policy

    # ---- the verbs

    def filter(
        self, pod: bytes, names: Sequence[str], nodes: Sequence[bytes] | None, deadline: float
    ) -> Decision:
        """A verdict per node, in the order of `names`; `nodes` are their JSON in full-node mode.

        Raises EngineError where there is no decision: not all is synced, the deadline (seconds
        of the clock) has passed, a policy takes too much time, an object cannot be decoded, or the
        pod was rejected too often in a row.
        """
        began = self._time.clock()
        request_pod = self._pods.read(pod)
        if nodes is not None or not self._cluster.pods.may_wait(request_pod):
            simulated = self._simulated.open(request_pod, names, nodes, deadline)
            if simulated is not None:
                return self._simulated.decide(*simulated)
        if request_pod.own_group:
            request_pod.cycle = self.in_flight.cycles.of(request_pod)
        decided: Decision | None = None
        culprit = ""
        if request_pod.bypass and self._calls.exemptions.bypasses(request_pod):
            self._observer.bypassed(request_pod.key, request_pod.uid, request_pod.bypass)
        try:
            call = self._calls.open(request_pod, names, deadline)
            if self._hold is not None and not call.plan.selection.exempt:
                self._hold(request_pod)
            if call.plan.empty or not names:
                return (decided := self._accepted(call, names, began))
            found = self._nodes(names, nodes, call)
            decided = self._filtered(call, names, found, began)
        except EngineError as error:
            self._after.failed(request_pod, len(names), error)
            culprit = error.policy
            raise
        finally:
            if not self._after.answered(request_pod, names, decided, culprit):
                if decided is None:
                    self.in_flight.refuse(request_pod.uid)
                else:
                    self.in_flight.reject(request_pod)
        return decided

    def prioritize(
        self, pod: bytes, names: Sequence[str], nodes: Sequence[bytes] | None, deadline: float
    ) -> Scores | None:
        """A score 0..10 per node, in the order of `names`; None where no score applies.

        Raises EngineError where there is no decision.
        """
        began = self._time.clock()
        call = self._open(pod, names, deadline)
        if nodes and (found := self._simulated.open(call.pod, names, nodes, deadline)) is not None:
            call, rows = found
            is_scored, there = call.plan.scored, call.snapshot.table
            return Scores(self._scored(call, there, rows, rows)) if is_scored else None
        plan = call.plan
        if not plan.scored or not names:
            return None
        table, rows, known_rows = self._nodes(names, nodes, call)
        known = rows
        if plan.counts.soft and nodes is not None:
            known = call.snapshot.table.find(names)
        points = self._scored(call, table, rows, known)
        if self._calls.registry.soft_counts and call.known is not None:
            best = int(np.argmax(points))
            # To read one of the names takes as long as to read all of them.
            row = rows[best] if nodes is None else call.known.table.find([names[best]])[0]
            self.in_flight.predict(call.pod.uid, int(row))
        scores = Scores(points, known_rows)
        self._after.scored(call, names, scores, self._time.clock() - began)
        return scores

    def preempt(
        self, pod: bytes, victims: Mapping[str, Victims], deadline: float
    ) -> Mapping[str, Victims]:
        """The nodes where pods may be evicted for the pod, with their victims.

        Raises EngineError where there is no decision.
        """
        call = self._open(pod, (), deadline)
        is_placed = self._cluster.pods.may_wait(call.pod)
        for part in self.parts if is_placed else ():
            victims = part.make_way(call, victims)
        selection = call.plan.selection
        if selection.unselectable:
            return {}
        mutual = call.plan.counts.mutual
        judging = (*selection.of(FilterProgram), *selection.of(PreemptProgram))
        if not (mutual or judging or any(p.counts for p in selection.enforced)):
            # While not all is known, nothing can be left out.
            with suppress(NotSyncedError):
                return on_their_nodes(victims, call.snapshot.table)
            return victims
        self.placement.check(call)
        kept = Preemption(call, self.placement).kept(victims)
        if is_placed:
            self._after.preempted(call, victims, kept)
        return kept

    def admit(self, pod: bytes, node: str, deadline: float) -> Admission:
        """The last check before a pod is bound: `bind` clauses and strict counts on the node.

        Raises EngineError where they do not hold, or where there is no decision.
        """
        call = self._open(pod, (node,), deadline)
        if call.known is None and call.plan.selection.exempt:
            return Admission(self.codec.peer(pod), None)
        count_on_the_way(call.evaluation.frame(), "bound")
        snapshot = call.snapshot
        peer = rooted(self.codec.peer(pod), snapshot.workloads)
        clauses = [c for c in call.plan.selection.of(FilterProgram) if c.at_bind]
        view = snapshot.node(node)
        (rejection,) = filtering.rejections(clauses, call.evaluation, [view])
        if rejection is not None:
            raise RefusedError(rejection.text(call.evaluation), of_clause=True)
        waits = [part for part in self.parts if part.admit(call, node)]
        until = filtering.longest_wait(clauses)
        if not (call.plan.counts.strict or call.plan.rooms):
            return Admission(peer, None, is_counted=bool(waits), waits=waits, until=until)
        self.placement.check(call)
        cost = self.placement.take(call, node) if call.plan.counts.strict else None
        # After a lost answer, the pod itself may count there.
        left = view if view is None else without(view, [peer])
        given = (room.annotations(call.evaluation, left) for room in call.plan.rooms)
        annotations = {key: text for each in given for key, text in each.items()}
        return Admission(
            peer, cost, is_counted=True, waits=waits, until=until, annotations=annotations
        )

    # ---- questions that answer no request

    def portion(self, frame: Frame) -> Evaluation:
        """The context of evaluations for which nobody waits; it lasts for one portion."""
        return self._calls.portion(frame)

    def opened(self, pod: bytes) -> tuple[VerbCall, PodCounter]:
        """A call about a pod and the counter of its snapshot; nothing is offered or recorded.

        Raises EngineError where there would be no decision.
        """
        call = self._open(pod, (), math.inf)
        snapshot = call.snapshot
        return call, self.placement.counter(snapshot.table, call.context(snapshot))

    def part(self, kind: type[P]) -> P | None:
        """Its part of a kind; None where it has none."""
        return next((part for part in self.parts if isinstance(part, kind)), None)

    # ---- changes

    def adopt(self, registry: Registry) -> None:
        """Enforces other policies from now on."""
        if (policies := self._time.policies) is not None:
            before = {program.address: program for program in self.registry.programs}
            now = {program.address: program for program in registry.programs}
            policies.changed(a for a in before if now.get(a) is not before[a])
        counts_first = registry.counts and not self.registry.counts
        self.codec.keep(registry.annotations)
        self._calls.adopt(registry)
        self.audits.log.adopted(registry.programs)
        self.in_flight.forget_tallies()
        for part in self.parts:
            part.adopted()
        self._after.adopted()
        if counts_first and (snapshot := self._calls.snapshot()) is not None:
            # Offers were not recorded while no policy counted.
            self.in_flight.drop_offers()
            self.in_flight.take_over(snapshot.pending.values(), snapshot.table)

    @property
    def exemptions(self) -> Exemptions:
        """The pods about which no policy decides."""
        return self._calls.exemptions

    @property
    def tables(self) -> Tables:
        """The tables of data that decisions read, by their digests."""
        return self._calls.tables

    def take_tables(self, tables: Tables) -> None:
        """Takes other tables of data; decisions read these from now on."""
        self._calls.take_tables(tables)

    def take_over(self, snapshot: Snapshot, term_began: float = -math.inf) -> int:
        """Begins a term: another replica may have offered any node to any pending pod.

        Until `term_began`, in seconds of the clock, another one may have been the leader. Returns
        the number of pods that count on every node from now on.
        """
        for part in self.parts:
            part.end("this replica began to decide anew")
        self.in_flight.begin_term(term_began)
        return self.in_flight.take_over(snapshot.pending.values(), snapshot.table)

    # ---- filter, step by step

    def _accepted(self, call: VerbCall, names: Sequence[str], began: float) -> Decision:
        """Every node, for a pod that no policy concerns, or a request without nodes."""
        count = len(names)
        # An exempt pod passes before anything is known, and is counted as soon as it is.
        if count and self._calls.registry.counts and (known := call.known) is not None:
            pod, table = call.pod, known.table
            peer = call.context(known).peer
            asked = AskedPod(pod.uid, peer, pod.revision, pod)
            self.in_flight.offer_all(asked, table, lambda: table.find(names), count)
        else:
            self.in_flight.forget(call.pod.uid)
        decided = feasible(count)
        seconds = self._time.clock() - began
        self._after.later(lambda: self._after.filtered(call, names, decided, seconds))
        return decided

    def _filtered(
        self, call: VerbCall, names: Sequence[str], found: FoundNodes, began: float
    ) -> Decision:
        plan, (table, rows, known_rows) = call.plan, found
        decided = plan.filters.decide(table, rows, call.evaluation, known_rows)
        if plan.filters.reads_pods:
            filtering.check_on_the_way(plan.filters, decided, table, rows, call.evaluation)
        for room in plan.rooms:
            self.placement.check_binds(call, room.clauses[0])
        counts = self._calls.registry.counts or any(plan.rooms)
        if counts or plan.of_parts:
            known = (call.known or call.snapshot).table
            there = rows if table is known else known.find(names)
        for part in self.parts if plan.of_parts else ():
            decided = part.answer(call, there, decided)
        if counts:
            decided = self._counted(call, there, decided)
        else:
            self.in_flight.forget(call.pod.uid)
        seconds = self._time.clock() - began
        self._after.later(lambda: self._finish(call, names, decided, seconds))
        if plan.audits or plan.audited_counts:
            self.audits.follow(call, names, table, rows, decided)
        is_hopeless = np.count_nonzero(decided.codes) == len(decided.codes)
        if not is_hopeless:
            return decided
        return self._after.refused(call.pod, decided, plan.counts.floors)

    def _counted(self, call: VerbCall, rows: NodeRows, decided: Decision) -> Decision:
        """The decision with the nodes held back that shares, spreads and limits do not allow.

        Counts are of the cache's nodes, whatever the request shows of them: `rows` are theirs.
        """
        snapshot = call.known or call.snapshot

        def suits() -> Floats:
            if not call.plan.scored:
                return np.zeros(len(rows))
            return self._scored(call, snapshot.table, rows, rows).astype(float)

        predicts = self._calls.registry.soft_counts
        return self.placement.answer(call, snapshot, rows, suits, decided, predicts=predicts)

    def _finish(
        self, call: VerbCall, names: Sequence[str], decided: Decision, seconds: float
    ) -> None:
        """Does what no answer waits for, but the next one would; reports and records."""
        reads_peers = self._calls.registry.reads_peers
        if unnamed := self.in_flight.settle(call.pod.uid, is_read=reads_peers):
            self._observer.unnamed_scheduler(unnamed)
        self._after.filtered(call, names, decided, seconds, self._observer)

    # ---- what several verbs share

    def _open(self, pod: bytes, names: Sequence[str], deadline: float) -> VerbCall:
        return self._calls.open(self._pods.read(pod), names, deadline)

    def _nodes(
        self, names: Sequence[str], nodes: Sequence[bytes] | None, call: VerbCall
    ) -> FoundNodes:
        """The nodes to decide about: the request's objects if it has any, else the cache's."""
        if nodes is not None:
            return *self._offered.table(names, nodes, call.known), None
        table = (call.known or call.snapshot).table
        return table, *table.locate(names)

    def _scored(self, call: VerbCall, table: NodeTable, rows: NodeRows, known: NodeRows) -> Points:
        """A score per row of a table; `known` are the same nodes in the cache."""
        plan, evaluation = call.plan, call.evaluation
        if not plan.counts.soft:
            return plan.scorer.scores(table, rows, evaluation)
        snapshot = call.snapshot
        counter = self.placement.counter(snapshot.table, call.context(snapshot))
        soft = plan.counts.terms(counter, snapshot.table, known, evaluation)
        return plan.scorer.scores(table, rows, evaluation, soft)

"""Engine: decides the verbs over a snapshot, the enforced policies and a deadline, one at a time.

The engine is built once, with everything it needs, and lives as long as the server or the command.
Decisions are synchronous: nothing else happens on the event loop while one is made.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from engine.cache.names import KnownRows
from engine.cache.node_table import NodeRows, NodeTable, Snapshot, without
from engine.counting.in_flight_pods import DEFAULT_SCHEDULERS, InFlightPods, Schedulers
from engine.counting.pod_counter import PodCounter
from engine.decision import filtering
from engine.decision.after import AfterDecision, report
from engine.decision.audit import Audits
from engine.decision.card_questions import CardQuestions
from engine.decision.card_room import choose
from engine.decision.placement import ONLY_REPLICA, Placement, ReplicaRole
from engine.decision.plugin_filters import AskedNodes, PluginFilters
from engine.decision.preemption import Preemption, Victims
from engine.decision.registry import Registry
from engine.decision.verb_call import CallOpener, ClusterState, Observer, OfferedNodes, VerbCall
from engine.decision.verdict import FURTHER, Decision, Scores, attributed, feasible
from engine.errors import EngineError, RefusedError
from engine.objects.codec import ObjectCodec
from engine.objects.peer import Peer, rooted
from engine.objects.request_pod import NO_EXEMPTIONS, Exemptions, RequestPod, RequestPodReader
from engine.program.frame import Evaluation, Floats, Frame, Points
from engine.program.policy_time import SYSTEM_TIME, DecisionTime
from engine.program.program import CountProgram, FilterProgram


@dataclass(frozen=True, slots=True)
class Admission:
    """A pod that may be bound, and its deletion cost if a share sets one.

    `annotations` are those that its Binding sets.
    `is_counted` says that strict counts have admitted it, as the leader.
    """

    pod: Peer
    deletion_cost: int | None
    is_counted: bool = False
    annotations: Mapping[str, str] = field(default_factory=dict)


class Engine:
    """Decides the verbs.

    `role` says what this replica decides, `time` how time is measured, and `after` takes what
    decisions leave behind. `schedulers` are those that ask. `in_flight` has the pods that may end
    on nodes that they were offered, and `cards` answers questions about cards.
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
        schedulers: Schedulers = DEFAULT_SCHEDULERS,
    ) -> None:
        self.in_flight = InFlightPods(time.clock, schedulers)
        self._after = after = after or AfterDecision(time.clock)
        self._calls = CallOpener(registry, cluster, observer, exemptions, time)
        self._codec = codec
        self._observer = observer
        self._offered = OfferedNodes(codec)
        self._placement = Placement(cluster, self.in_flight, role, time.now)
        self._audits = Audits(self._calls, self._placement, observer, after.later)
        self._plugins = PluginFilters()
        self._pods = RequestPodReader(codec)
        self._time = time
        self.cards = CardQuestions(self._calls, self._pods, time.now)

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
        decided: Decision | None = None
        if request_pod.bypass and self._calls.exemptions.bypasses(request_pod):
            key = f"{request_pod.namespace}/{request_pod.name}"
            self._observer.bypassed(key, request_pod.uid, request_pod.bypass)
        try:
            call = self._calls.open(request_pod, names, deadline)
            if call.plan.empty or not names:
                decided = self._accepted(call, names, began)
            else:
                decided = self._filtered(call, names, nodes, began)
        except EngineError as error:
            self._after.failed(request_pod, len(names), error)
            raise
        finally:
            if not self._after.answered(request_pod, names, decided):
                self.in_flight.refuse(request_pod.uid)
        return decided

    def prioritize(
        self, pod: bytes, names: Sequence[str], nodes: Sequence[bytes] | None, deadline: float
    ) -> Scores | None:
        """A score 0..10 per node, in the order of `names`; None where no score applies.

        Raises EngineError where there is no decision.
        """
        began = self._time.clock()
        call = self._open(pod, names, deadline)
        plan = call.plan
        if not plan.scored or not names:
            return None
        table, rows, known_rows = self._nodes(names, nodes, call)
        known = rows
        if plan.counts.soft and nodes is not None:
            known = call.snapshot.table.find(names)
        points = self._scored(call, table, rows, known)
        if self._calls.registry.soft_counts and call.known is not None:
            best = call.known.table.find([names[int(np.argmax(points))]])
            self.in_flight.predict(call.pod.uid, int(best[0]))
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
        selection = call.plan.selection
        if selection.unselectable:
            return {}
        programs = selection.enforced
        mutual = call.plan.counts.mutual
        if not mutual and not any(p.filters or p.counts or p.preempts for p in programs):
            return victims
        self._placement.check(call)
        has_headroom = partial(self._placement.all_open, call)
        return Preemption(programs, call.snapshot.table, call.evaluation, has_headroom).kept(
            victims
        )

    def admit(self, pod: bytes, node: str, deadline: float) -> Admission:
        """The last check before a pod is bound: `bind` clauses and strict counts on the node.

        Raises EngineError where they do not hold, or where there is no decision.
        """
        call = self._open(pod, (node,), deadline)
        if call.known is None and call.plan.selection.exempt:
            return Admission(self._codec.peer(pod), None)
        snapshot = call.snapshot
        peer = rooted(self._codec.peer(pod), snapshot.workloads)
        clauses = [c for p in call.plan.selection.enforced for c in p.filters if c.at_bind]
        view = snapshot.node(node)
        (rejection,) = filtering.rejections(clauses, call.evaluation, [view])
        if rejection is not None:
            raise RefusedError(rejection.text(call.evaluation))
        cards = [c for p in call.plan.selection.enforced for c in p.cards]
        if not (call.plan.counts.strict or cards):
            return Admission(peer, None)
        self._placement.check(call)
        cost = self._placement.take(call, node) if call.plan.counts.strict else None
        # After a lost answer, the pod itself may count there.
        left = view if view is None else without(view, [peer])
        annotations = choose(cards, call.evaluation, left)
        return Admission(peer, cost, is_counted=True, annotations=annotations)

    # ---- questions that answer no request

    def read(self, pod: bytes) -> RequestPod:
        """A pod to ask about. Raises BadObjectError."""
        return self._pods.read(pod)

    def has_refused(self, pod: RequestPod, reasons: str) -> bool:
        """Whether kube-scheduler's `reasons` have one that the policies give for this pod.

        Raises EngineError as `would_pass`.
        """
        call = self._calls.look(pod)
        texts = [FURTHER]
        for program in call.plan.selection.enforced:
            counts = (clause.count for clause in program.counts)
            strict = [count for count in counts if count.weight is None]
            texts += _event_texts((*program.filters, *strict), call.evaluation)
        mutual = (limit.clause.count for limit in call.plan.counts.mutual)
        texts += _event_texts(mutual, call.evaluation)
        # As in `2 Insufficient cpu, 1 policy web: zone.`; a damped text joins several by `; `.
        ours = "|".join(re.escape(text) for text in texts if text)
        return re.search(rf"(?:\d|;) (?:{ours})(?:[,.;]|$)", reasons) is not None

    def would_pass(self, pod: RequestPod, asked: AskedNodes | None = None) -> bool:
        """Whether filter would offer a node that kube-scheduler would ask about.

        `asked` are the nodes of its last call about the pod, None if not known. Nothing is offered
        or recorded. Nobody waits for the answer, so a call is a portion of a few milliseconds.
        Raises DeadlineExceededError at its end: the next call continues. Raises other EngineErrors
        where there would be no decision.
        """
        call = self._calls.look(pod)
        counts, table = call.plan.counts, call.snapshot.table
        rows = np.fromiter(table.rows.values(), np.intp, len(table.rows))
        decided = call.plan.filters.decide(table, rows, call.evaluation)
        passing = rows[decided.codes == 0]
        if len(passing) and counts.strict:
            self._placement.check(call, asked=False)
            passing = passing[self._placement.open(call, passing)]
        if not len(passing):
            return False
        return self._plugins.offer_any(pod, table, passing, asked, call.evaluation.time.check)

    def portion(self, frame: Frame) -> Evaluation:
        """The context of evaluations for which nobody waits; it lasts for one portion."""
        return self._calls.portion(frame)

    def opened(self, pod: bytes) -> tuple[VerbCall, PodCounter]:
        """A call about a pod and the counter of its snapshot; nothing is offered or recorded.

        Raises EngineError where there would be no decision.
        """
        call = self._open(pod, (), math.inf)
        snapshot = call.snapshot
        return call, self._placement.counter(snapshot.table, call.context(snapshot))

    # ---- changes

    def adopt(self, registry: Registry) -> None:
        """Enforces other policies from now on."""
        if (policies := self._time.policies) is not None:
            before = {program.address: program for program in self.registry.programs}
            now = {program.address: program for program in registry.programs}
            policies.changed(a for a in before if now.get(a) is not before[a])
        counts_first = registry.counts and not self.registry.counts
        self._calls.adopt(registry)
        self.in_flight.forget_tallies()
        self._after.adopted()
        if counts_first and (snapshot := self._calls.snapshot()) is not None:
            # Offers were not recorded while no policy counted.
            self.in_flight.drop_offers()
            self.in_flight.take_over(snapshot.pending.values(), snapshot.table)

    @property
    def exemptions(self) -> Exemptions:
        """The pods about which no policy decides."""
        return self._calls.exemptions

    def exempt(self, exemptions: Exemptions) -> None:
        """Exempts other pods from now on. What was counted with the old ones is forgotten."""
        self._calls.exemptions = exemptions
        self.adopt(self.registry.anew())

    def take_over(self, snapshot: Snapshot, term_began: float = -math.inf) -> int:
        """Begins a term: another replica may have offered any node to any pending pod.

        Until `term_began`, in seconds of the clock, another one may have been the leader. Returns
        the number of pods that count on every node from now on.
        """
        self.in_flight.begin_term(term_began)
        return self.in_flight.take_over(snapshot.pending.values(), snapshot.table)

    # ---- filter, step by step

    def _accepted(self, call: VerbCall, names: Sequence[str], began: float) -> Decision:
        """Every node, for a pod that no policy concerns, or a request without nodes."""
        count = len(names)
        # An exempt pod passes before anything is known, and is counted as soon as it is.
        if count and self._calls.registry.counts and (known := call.known) is not None:
            pod, table = call.pod, known.table
            self.in_flight.offer_all(
                pod.uid,
                call.context(known).peer,
                pod.revision,
                table,
                lambda: table.find(names),
                count,
                pod,
            )
        else:
            self.in_flight.forget(call.pod.uid)
        decided = feasible(count)
        seconds = self._time.clock() - began
        self._after.later(lambda: self._after.filtered(call, names, decided, seconds))
        return decided

    def _filtered(
        self, call: VerbCall, names: Sequence[str], nodes: Sequence[bytes] | None, began: float
    ) -> Decision:
        plan = call.plan
        table, rows, known_rows = self._nodes(names, nodes, call)
        decided = plan.filters.decide(table, rows, call.evaluation, known_rows)
        if plan.gives_cards:
            self._placement.check_cards(call)
        if self._calls.registry.counts or plan.cards:
            decided = self._counted(call, names, rows if nodes is None else None, decided)
        else:
            self.in_flight.forget(call.pod.uid)
        seconds = self._time.clock() - began
        self._after.later(lambda: self._finish(call, names, decided, seconds))
        if plan.audits or plan.audited_counts:
            self._audits.follow(call, names, table, rows)
        is_hopeless = np.count_nonzero(decided.codes) == len(decided.codes)
        if not is_hopeless:
            return decided
        return self._after.refused(call.pod, decided, plan.counts.floors)

    def _counted(
        self, call: VerbCall, names: Sequence[str], cached: NodeRows | None, decided: Decision
    ) -> Decision:
        """The decision with the nodes held back that shares, spreads and limits do not allow.

        Counts are of the cache's nodes, whatever the request shows of them: `cached` are their
        rows, None where they are still to be found.
        """
        snapshot = call.known or call.snapshot
        rows = snapshot.table.find(names) if cached is None else cached

        def suits() -> Floats:
            if not call.plan.scored:
                return np.zeros(len(rows))
            return self._scored(call, snapshot.table, rows, rows).astype(float)

        predicts = self._calls.registry.soft_counts
        return self._placement.answer(call, snapshot, rows, suits, decided, predicts=predicts)

    def _finish(
        self, call: VerbCall, names: Sequence[str], decided: Decision, seconds: float
    ) -> None:
        """Does what no answer waits for, but the next one would; reports and records."""
        reads_peers = self._calls.registry.reads_peers
        if unnamed := self.in_flight.settle(call.pod.uid, is_read=reads_peers):
            self._observer.unnamed_scheduler(unnamed)
        report(decided, self._observer)
        self._after.filtered(call, names, decided, seconds)

    # ---- what several verbs share

    def _open(self, pod: bytes, names: Sequence[str], deadline: float) -> VerbCall:
        return self._calls.open(self._pods.read(pod), names, deadline)

    def _nodes(
        self, names: Sequence[str], nodes: Sequence[bytes] | None, call: VerbCall
    ) -> tuple[NodeTable, NodeRows, KnownRows | None]:
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
        counter = self._placement.counter(snapshot.table, call.context(snapshot))
        soft = plan.counts.terms(counter, snapshot.table, known, evaluation)
        return plan.scorer.scores(table, rows, evaluation, soft)


def _event_texts(
    clauses: Iterable[FilterProgram | CountProgram], evaluation: Evaluation
) -> Iterator[str]:
    """The texts of clauses as events have them, or had them without the names of policies."""
    for clause in clauses:
        text = clause.message(evaluation)
        yield from (text, attributed(clause.policy, text))

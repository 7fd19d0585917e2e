"""Engine: decides the verbs over a snapshot, the enforced policies and a deadline, one at a time.

The engine is built once, with everything it needs, and lives as long as the server or the command.
Decisions are synchronous: nothing else happens on the event loop while one is made.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol

import msgspec
import numpy as np

from engine.cache.names import KnownRows
from engine.cache.node_table import NodeRows, NodeTable, NodeView, without
from engine.cache.snapshot import Snapshot
from engine.counting.count_clauses import CountClauses
from engine.counting.in_flight_pods import DEFAULT_SCHEDULERS, InFlightPods, Schedulers
from engine.counting.pod_counter import PodCounter
from engine.decision import filtering
from engine.decision.filtering import FilterMemo
from engine.decision.journal import Journal
from engine.decision.placement import Placement, Question
from engine.decision.preemption import Preemption, Victims
from engine.decision.recent_answers import AnswerListener, Damper, LastAnswers
from engine.decision.registry import Registry
from engine.decision.verb_call import CallOpener, ClusterView, Observer, OfferedNodes, VerbCall
from engine.decision.verdict import (
    FEASIBLE,
    FURTHER,
    MOST_REPEATED,
    Decision,
    Failed,
    Feasible,
    Rejected,
    Scores,
    Verdict,
    attributed,
    feasible,
)
from engine.errors import (
    BriefWaitError,
    DeadlineExceededError,
    EngineError,
    HandoverError,
    RefusedError,
    WaitingError,
)
from engine.objects.codec import ObjectCodec
from engine.objects.peer import Peer, rooted
from engine.objects.request_pod import NO_EXEMPTIONS, Exemptions, RequestPod, RequestPodReader
from engine.program import card_choice
from engine.program.card_choice import CardUse, Sums
from engine.program.frame import Evaluation, Floats, Frame, Points
from engine.program.policy_time import CallTime, PolicyTimes
from engine.program.program import CountProgram, FilterProgram, Program
from grammar.messages.texts import MOST_ERROR, cut, shown
from grammar.values.cards import CardShape, Mix
from grammar.values.time import SECOND, Timestamp

# The time of one portion of work for which nobody waits, and the most portions of one piece of it.
PORTION_SECONDS = 0.005
MOST_PORTIONS = 40
# The ReplicaSet of an older pod is known, or there is none any more.
_NEW_SECONDS = 30
# Runs work that no answer has to wait for, in order.
Later = Callable[[Callable[[], None]], object]


class CountGate(Protocol):
    """The reason why this replica may not decide by counts now, or empty.

    One of several replicas may. `asked` says that a client waits for the answer.
    """

    def __call__(self, *, asked: bool = True) -> str: ...


def open_gate(*, asked: bool = True) -> str:  # noqa: ARG001 - a CountGate
    """The gate of the only replica."""
    return ""


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

    `gate` says whether this replica decides by counts. `times` bounds what policies use of the
    time; without it only deadlines hold, and nothing is done in portions. `listeners` are told of
    each answer of filter, and `answers` keeps the nodes that it offers. The `journal` records what
    filter and prioritize answer. `later` runs work after the answer. `schedulers` are those that
    ask. `gives_cards` says that pods get cards here, because they are bound here.
    """

    def __init__(
        self,
        registry: Registry,
        view: ClusterView,
        codec: ObjectCodec,
        observer: Observer,
        *,
        gate: CountGate = open_gate,
        exemptions: Exemptions = NO_EXEMPTIONS,
        times: PolicyTimes | None = None,
        listeners: Sequence[AnswerListener] = (),
        answers: LastAnswers | None = None,
        journal: Journal | None = None,
        later: Later = lambda work: work(),  # for callers without an event loop
        schedulers: Schedulers = DEFAULT_SCHEDULERS,
        gives_cards: bool = True,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], Timestamp] = Timestamp.now,
    ) -> None:
        self.in_flight = InFlightPods(clock, schedulers)
        self._answers = answers
        self._calls = CallOpener(registry, view, observer, exemptions, now=now)
        self._clock = clock
        self._now = now
        self._times = times
        self._codec = codec
        self._gives_cards = gives_cards
        self._damper = Damper(clock)
        self._gate = gate
        self._journal = journal
        self._later = later
        self._listeners = listeners
        self._observer = observer
        self._offered = OfferedNodes(codec)
        self._placement = Placement(view, self.in_flight)
        self._pods = RequestPodReader(codec)

    @property
    def registry(self) -> Registry:
        return self._calls.registry

    @property
    def expensive(self) -> frozenset[str]:
        """The addresses of the policies that had no time for a call of the last minute."""
        return self._times.expensive if self._times is not None else frozenset()

    # ---- the verbs

    def filter(
        self, pod: bytes, names: Sequence[str], nodes: Sequence[bytes] | None, deadline: float
    ) -> Decision:
        """A verdict per node, in the order of `names`; `nodes` are their JSON in full-node mode.

        Raises EngineError where there is no decision: the view is not synced, the deadline (seconds
        of the clock) has passed, a policy takes too much time, an object cannot be decoded, or the
        pod was rejected too often in a row.
        """
        began = self._clock()
        request_pod, offered = self._pods.read(pod), False
        decided: Decision | None = None
        if request_pod.bypass and self._calls.exemptions.bypasses(request_pod):
            key = f"{request_pod.namespace}/{request_pod.name}"
            self._observer.bypassed(key, request_pod.uid, request_pod.bypass)
        try:
            call = self._calls.open(request_pod, names, self._time(deadline))
            if call.plan.empty or not names:
                decided = self._accepted(call, names, began)
            else:
                decided = self._filtered(call, names, nodes, began)
            offered = bool(np.count_nonzero(decided.codes) < len(decided.codes))
            if offered and self._damper.known:
                self._damper.passed(request_pod.uid)
        except EngineError as error:
            if (journal := self._journal) is not None:
                text = shown(str(error), MOST_ERROR)
                self._later(lambda: journal.failed(request_pod, len(names), text))
            raise
        finally:
            if not offered:
                self.in_flight.refuse(request_pod.uid)
            for answered in self._listeners:
                answered(request_pod, offered)
            if self._answers is not None:
                self._answers.answered(request_pod, names, decided)
        return decided

    def prioritize(
        self, pod: bytes, names: Sequence[str], nodes: Sequence[bytes] | None, deadline: float
    ) -> Scores | None:
        """A score 0..10 per node, in the order of `names`; None where no score applies.

        Raises EngineError where there is no decision.
        """
        began = self._clock()
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
        if (journal := self._journal) is not None:
            seconds = self._clock() - began
            self._later(lambda: journal.scored(call.pod, names, scores, seconds))
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
        self._check_gate(call)
        snapshot = call.snapshot

        def has_headroom(rows: NodeRows, gone: Collection[Peer]) -> bool:
            return self._placement.all_open(call.plan.counts, _question(call, snapshot, rows), gone)

        return Preemption(programs, snapshot.table, call.evaluation, has_headroom).kept(victims)

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
        self._check_gate(call)
        cost = None
        if call.plan.counts.strict:
            self._check_known(call)
            question = _question(call, snapshot, snapshot.table.find([node]))
            cost = self._placement.take(call.plan.counts, question)
        # After a lost answer, the pod itself may count there.
        left = view if view is None else without(view, [peer])
        annotations = card_choice.choose(cards, call.evaluation, left)
        return Admission(peer, cost, is_counted=True, annotations=annotations)

    # ---- questions that answer no request

    def read(self, pod: bytes) -> RequestPod:
        """A pod to ask about. Raises BadObjectError."""
        return self._pods.read(pod)

    def has_refused(self, pod: RequestPod, reasons: str) -> bool:
        """Whether kube-scheduler's `reasons` have one that the policies give for this pod.

        Raises EngineError as `would_pass`.
        """
        call = self._calls.open(pod, (), self._portion_time())
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

    def would_pass(self, pod: RequestPod) -> bool:
        """Whether filter would offer any node of the cluster; nothing is offered or recorded.

        Nobody waits for the answer, so a call is a portion of a few milliseconds. Raises
        DeadlineExceededError at its end: the next call continues. Raises other EngineErrors where
        there would be no decision.
        """
        call = self._calls.open(pod, (), self._portion_time())
        snapshot, counts = call.snapshot, call.plan.counts
        table = snapshot.table
        rows = np.fromiter(table.rows.values(), np.intp, len(table.rows))
        decided = call.plan.filters.decide(table, rows, call.evaluation)
        passing = rows[decided.codes == 0]
        if not len(passing) or not counts.strict:
            return bool(len(passing))
        self._check_gate(call, asked=False)
        return self._placement.any_open(counts, _question(call, snapshot, passing))

    def portion(self, frame: Frame) -> Evaluation:
        """The context of evaluations for which nobody waits; it lasts for one portion."""
        time = self._portion_time()
        frame.check = time.check_within
        clause_failed, shortened = self._calls.clause_failed, self._observer.shortened
        now = frame.now.nanos
        return Evaluation(lambda: frame, lambda: now, time, clause_failed, shortened)

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
        if self._times is not None:
            before = {program.address: program for program in self.registry.programs}
            now = {program.address: program for program in registry.programs}
            self._times.changed(a for a in before if now.get(a) is not before[a])
        counts_first = registry.counts and not self.registry.counts
        self._calls.adopt(registry)
        self.in_flight.forget_tallies()
        if self._journal is not None:
            self._journal.adopted()
        if counts_first and (snapshot := self._calls.snapshot()) is not None:
            # Offers were not recorded while no policy counted.
            self.in_flight.drop_offers()
            self.in_flight.take_over(snapshot.pending.values(), snapshot.table.owner)

    def measure_by(self, shapes: Mapping[str, Iterable[CardShape]]) -> None:
        """Measures the fragmentation of the cards of each clause by these pods from now on.

        What was scored by others is forgotten.
        """
        mixes = {clause: Mix(pods) for clause, pods in shapes.items()}
        if mixes != self._calls.facts.mixes:
            self._calls.measure_by(mixes)

    def card_shapes(self, pods: Iterable[bytes]) -> Mapping[str, Sequence[CardShape]]:
        """What pods need of the cards of each clause. Raises BadObjectError."""
        found: dict[str, list[CardShape]] = {}
        for body in pods:
            call = self._calls.open(self._pods.read(body), (), self._time(math.inf))
            for clause in (c for p in call.plan.selection.enforced for c in p.cards):
                shape = card_choice.shape(clause, call.evaluation.frame())
                if shape is not None:
                    found.setdefault(clause.name, []).append(shape)
        return found

    def card_demand(self, pod: bytes) -> Mapping[str, int]:
        """What a pod takes of all its cards, by clause and amount. Raises BadObjectError."""
        call = self._calls.open(self._pods.read(pod), (), self._time(math.inf))
        clauses = (c for p in call.plan.selection.enforced for c in p.cards)
        return {
            f"{name}/{key}": demand.cards * amount
            for name, demand in card_choice.demands(clauses, call.evaluation).items()
            for key, amount in demand.take.items()
        }

    def card_uses(self, nodes: Iterable[NodeView]) -> Sequence[Mapping[str, CardUse]]:
        """The cards of each node with their pods, by clause; none that cannot be read."""
        frame = Frame(None, self._now(), slots=self.registry.slots)
        frame.cardFacts = self._calls.facts
        clauses = {c.name: c for p in self.registry.programs for c in p.cards}
        found = []
        for node in nodes:
            frame.node = node
            uses = ((name, card_choice.use(clause, frame)) for name, clause in clauses.items())
            found.append({name: use for name, use in uses if use is not None})
        return found

    def card_sums(self, nodes: Iterable[NodeView]) -> Sequence[Mapping[str, Sums]]:
        """What the cards of each node have and give, by clause and amount."""
        return [card_choice.sums(uses) for uses in self.card_uses(nodes)]

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
        return self.in_flight.take_over(snapshot.pending.values(), snapshot.table.owner)

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
                table.owner,
                lambda: table.find(names),
                count,
                pod,
            )
        else:
            self.in_flight.forget(call.pod.uid)
        decided = feasible(count)
        if (journal := self._journal) is not None:
            seconds = self._clock() - began
            self._later(lambda: journal.filtered(call, names, decided, seconds))
        return decided

    def _filtered(
        self, call: VerbCall, names: Sequence[str], nodes: Sequence[bytes] | None, began: float
    ) -> Decision:
        plan = call.plan
        table, rows, known_rows = self._nodes(names, nodes, call)
        decided = plan.filters.decide(table, rows, call.evaluation, known_rows)
        if plan.gives_cards:
            # Bind is asked of who answers this, and only one replica gives cards.
            self._check_cards(call)
            self._check_gate(call)
        if self._calls.registry.counts or plan.cards:
            decided = self._counted(call, names, rows if nodes is None else None, decided)
        else:
            self.in_flight.forget(call.pod.uid)
        seconds = self._clock() - began
        self._later(lambda: self._finish(call, names, decided, seconds))
        if plan.audits or plan.audited_counts:
            audit = self._audit(call, names, table, rows)
            self._later(lambda: self._continue(audit))
        is_hopeless = np.count_nonzero(decided.codes) == len(decided.codes)
        return self._hopeless(call, decided) if is_hopeless else decided

    def _counted(
        self, call: VerbCall, names: Sequence[str], cached: NodeRows | None, decided: Decision
    ) -> Decision:
        """The decision with the nodes held back that shares, spreads and limits do not allow.

        Counts are of the cache's nodes, whatever the request shows of them: `cached` are their
        rows, None where they are still to be found.
        """
        self._check_gate(call)
        self._check_known(call)
        snapshot = call.known or call.snapshot
        rows = snapshot.table.find(names) if cached is None else cached

        def suits() -> Floats:
            if not call.plan.scored:
                return np.zeros(len(rows))
            return self._scored(call, snapshot.table, rows, rows).astype(float)

        question = _question(call, snapshot, rows, suits)
        predicts = self._calls.registry.soft_counts
        return self._placement.answer(call.plan.counts, question, decided, predicts=predicts)

    def _finish(
        self, call: VerbCall, names: Sequence[str], decided: Decision, seconds: float
    ) -> None:
        """Does what no answer waits for, but the next one would; reports and records."""
        reads_peers = self._calls.registry.reads_peers
        if unnamed := self.in_flight.settle(call.pod.uid, is_read=reads_peers):
            self._observer.unnamed_scheduler(unnamed)
        self._report(decided)
        if self._journal is not None:
            self._journal.filtered(call, names, decided, seconds)

    def _hopeless(self, call: VerbCall, decided: Decision) -> Decision:
        """The answer about a pod without a node, in the form that kube-scheduler settles with.

        Raises EngineError if kube-scheduler should retry the pod itself.
        """
        counts = decided.counts()
        for verdict, count in zip(decided.verdicts, counts, strict=True):
            if count and isinstance(verdict, Rejected) and verdict.waits:
                raise WaitingError(verdict.reason)
        verdicts, rows, headrooms = _attributed(decided), decided.known_rows, decided.headrooms
        decided = Decision(decided.codes, verdicts, rows, headrooms)
        pairs = zip(verdicts, counts, strict=True)
        refusals = [v for v, n in pairs if n and not isinstance(v, Feasible)]
        damped = self._damper.rejected(call.pod.uid, {v.reason for v in refusals})
        if damped is None:
            return decided
        if damped.is_error:
            raise EngineError(damped.text)
        text = cut(damped.text, max(1, MOST_REPEATED // len(decided)))
        first = refusals[0]
        is_resolvable = all(v.resolvable for v in refusals)
        one = Rejected(text, first.policy, first.clause, is_resolvable)
        return Decision(np.ones(len(decided), np.int32), (FEASIBLE, one), rows, headrooms)

    def _audit(
        self, call: VerbCall, names: Sequence[str], table: NodeTable, rows: NodeRows
    ) -> Iterator[None]:
        """Reports what policies in audit mode would reject; stops at the end of each portion."""
        for program, memo in call.plan.audits:
            work = partial(_rejecting, memo, table, rows)
            found = yield from self._in_portions(program, call, work)
            for clause, count in found:
                self._observer.would_reject(program.address, clause, count)
        for program, counts in call.plan.audited_counts:
            closed = partial(self._closed, counts, names)
            found = yield from self._in_portions(program, call, closed)
            for clause, count in found:
                self._observer.would_reject(program.address, clause, count)

    def _in_portions(
        self, program: Program, call: VerbCall, work: Callable[[VerbCall], list[tuple[str, int]]]
    ) -> Generator[None, None, list[tuple[str, int]]]:
        """What the work finds, in portions of time; nothing if it takes too many."""
        for _ in range(MOST_PORTIONS):
            part = msgspec.structs.replace(call, evaluation=self.portion(call.evaluation.frame()))
            try:
                return work(part)
            except DeadlineExceededError:
                yield
            except EngineError:
                return []
        self._observer.gave_up("audit", program.address)
        return []

    def _continue(self, work: Iterator[None]) -> None:
        """Does a portion of some work now, and the others after what else there is to do."""
        for _ in work:
            self._later(lambda: self._continue(work))
            return

    def _closed(
        self, counts: CountClauses, names: Sequence[str], call: VerbCall
    ) -> list[tuple[str, int]]:
        """The strict clauses without headroom on some nodes, with the number of these."""
        snapshot = call.snapshot
        question = _question(call, snapshot, snapshot.table.find(names))
        return self._placement.closed(counts, question)

    def _report(self, decided: Decision) -> None:
        for verdict, count in zip(decided.verdicts, decided.counts(), strict=True):
            if not count or isinstance(verdict, Feasible):
                continue
            if isinstance(verdict, Failed):
                self._observer.failed(verdict.policy, verdict.clause, verdict.error)
            self._observer.rejected(verdict.policy, verdict.clause, count)

    # ---- what several verbs share

    def _open(self, pod: bytes, names: Sequence[str], deadline: float) -> VerbCall:
        return self._calls.open(self._pods.read(pod), names, self._time(deadline))

    def _time(self, deadline: float) -> CallTime:
        return CallTime(self._clock, deadline, self._times)

    def _portion_time(self) -> CallTime:
        if self._times is None:
            return self._time(math.inf)
        return CallTime(self._clock, self._clock() + PORTION_SECONDS, self._times, is_portion=True)

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

    def _check_known(self, call: VerbCall) -> None:
        """Raises BriefWaitError where a pod would be counted without those of other revisions.

        The watch of ReplicaSets may be behind that of pods. A pod that is not new has none.
        """
        pod = call.pod
        if not call.plan.counts.need_workloads or not pod.controller:
            return
        if pod.controller in call.snapshot.workloads:
            return
        # Not of the peer, which is decoded after the answer.
        owner, created = pod.owner, pod.created
        if owner is None or owner.kind != "ReplicaSet" or created is None:
            return
        if abs(self._now().nanos - created.nanos) < _NEW_SECONDS * SECOND:
            raise BriefWaitError(f"waiting until ReplicaSet {owner.name} of the pod is known")

    def _check_cards(self, call: VerbCall) -> None:
        """Raises WaitingError for a pod that needs cards where nobody gives them."""
        if self._gives_cards:
            return
        address = next(p.address for p in call.plan.selection.enforced if p.cards)
        text = "gives cards at bind: serve with `--bind`, and set the extender's `bindVerb`"
        raise WaitingError(f"policy {address} {text}")

    def _check_gate(self, call: VerbCall, *, asked: bool = True) -> None:
        """Raises HandoverError where another replica decides by the counts of this call.

        Looks of our own are not `asked`: the Lease follows the calls of clients alone.
        """
        decides = call.plan.counts.strict or call.plan.gives_cards
        if decides and (reason := self._gate(asked=asked)):
            raise HandoverError(reason)


def _rejecting(
    memo: FilterMemo, table: NodeTable, rows: NodeRows, call: VerbCall
) -> list[tuple[str, int]]:
    """The clauses that reject some of the nodes, with the number of these."""
    would = memo.decide(table, rows, call.evaluation)
    found = zip(would.verdicts, would.counts(), strict=True)
    return [(v.clause, count) for v, count in found if count and not isinstance(v, Feasible)]


def _attributed(decided: Decision) -> list[Verdict]:
    """The verdicts with reasons that name their policy; equal reasons are one text."""
    texts: dict[tuple[str, str], str] = {}
    found: list[Verdict] = []
    for verdict in decided.verdicts:
        if isinstance(verdict, Feasible):
            found.append(verdict)
            continue
        key = verdict.policy, verdict.reason
        if (text := texts.get(key)) is None:
            text = texts[key] = attributed(*key)
        found.append(verdict if text is verdict.reason else replace(verdict, reason=text))
    return found


def _event_texts(
    clauses: Iterable[FilterProgram | CountProgram], evaluation: Evaluation
) -> Iterator[str]:
    """The texts of clauses as events have them, or had them without the names of policies."""
    for clause in clauses:
        text = clause.message(evaluation)
        yield from (text, attributed(clause.policy, text))


def _not_narrowed() -> Floats:
    raise AssertionError("only an answer of filter is narrowed to the best node")


def _question(
    call: VerbCall, snapshot: Snapshot, rows: NodeRows, suits: Callable[[], Floats] = _not_narrowed
) -> Question:
    context, cards = call.context(snapshot), call.plan.cards
    return Question(context, snapshot.table, rows, call.evaluation, suits, cards)

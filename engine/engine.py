"""The verbs over a snapshot, the policies in force and a deadline; one call at a time."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from engine.cache.node_table import NodeRows, NodeTable
from engine.cache.snapshot import Snapshot
from engine.counting.headroom import deletion_cost
from engine.counting.in_flight_pods import InFlightPods
from engine.decision import filtering
from engine.decision.call import Call, CallOpener, ClusterView, Observer, OfferedNodes
from engine.decision.inspection import Inspection
from engine.decision.journal import Journal
from engine.decision.placement import Placement, Question
from engine.decision.preemption import Preemption, Victims
from engine.decision.registry import Registry
from engine.decision.rejected_pods import Damper
from engine.decision.verdict import Decision, Failed, Feasible, Rejected, Scores, feasible
from engine.errors import EngineError, HandoverError, RefusedError, WaitingError
from engine.objects.codec import ObjectCodec
from engine.objects.peer import Peer, rooted
from engine.objects.request_pod import NO_EXEMPTIONS, Exemptions, RequestPod
from engine.program.frame import Floats, Points, Term
from grammar.values.time import Timestamp

# How long a pod may be on its way where nobody says that it is bound.
HOLD_SECONDS = 900.0
# Told of a pod that filter is asked about, and of whether any node was answered.
Listener = Callable[[RequestPod, bool], None]


class CountGate(Protocol):
    """Who of several replicas decides by counts."""

    def waiting(self) -> str:
        """Why that is not this one now, or empty."""
        ...


class OpenGate:
    """The one replica there is."""

    def waiting(self) -> str:
        return ""


@dataclass(frozen=True, slots=True)
class Admission:
    """A pod that may be bound, and what deleting it is to cost, if that is for us to say."""

    pod: Peer
    deletion_cost: int | None


class Engine:
    """Decides the verbs. `count_gate` may be replaced before there are calls.

    A `journal` takes down what filter and prioritize answer. `later` runs, in their order, things
    that no answer has to wait for.
    """

    def __init__(
        self,
        registry: Registry,
        view: ClusterView,
        codec: ObjectCodec,
        observer: Observer,
        *,
        exemptions: Exemptions = NO_EXEMPTIONS,
        hold_seconds: float = HOLD_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], Timestamp] = Timestamp.now,
    ) -> None:
        self.count_gate: CountGate = OpenGate()
        self.listeners: list[Listener] = []
        self.journal: Journal | None = None
        self.later: Callable[[Callable[[], None]], object] = _now
        self.placement = Placement(view, InFlightPods(clock, hold_seconds))
        self._calls = CallOpener(registry, view, codec, observer, exemptions, clock=clock, now=now)
        self._codec = codec
        self._offered = OfferedNodes(codec)
        self._observer = observer
        self._damper = Damper(clock)

    @property
    def registry(self) -> Registry:
        """The policies in force."""
        return self._calls.registry

    def filter(
        self,
        pod: bytes,
        names: Sequence[str],
        nodes: Sequence[bytes] | None,
        deadline: float,
    ) -> Decision:
        """A verdict per node, in the order of `names`; `nodes` are their JSON in full-node mode.

        Raises EngineError where there is no decision: the view is not synced, the deadline (seconds
        of the clock) has passed, an object is not one, or the pod was rejected too often in a row.
        """
        asked, passed = self._calls.read(pod), False
        if self._calls.exemptions.bypasses(asked):
            self._observer.bypassed(f"{asked.namespace}/{asked.name}", asked.uid, asked.bypass)
        try:
            decided = self._filtered(self._calls.open(asked, len(names), deadline), names, nodes)
            passed = not np.logical_and.reduce(decided.codes)
        except EngineError as error:
            if (journal := self.journal) is not None:
                count, text = len(names), str(error)
                self.later(lambda: journal.failed(asked, count, text))
            raise
        finally:
            for listener in self.listeners:
                listener(asked, passed)
        return decided

    def _filtered(
        self, call: Call, names: Sequence[str], nodes: Sequence[bytes] | None
    ) -> Decision:
        if not names or call.plan.selection.empty:
            # Who is exempt passes before anything is known, and is counted as soon as it is.
            if names and self.registry.counts and call.known is not None:
                cached = call.known.table
                self.placement.passed(call.context(), cached, lambda: cached.find(names))
            return self._noted(call, names, feasible(len(names)))
        table, rows = self._nodes(names, nodes, call)
        decided = call.plan.filter(table, rows, call.frame, call.check)
        where = table.where(names, rows) if nodes is None else None
        if self.registry.counts:
            # Counts are of the cache's nodes, whatever the request shows of them.
            known = rows if nodes is None else call.snapshot.table.find(names)
            decided = self._counted(call, known, decided)
        self.later(lambda: self._report(decided))
        self._audit(call, names, table, rows)
        decided = self._noted(call, names, Decision(decided.codes, decided.verdicts, where))
        if decided.codes.all():
            self._check_hopeless(call, decided)
        return decided

    def prioritize(
        self,
        pod: bytes,
        names: Sequence[str],
        nodes: Sequence[bytes] | None,
        deadline: float,
    ) -> Scores | None:
        """An integer 0..10 per node, in the order of `names`; None where no score applies."""
        call = self._open(pod, len(names), deadline)
        if not names or not call.plan.scored:
            return None
        table, rows = self._nodes(names, nodes, call)
        known = rows
        if call.plan.counting.soft_counts and nodes is not None:
            known = call.snapshot.table.find(names)
        found = self._scored(call, table, rows, known)
        if self.registry.soft_counts and call.known is not None:
            best = call.known.table.find([names[int(np.argmax(found))]])
            self.placement.in_flight.predict(call.asked.uid, int(best[0]))
        scores = Scores(found, table.where(names, rows) if nodes is None else None)
        if (journal := self.journal) is not None:
            self.later(lambda: journal.scored(call.asked, names, scores))
        return scores

    def preempt(
        self, pod: bytes, victims: Mapping[str, Victims], deadline: float
    ) -> Mapping[str, Victims]:
        """Those of the nodes where the pod may have others evicted, with their victims.

        Raises EngineError where there is no decision.
        """
        call = self._open(pod, 0, deadline)
        selection = call.plan.selection
        if selection.unselectable:
            return {}
        programs = selection.enforced
        if not any(p.filters or p.counts or p.preempts for p in programs):
            return victims
        self._check_count_gate(call)

        def has_headroom(rows: NodeRows, gone: Collection[Peer]) -> bool:
            return self.placement.has_headroom(call.plan.counting, _question(call, rows), gone)

        table, failed = call.snapshot.table, self._calls.clause_failed
        return Preemption(programs, table, call.frame(), has_headroom, call.check, failed).kept(
            victims
        )

    def admit(self, pod: bytes, node: str, deadline: float) -> Admission:
        """The last look before a pod is bound: `bind` clauses and strict counts hold on the node.

        Raises EngineError where they do not, or nobody can tell.
        """
        call = self._open(pod, 1, deadline)
        if call.known is None and call.plan.selection.exempt:
            return Admission(self._codec.peer(pod), None)
        snapshot = call.snapshot
        peer = rooted(self._codec.peer(pod), snapshot.workloads)
        selection = call.plan.selection
        clauses = [c for p in selection.enforced for c in p.filters if c.at_bind]
        view = snapshot.node(node)
        (finding,) = filtering.rejections(clauses, call.frame(), [view], call.check)
        if finding is not None:
            raise RefusedError(finding.verdict(call.frame).reason)
        if not call.plan.counting.strict:
            return Admission(peer, None)
        self._check_count_gate(call)
        question = _question(call, snapshot.table.find([node]))
        return Admission(peer, deletion_cost(self.placement.take(call.plan.counting, question)))

    def read(self, pod: bytes) -> RequestPod:
        """A pod to ask about. Raises BadObjectError."""
        return self._calls.read(pod)

    def concerns(self, asked: RequestPod) -> bool:
        """Whether any policy could reject the pod. Raises EngineError."""
        selection = self._calls.open(asked, 0, math.inf).plan.selection
        return bool(selection.enforced or selection.unselectable)

    def would_pass(self, asked: RequestPod) -> bool:
        """Whether filter would answer any node of the cluster; nobody is told, nothing promised.

        Raises EngineError where there would be no decision.
        """
        call = self._calls.open(asked, 0, math.inf)
        table = call.snapshot.table
        rows = np.fromiter(table.rows.values(), np.intp, len(table.rows))
        decided = call.plan.filter(table, rows, call.frame, call.check)
        passing = rows[decided.codes == 0]
        if not len(passing) or not call.plan.counting.strict:
            return bool(len(passing))
        self._check_count_gate(call)
        return self.placement.is_open(call.plan.counting, _question(call, passing))

    def inspect(self, pod: bytes) -> Inspection:
        """What there is to say about a pod, as filter and prioritize find it; answers nobody.

        Raises EngineError where there would be no decision.
        """
        call = self._open(pod, 0, math.inf)
        snapshot = call.snapshot
        counter = self.placement.counter(snapshot.table, call.context())
        return Inspection(call.plan.selection, call.frame(), snapshot.table, counter)

    def adopt(self, registry: Registry) -> None:
        """Decides by other policies from now on."""
        fresh = registry.counts and not self.registry.counts
        self._calls.registry = registry
        if self.journal is not None:
            self.journal.adopted()
        if fresh and (snapshot := self._calls.snapshot()) is not None:
            # Nobody has kept account of those on their way.
            self.take_over(snapshot)

    def pod_changed(self, old: Peer | None, new: Peer | None, revision: int) -> None:
        """For the cache to say what a pod was and is; see `PodListener`."""
        self.placement.in_flight.changed(old, new, revision)

    def take_over(self, snapshot: Snapshot) -> None:
        """Whoever decided before may have sent any pending pod anywhere."""
        everywhere = np.arange(len(snapshot.table.views))
        self.placement.in_flight.take_over(
            snapshot.pending.values(), snapshot.table.owner, everywhere
        )

    def _counted(self, call: Call, rows: NodeRows, decided: Decision) -> Decision:
        """What the shares, spreads and limits leave of a decision."""
        self._check_count_gate(call)
        table = call.snapshot.table

        def suits() -> Floats:
            if not call.plan.scored:
                return np.zeros(len(rows))
            return self._scored(call, table, rows, rows).astype(float)

        question = _question(call, rows, suits)
        predicts = self.registry.soft_counts
        left = self.placement.answer(call.plan.counting, question, decided, predicts=predicts)
        self.later(lambda: self.placement.in_flight.settle(call.asked.uid))
        return left

    def _check_hopeless(self, call: Call, decided: Decision) -> None:
        """Raises EngineError where a pod that no node takes had better ask again by itself."""
        present = [v for v, n in zip(decided.verdicts, decided.counts(), strict=True) if n]
        if waiting := [v for v in present if isinstance(v, Rejected) and v.waits]:
            raise WaitingError(waiting[0].reason)
        if self._damper.rejected(call.asked.uid):
            raise EngineError("; ".join(v.reason for v in present if not isinstance(v, Feasible)))

    def _audit(self, call: Call, names: Sequence[str], table: NodeTable, rows: NodeRows) -> None:
        """Operators hear what policies in audit mode would have said."""
        for program, would in call.plan.audit(table, rows, call.frame, call.check):
            for verdict, count in zip(would.verdicts, would.counts(), strict=True):
                if count and not isinstance(verdict, Feasible):
                    self._observer.would_reject(program.address, verdict.clause, count)
        for program, counting in call.plan.audited_counts:
            question = _question(call, call.snapshot.table.find(names))
            for clause, count in self.placement.closed(counting, question):
                self._observer.would_reject(program.address, clause, count)

    def _check_count_gate(self, call: Call) -> None:
        """Raises HandoverError where another replica decides by the counts of this call."""
        if call.plan.counting.strict and (reason := self.count_gate.waiting()):
            raise HandoverError(reason)

    def _scored(self, call: Call, table: NodeTable, rows: NodeRows, known: NodeRows) -> Points:
        """A score per place of a table; `known` are the same nodes in the cache."""
        soft_counts = self._soft_counts(call, known) if call.plan.counting.soft_counts else ()
        failed = self._calls.clause_failed
        return call.plan.scores(table, rows, call.frame, call.check, failed, soft_counts)

    def _soft_counts(self, call: Call, rows: NodeRows) -> list[Term]:
        snapshot = call.snapshot
        counter = self.placement.counter(snapshot.table, call.context())
        return call.plan.counting.terms(counter, snapshot.table, rows, call.frame, call.check)

    def _open(self, pod: bytes, nodes: int, deadline: float) -> Call:
        return self._calls.open(self._calls.read(pod), nodes, deadline)

    def _nodes(
        self, names: Sequence[str], nodes: Sequence[bytes] | None, call: Call
    ) -> tuple[NodeTable, NodeRows]:
        """The nodes to decide about.

        From the request's objects where it has them, with what the cache counts on them.
        """
        if nodes is not None:
            return self._offered.table(names, nodes, call.known)
        table = call.snapshot.table
        return table, table.find(names)

    def _noted(self, call: Call, names: Sequence[str], decided: Decision) -> Decision:
        if (journal := self.journal) is not None:
            self.later(lambda: journal.filtered(call, names, decided))
        return decided

    def _report(self, decided: Decision) -> None:
        for verdict, count in zip(decided.verdicts, decided.counts(), strict=True):
            if not count or isinstance(verdict, Feasible):
                continue
            if isinstance(verdict, Failed):
                self._observer.failed(verdict.policy, verdict.clause, verdict.error)
            self._observer.rejected(verdict.policy, verdict.clause, count)


def _now(act: Callable[[], None]) -> None:
    act()


def _unasked() -> Floats:
    raise AssertionError("only an answer to filter is narrowed to what suits best")


def _question(call: Call, rows: NodeRows, suits: Callable[[], Floats] = _unasked) -> Question:
    return Question(call.context(), call.snapshot.table, rows, call.frame, call.check, suits)

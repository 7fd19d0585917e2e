"""The verbs over a snapshot, the policies in force and a deadline; one call at a time."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Protocol

import numpy as np
from cachetools import LRUCache

from engine import filtering, scoring
from engine.asked import AskedPod, PodReader
from engine.cache.node_table import NodeTable, Places
from engine.cache.snapshot import Snapshot, rooted
from engine.counting.census import Asker, Pods
from engine.counting.ledger import Ledger
from engine.counting.placement import Placement, Question
from engine.counting.slots import deletion_cost
from engine.damper import Damper
from engine.errors import (
    DeadlineExceededError,
    EngineError,
    NotSyncedError,
    RefusedError,
    WaitingError,
)
from engine.inspection import Inspection
from engine.objects import ObjectCodec
from engine.offered import OfferedNodes
from engine.peer import Peer
from engine.plan import LazyFrame, Plan
from engine.preemption import Preemption, Victims
from engine.program.frame import Frame
from engine.registry import Registry
from engine.scoring import Floats, Term
from engine.verdict import Decision, Failed, Feasible, feasible
from grammar.errors import EvaluationError
from grammar.values.timestamp import Timestamp

# What plans may take together; at 5,000 nodes and three scores that is some 200 shapes of pods.
PLAN_BYTES = 64 << 20
# How long a pod may be on its way where nobody says that it is bound.
HOLD_SECONDS = 900.0


class ClusterView(Protocol):
    """What is known of the cluster."""

    def snapshot(self) -> Snapshot:
        """Raises NotSyncedError while not all is known."""
        ...

    @property
    def pods(self) -> Pods:
        """The pods of the last snapshot, for counting."""
        ...


class Decider(Protocol):
    """Who of several replicas decides by counts."""

    def waiting(self) -> str:
        """Why that is not this one now, or empty."""
        ...


class Alone:
    """The one replica there is."""

    def waiting(self) -> str:
        return ""


class Observer(Protocol):
    """What operators hear of decisions besides the answers."""

    def rejected(self, policy: str, clause: str, nodes: int) -> None: ...
    def failed(self, policy: str, clause: str, error: str) -> None: ...
    def would_reject(self, policy: str, clause: str, nodes: int) -> None: ...
    def conflict(self, winner: str, loser: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Admission:
    """A pod that may be bound, and what deleting it is to cost, if that is for us to say."""

    pod: Peer
    deletion_cost: int | None


@dataclass(frozen=True, slots=True)
class _Call:
    """One call: the pod, what is known of the cluster, and how such pods are decided."""

    asked: AskedPod
    snapshot: Snapshot | None
    plan: Plan
    frame: LazyFrame
    check: Callable[[], None]


class Engine:
    """Decides filter and prioritize calls.

    `registry` is replaced whole when policies change; `decider` may be replaced before there are
    calls. `listeners` are told of the uid and the JSON of each pod that filter is asked about.
    """

    def __init__(
        self,
        registry: Registry,
        view: ClusterView,
        codec: ObjectCodec,
        observer: Observer,
        *,
        hold_seconds: float = HOLD_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], Timestamp] = Timestamp.now,
    ) -> None:
        self.registry = registry
        self.decider: Decider = Alone()
        self.listeners: list[Callable[[str, bytes], None]] = []
        self._view = view
        self._codec = codec
        self._pods = PodReader(codec)
        self.placement = Placement(view, Ledger(clock, hold_seconds))
        self._offered = OfferedNodes(codec)
        self._observer = observer
        self._clock = clock
        self._now = now
        self._damper = Damper(clock)
        self._plans: LRUCache[Hashable, Plan] = LRUCache(PLAN_BYTES, lambda plan: plan.bytes)

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
        call = self._call(pod, names, deadline)
        for listener in self.listeners:
            listener(call.asked.uid, pod)
        if not names or (call.plan.selection.empty and not self.registry.counts):
            return feasible(len(names))
        table, places = self._nodes(names, nodes, call.snapshot)
        decided = call.plan.filter(table, places, call.frame, call.check)
        if self.registry.counts:
            decided = self._counted(call, names, decided)
        self._report(decided)
        for program, would in call.plan.audit(table, places, call.frame, call.check):
            for verdict, count in zip(would.verdicts, would.counts(), strict=True):
                if count and not isinstance(verdict, Feasible):
                    self._observer.would_reject(program.address, verdict.clause, count)
        if decided.codes.all() and self._damper.rejected(call.asked.uid):
            present = (v for v, n in zip(decided.verdicts, decided.counts(), strict=True) if n)
            raise EngineError("; ".join(v.reason for v in present if not isinstance(v, Feasible)))
        return decided

    def prioritize(
        self,
        pod: bytes,
        names: Sequence[str],
        nodes: Sequence[bytes] | None,
        deadline: float,
    ) -> Sequence[int] | None:
        """An integer 0..10 per node, in the order of `names`; None where no score applies."""
        call = self._call(pod, names, deadline)
        if not names or not call.plan.scored:
            return None
        table, places = self._nodes(names, nodes, call.snapshot)
        terms = call.plan.terms(table, places, call.frame, call.check, self._clause_failed)
        if call.plan.counting.wishes:
            terms += self._wishes(call, names)
        found = scoring.scores(terms)
        if self.registry.counts and call.snapshot is not None:
            best = call.snapshot.table.find([names[int(np.argmax(found))]])
            self.placement.ledger.predict(call.asked.uid, int(best[0]))
        scores: list[int] = found.tolist()
        return scores

    def preempt(
        self, pod: bytes, victims: Mapping[str, Victims], deadline: float
    ) -> Mapping[str, Victims]:
        """Those of the nodes where the pod may have others evicted, with their victims.

        Raises EngineError where there is no decision.
        """
        call = self._call(pod, (), deadline)
        selection = call.plan.selection
        if selection.unselectable:
            return {}
        programs = selection.enforced
        if not any(p.filters or p.counts or p.preempts for p in programs):
            return victims
        snapshot = call.snapshot or self._view.snapshot()
        if call.plan.counting.strict and (reason := self.decider.waiting()):
            raise WaitingError(reason)

        def has_room(places: Places, gone: Collection[Peer]) -> bool:
            asker = self._asker(call, snapshot)
            asked = Question(asker, snapshot.table, places, call.frame, call.check, _unasked)
            return self.placement.has_room(call.plan.counting, asked, gone)

        preemption = Preemption(
            programs, snapshot.table, call.frame(), has_room, call.check, self._clause_failed
        )
        return preemption.kept(victims)

    def admit(self, pod: bytes, node: str, deadline: float) -> Admission:
        """The last look before a pod is bound: `bind` clauses and strict counts hold on the node.

        Raises EngineError where they do not, or nobody can tell.
        """
        call = self._call(pod, (node,), deadline)
        snapshot = call.snapshot or self._view.snapshot()
        peer = rooted(self._codec.peer(pod), snapshot.workloads)
        selection = call.plan.selection
        clauses = [c for p in selection.enforced for c in p.filters if c.at_bind]
        view = snapshot.node(node)
        (finding,) = filtering.findings(clauses, call.frame(), [view], call.check)
        if finding is not None:
            raise RefusedError(finding.verdict(call.frame()).reason)
        if not call.plan.counting.strict:
            return Admission(peer, None)
        if reason := self.decider.waiting():
            raise WaitingError(reason)
        places = snapshot.table.find([node])
        asker = self._asker(call, snapshot)
        asked = Question(asker, snapshot.table, places, call.frame, call.check, _unasked)
        return Admission(peer, deletion_cost(self.placement.take(call.plan.counting, asked)))

    def inspect(self, pod: bytes) -> Inspection:
        """What there is to say about a pod, as filter and prioritize find it; answers nobody.

        Raises EngineError where there would be no decision.
        """
        call = self._call(pod, (), math.inf)
        snapshot = call.snapshot or self._view.snapshot()
        census = self.placement.census(snapshot.table, self._asker(call, snapshot))
        return Inspection(call.plan.selection, call.frame(), snapshot.table, census)

    def adopt(self, registry: Registry) -> None:
        """Decides by other policies from now on."""
        fresh = registry.counts and not self.registry.counts
        self.registry = registry
        if fresh and (snapshot := self._snapshot()) is not None:
            # Nobody has kept account of those on their way.
            self.take_over(snapshot)

    def pod_changed(self, old: Peer | None, new: Peer | None, revision: int) -> None:
        """For the cache to say what a pod was and is; see `PodListener`."""
        self.placement.ledger.changed(old, new, revision)

    def take_over(self, snapshot: Snapshot) -> None:
        """Whoever decided before may have sent any pending pod anywhere."""
        everywhere = np.arange(len(snapshot.table.views))
        self.placement.ledger.take_over(snapshot.pending.values(), snapshot.table.owner, everywhere)

    def _counted(self, call: _Call, names: Sequence[str], decided: Decision) -> Decision:
        """What the shares, spreads and limits leave of a decision."""
        if call.plan.counting.strict and (reason := self.decider.waiting()):
            raise WaitingError(reason)
        snapshot = call.snapshot or self._view.snapshot()
        places = snapshot.table.find(names)

        @cache
        def suits() -> Floats:
            terms = call.plan.terms(
                snapshot.table, places, call.frame, call.check, self._clause_failed
            )
            if call.plan.counting.wishes:
                terms += self._wishes(call, names)
            return scoring.scores(terms).astype(float) if terms else np.zeros(len(names))

        asker = self._asker(call, snapshot)
        question = Question(asker, snapshot.table, places, call.frame, call.check, suits)
        return self.placement.answer(call.plan.counting, question, decided)

    def _wishes(self, call: _Call, names: Sequence[str]) -> list[Term]:
        snapshot = call.snapshot or self._view.snapshot()
        census = self.placement.census(snapshot.table, self._asker(call, snapshot))
        places = snapshot.table.find(names)
        return call.plan.counting.terms(census, snapshot.table, places, call.frame, call.check)

    def _asker(self, call: _Call, snapshot: Snapshot) -> Asker:
        peer = rooted(self._codec.peer(call.asked.body), snapshot.workloads)
        root = snapshot.workloads.get(call.asked.controller)
        replicas = root.replicas if root is not None else None
        return Asker(peer, call.asked.revision, call.frame(), replicas, call.plan)

    def _call(self, pod: bytes, names: Sequence[str], deadline: float) -> _Call:
        asked, snapshot = self._pods.read(pod), self._snapshot()
        plan, frame = self._plan(asked, snapshot, len(names))
        return _Call(asked, snapshot, plan, frame, self._deadline(deadline))

    def _plan(
        self, asked: AskedPod, snapshot: Snapshot | None, nodes: int
    ) -> tuple[Plan, LazyFrame]:
        """The plan for the pod's shape, and the frame of this request, made when it is needed."""
        registry = self.registry
        namespace = root = None
        if snapshot is not None:
            namespace = snapshot.namespaces.get(asked.namespace)
            root = snapshot.workloads.get(asked.controller)

        @cache
        def frame() -> Frame:
            pod = asked.pod if root is None else replace(asked.pod, workload=root)
            return Frame(pod, self._now(), places=registry.places, namespace=namespace)

        # The plan keeps registry and namespace alive, so that their ids stay theirs.
        shape = registry.shapes.of(asked.body)
        key = (id(registry), id(namespace), asked.namespace, root, shape)
        plan = self._plans.get(key)
        if plan is None:
            plan = Plan(
                registry, asked.namespace, namespace, frame(), self._clause_failed, nodes=nodes
            )
            if not registry.timely:
                self._plans[key] = plan
        for loser in plan.selection.losers:
            assert plan.selection.governing is not None, "there is no loser without a winner"
            self._observer.conflict(plan.selection.governing.address, loser.address)
        return plan, frame

    def _snapshot(self) -> Snapshot | None:
        try:
            return self._view.snapshot()
        except NotSyncedError:
            return None

    def _nodes(
        self, names: Sequence[str], nodes: Sequence[bytes] | None, snapshot: Snapshot | None
    ) -> tuple[NodeTable, Places]:
        """The nodes to decide about.

        From the request's objects where it has them, with what the cache counts on them.
        """
        if nodes is not None:
            return self._offered.table(names, nodes, snapshot)
        table = (snapshot or self._view.snapshot()).table
        return table, table.find(names)

    def _deadline(self, deadline: float) -> Callable[[], None]:
        def check() -> None:
            if self._clock() > deadline:
                raise DeadlineExceededError("the decision took longer than the request may")

        return check

    def _report(self, decided: Decision) -> None:
        for verdict, count in zip(decided.verdicts, decided.counts(), strict=True):
            if not count or isinstance(verdict, Feasible):
                continue
            if isinstance(verdict, Failed):
                self._observer.failed(verdict.policy, verdict.clause, verdict.error)
            self._observer.rejected(verdict.policy, verdict.clause, count)

    def _clause_failed(self, policy: str, clause: str, error: EvaluationError) -> None:
        self._observer.failed(policy, clause, str(error))


def _unasked() -> Floats:
    raise AssertionError("only an answer to filter is narrowed to what suits best")

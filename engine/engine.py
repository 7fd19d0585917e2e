"""The verbs over a snapshot, the policies in force and a deadline; one call at a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from functools import cache
from typing import Protocol

from cachetools import LRUCache

from engine.asked import AskedPod, PodReader
from engine.cache.node_table import NodeTable, Places
from engine.cache.snapshot import Snapshot
from engine.damper import Damper
from engine.errors import DeadlineExceededError, EngineError, NotSyncedError
from engine.objects import ObjectCodec
from engine.offered import OfferedNodes
from engine.plan import LazyFrame, Plan
from engine.program.frame import Frame
from engine.program.program import ScoreProgram
from engine.registry import Registry
from engine.verdict import Decision, Failed, Feasible, feasible
from grammar.errors import EvaluationError
from grammar.values.timestamp import Timestamp

# What plans may take together; at 5,000 nodes and three scores that is some 200 shapes of pods.
PLAN_BYTES = 64 << 20


class ClusterView(Protocol):
    """Where snapshots come from; raises NotSyncedError while there is none."""

    def snapshot(self) -> Snapshot: ...


class Observer(Protocol):
    """What operators hear of decisions besides the answers."""

    def rejected(self, policy: str, clause: str, nodes: int) -> None: ...
    def failed(self, policy: str, clause: str, error: str) -> None: ...
    def would_reject(self, policy: str, clause: str, nodes: int) -> None: ...
    def conflict(self, winner: str, loser: str) -> None: ...


class Engine:
    """Decides filter and prioritize calls. `registry` is replaced whole when policies change."""

    def __init__(
        self,
        registry: Registry,
        view: ClusterView,
        codec: ObjectCodec,
        observer: Observer,
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], Timestamp] = Timestamp.now,
    ) -> None:
        self.registry = registry
        self._view = view
        self._pods = PodReader(codec)
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
        asked, snapshot = self._pods.read(pod), self._snapshot()
        plan, frame = self._plan(asked, snapshot, len(names))
        if plan.selection.empty or not names:
            return feasible(len(names))
        table, places = self._nodes(names, nodes, snapshot)
        check = self._deadline(deadline)
        decided = plan.filter(table, places, frame, check)
        self._report(decided)
        for program, would in plan.audit(table, places, frame, check):
            for verdict, count in zip(would.verdicts, would.counts(), strict=True):
                if count and not isinstance(verdict, Feasible):
                    self._observer.would_reject(program.address, verdict.clause, count)
        if decided.codes.all() and self._damper.rejected(asked.uid):
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
        asked, snapshot = self._pods.read(pod), self._snapshot()
        plan, frame = self._plan(asked, snapshot, len(names))
        if not names or not plan.scored:
            return None
        table, places = self._nodes(names, nodes, snapshot)
        return plan.scores(table, places, frame, self._deadline(deadline), self._score_failed)

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
                registry, asked.namespace, namespace, frame(), self._score_failed, nodes=nodes
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

    def _score_failed(self, clause: ScoreProgram, error: EvaluationError) -> None:
        self._observer.failed(clause.policy, clause.name, str(error))

"""How a call begins: the pod, what is known of the cluster, and the plan for pods of its shape."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Protocol

import msgspec
from cachetools import LRUCache

from engine.asked import AskedPod, PodReader
from engine.cache.snapshot import Snapshot, rooted
from engine.counting.census import Asker, Pods
from engine.errors import DeadlineExceededError, NotSyncedError
from engine.exemptions import Exemptions
from engine.objects import ObjectCodec
from engine.peer import Peer
from engine.plan import Plan
from engine.program.frame import Frame, LazyFrame
from engine.registry import Registry
from grammar.errors import EvaluationError
from grammar.values.timestamp import Timestamp

# What plans may take together; at 5,000 nodes and three scores that is some 200 shapes of pods.
PLAN_BYTES = 64 << 20


class ClusterView(Protocol):
    """What is known of the cluster."""

    def snapshot(self) -> Snapshot:
        """Raises NotSyncedError while not all is known."""
        ...

    @property
    def pods(self) -> Pods:
        """The pods of the last snapshot, for counting."""
        ...


class Observer(Protocol):
    """What operators hear of decisions besides the answers."""

    def rejected(self, policy: str, clause: str, nodes: int) -> None: ...
    def failed(self, policy: str, clause: str, error: str) -> None: ...
    def would_reject(self, policy: str, clause: str, nodes: int) -> None: ...
    def conflict(self, winner: str, loser: str) -> None: ...
    def bypassed(self, pod: str, uid: str, reason: str) -> None: ...


class Call(msgspec.Struct, frozen=True, eq=False):
    """One call. `known` is None while the cluster is not; `check` raises DeadlineExceededError."""

    asked: AskedPod
    known: Snapshot | None
    plan: Plan
    frame: LazyFrame
    check: Callable[[], None]
    view: ClusterView

    @property
    def snapshot(self) -> Snapshot:
        """Raises NotSyncedError."""
        return self.known or self.view.snapshot()

    def asker(self) -> Asker:
        """The pod as other pods see it. Raises NotSyncedError."""
        snapshot = self.snapshot
        asked, roots = self.asked, snapshot.workloads

        def peer() -> Peer:
            return rooted(asked.peer, roots)

        root = roots.get(asked.controller)
        replicas = root.replicas if root is not None else None
        frame = self.plan.frame if not self.plan.timely_counts else self.frame()
        return Asker(asked, peer, frame, self.check, replicas, self.plan)


class Calls:
    """Opens calls. `registry` is replaced whole when policies change."""

    def __init__(
        self,
        registry: Registry,
        view: ClusterView,
        codec: ObjectCodec,
        observer: Observer,
        exemptions: Exemptions,
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], Timestamp] = Timestamp.now,
    ) -> None:
        self.exemptions = exemptions
        self.registry = registry
        self.view = view
        self._observer = observer
        self._clock = clock
        self._now = now
        self._pods = PodReader(codec)
        self._plans: LRUCache[Hashable, Plan] = LRUCache(PLAN_BYTES, lambda plan: plan.bytes)

    def read(self, pod: bytes) -> AskedPod:
        """Raises BadObjectError."""
        return self._pods.read(pod)

    def open(self, asked: AskedPod, nodes: int, deadline: float) -> Call:
        """A call about so many nodes; `deadline` is in seconds of the clock. Raises EngineError."""
        known, check = self.snapshot(), self._deadline(deadline)
        exempt = self.exemptions.of(asked)
        if known is None and not exempt and not self.registry.complete:
            # It says what is missing.
            self.view.snapshot()
        plan, frame = self._plan(asked, known, nodes, check, exempt)
        return Call(asked, known, plan, frame, check, self.view)

    def snapshot(self) -> Snapshot | None:
        """The cluster, if all of it is known."""
        try:
            return self.view.snapshot()
        except NotSyncedError:
            return None

    def clause_failed(self, policy: str, clause: str, error: EvaluationError) -> None:
        """Operators hear of a clause that cannot be evaluated."""
        self._observer.failed(policy, clause, str(error))

    def _plan(
        self,
        asked: AskedPod,
        snapshot: Snapshot | None,
        nodes: int,
        check: Callable[[], None],
        exempt: str,
    ) -> tuple[Plan, LazyFrame]:
        """The plan for the pod's shape, and the frame of this request, made when it is needed."""
        registry = self.registry
        namespace = root = None
        if snapshot is not None:
            namespace = snapshot.namespaces.get(asked.namespace)
            root = snapshot.workloads.get(asked.controller)

        made: Frame | None = None

        def frame() -> Frame:
            nonlocal made
            if made is None:
                pod = asked.pod if root is None else replace(asked.pod, workload=root)
                now, places = self._now(), registry.places
                made = Frame(pod, now, places=places, namespace=namespace, check=check)
            return made

        # The plan keeps registry and namespace alive, so that their ids stay theirs.
        shape = asked.shape(registry.shapes)
        key = (id(registry), id(namespace), asked.namespace, root, exempt, shape)
        plan = self._plans.get(key)
        if plan is None:
            plan = Plan(
                registry,
                asked.namespace,
                namespace,
                frame(),
                self.clause_failed,
                nodes=nodes,
                exempt=exempt,
            )
            if not registry.timely:
                self._plans[key] = plan
        for loser in plan.selection.losers:
            assert plan.selection.governing is not None, "there is no loser without a winner"
            self._observer.conflict(plan.selection.governing.address, loser.address)
        return plan, frame

    def _deadline(self, deadline: float) -> Callable[[], None]:
        def check() -> None:
            if self._clock() > deadline:
                raise DeadlineExceededError("the decision took longer than the request may")

        return check

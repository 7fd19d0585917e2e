"""How a call begins: the pod, what is known of the cluster, and the plan for pods of its shape."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import msgspec
import numpy as np
from cachetools import LRUCache

from engine.cache.node_table import NodeRows, NodeTable, NodeView, view_of
from engine.cache.snapshot import Snapshot
from engine.counting.pod_counter import CountContext, KnownPods
from engine.decision.plan import Plan
from engine.decision.registry import Registry
from engine.errors import DeadlineExceededError, NotSyncedError
from engine.objects.codec import ObjectCodec
from engine.objects.peer import Peer, rooted
from engine.objects.request_pod import Exemptions, RequestPod, RequestPodReader
from engine.program.frame import Frame, LazyFrame
from grammar.errors import EvaluationError
from grammar.values.time import Timestamp

# What plans may take together; at 5,000 nodes and three scores that is some 200 shapes of pods.
PLAN_BYTES = 64 << 20


class ClusterView(Protocol):
    """What is known of the cluster."""

    def snapshot(self) -> Snapshot:
        """Raises NotSyncedError while not all is known."""
        ...

    @property
    def pods(self) -> KnownPods:
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

    asked: RequestPod
    known: Snapshot | None
    plan: Plan
    frame: LazyFrame
    check: Callable[[], None]
    view: ClusterView

    @property
    def snapshot(self) -> Snapshot:
        """Raises NotSyncedError."""
        return self.known or self.view.snapshot()

    def context(self) -> CountContext:
        """The pod as other pods see it. Raises NotSyncedError."""
        snapshot = self.snapshot
        asked, roots = self.asked, snapshot.workloads

        def peer() -> Peer:
            return rooted(asked.peer, roots)

        root = roots.get(asked.controller)
        replicas = root.replicas if root is not None else None
        frame = self.plan.frame if not self.plan.time_dependent_counts else self.frame()
        return CountContext(asked, peer, frame, self.check, replicas, self.plan)


class CallOpener:
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
        self._pods = RequestPodReader(codec)
        self._plans: LRUCache[Hashable, Plan] = LRUCache(PLAN_BYTES, lambda plan: plan.bytes)

    def read(self, pod: bytes) -> RequestPod:
        """Raises BadObjectError."""
        return self._pods.read(pod)

    def open(self, asked: RequestPod, nodes: int, deadline: float) -> Call:
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
        asked: RequestPod,
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
                now, slots = self._now(), registry.slots
                made = Frame(pod, now, slots=slots, namespace=namespace, check=check)
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
            if not registry.time_dependent:
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


# ---- Nodes as requests show them: decoded once per version, however often they are offered.

# Names come and go; a table with so many starts over.
_MOST_NODES = 20_000


@dataclass(frozen=True, slots=True)
class _Seen:
    """A node's JSON, and what the cache counted on it."""

    body: bytes
    counted: NodeView | None


class OfferedNodes:
    """A table of the nodes in the bodies of full-node requests."""

    def __init__(self, codec: ObjectCodec) -> None:
        self._codec = codec
        self._start_over()

    def _start_over(self) -> None:
        self._places: dict[str, int] = {}
        self._seen: list[_Seen | None] = [None]
        self._views: list[NodeView | None] = [None]
        self._versions = np.zeros(1, np.int64)
        self._owner = object()
        self._version = 0

    def table(
        self, names: Sequence[str], bodies: Sequence[bytes], snapshot: Snapshot | None
    ) -> tuple[NodeTable, NodeRows]:
        """The table, and the place of each of the offered nodes. Raises BadObjectError.

        The table is good until the next call.
        """
        if len(self._places) + len(names) > _MOST_NODES:
            self._start_over()
        counted = snapshot.node if snapshot is not None else (lambda _: None)
        changed = []
        found = np.empty(len(names), np.intp)
        for i, (name, body) in enumerate(zip(names, bodies, strict=True)):
            row = self._places.get(name)
            known = counted(name)
            if row is None:
                row = self._places[name] = len(self._seen)
                self._seen.append(None)
                self._views.append(None)
            seen = self._seen[row]
            if seen is None or seen.counted is not known or seen.body != body:
                self._views[row] = view_of(self._codec.node(body), known)
                self._seen[row] = _Seen(bytes(body), known)
                changed.append(row)
            found[i] = row
        if len(self._versions) < len(self._seen):
            more = np.zeros(len(self._seen) - len(self._versions), np.int64)
            self._versions = np.concatenate([self._versions, more])
        self._version += 1
        self._versions[changed] = self._version
        return NodeTable(self._owner, self._places, self._views, self._versions), found

"""The verbs over a snapshot, the policies in force and a deadline; one call at a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from engine import filtering, scoring
from engine.cache.snapshot import NodeView, Snapshot, view_of
from engine.damper import Damper
from engine.errors import DeadlineExceededError, EngineError, NotSyncedError
from engine.objects import ObjectCodec, Pod
from engine.program.frame import Frame
from engine.program.program import Program, ScoreProgram
from engine.registry import Registry, Selection
from engine.verdict import Failed, Feasible, Rejected, Verdict
from engine.workload import Workload
from grammar.errors import EvaluationError
from grammar.values.timestamp import Timestamp


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
        self._codec = codec
        self._observer = observer
        self._clock = clock
        self._now = now
        self._damper = Damper(clock)

    def filter(
        self,
        pod: bytes,
        names: Sequence[str],
        nodes: Sequence[bytes] | None,
        deadline: float,
    ) -> Sequence[Verdict]:
        """A verdict per node, in the order of `names`; `nodes` are their JSON in full-node mode.

        Raises EngineError where there is no decision: the view is not synced, the deadline (seconds
        of the clock) has passed, an object is not one, or the pod was rejected too often in a row.
        """
        decoded, frame, selection = self._select(pod)
        if selection.empty or not names:
            return [filtering.FEASIBLE] * len(names)
        views = self._candidates(names, nodes)
        check = self._deadline(deadline)
        verdicts = filtering.feasible(selection, frame, views, check)
        self._report(verdicts)
        for program in selection.audited:
            self._audit(program, frame, views, check)
        if not any(v is filtering.FEASIBLE for v in verdicts) and self._damper.rejected(
            decoded.uid
        ):
            raise EngineError(
                "; ".join(dict.fromkeys(v.reason for v in verdicts if not isinstance(v, Feasible)))
            )
        return verdicts

    def prioritize(
        self,
        pod: bytes,
        names: Sequence[str],
        nodes: Sequence[bytes] | None,
        deadline: float,
    ) -> Sequence[int] | None:
        """An integer 0..10 per node, in the order of `names`; None where no score applies."""
        _, frame, selection = self._select(pod)
        if not names or not any(p.scores for p in selection.enforced):
            return None
        views = self._candidates(names, nodes)
        terms = scoring.contributions(
            selection, frame, views, self._deadline(deadline), self._score_failed
        )
        return scoring.scores(terms, len(names))

    def _select(self, pod: bytes) -> tuple[Pod, Frame, Selection]:
        registry, snapshot = self.registry, self._snapshot()
        decoded = self._codec.pod(pod)
        namespace = None
        if snapshot is not None:
            decoded = _rooted(decoded, snapshot.workloads)
            namespace = snapshot.namespaces.get(decoded.namespace)
        frame = Frame(decoded, self._now(), places=registry.places, namespace=namespace)
        selection = registry.select(decoded.namespace, frame)
        for loser in selection.losers:
            assert selection.governing is not None, "there is no loser without a winner"
            self._observer.conflict(selection.governing.address, loser.address)
        return decoded, frame, selection

    def _snapshot(self) -> Snapshot | None:
        try:
            return self._view.snapshot()
        except NotSyncedError:
            return None

    def _candidates(
        self, names: Sequence[str], nodes: Sequence[bytes] | None
    ) -> list[NodeView | None]:
        """The nodes to decide about.

        From the request's objects where it has them, with what the cache counts on them.
        """
        if nodes is None:
            known = self._view.snapshot().nodes
            return [known.get(name) for name in names]
        snapshot = self._snapshot()
        cached = snapshot.nodes if snapshot is not None else {}
        return [
            view_of(self._codec.node(body), cached.get(name))
            for name, body in zip(names, nodes, strict=True)
        ]

    def _deadline(self, deadline: float) -> Callable[[], None]:
        def check() -> None:
            if self._clock() > deadline:
                raise DeadlineExceededError("the decision took longer than the request may")

        return check

    def _report(self, verdicts: Sequence[Verdict]) -> None:
        counts: dict[tuple[str, str], int] = {}
        for verdict in verdicts:
            if isinstance(verdict, Feasible):
                continue
            key = (verdict.policy, verdict.clause)
            if isinstance(verdict, Failed) and key not in counts:
                self._observer.failed(verdict.policy, verdict.clause, verdict.error)
            counts[key] = counts.get(key, 0) + 1
        for (policy, clause), nodes in counts.items():
            self._observer.rejected(policy, clause, nodes)

    def _audit(
        self,
        program: Program,
        frame: Frame,
        views: Sequence[NodeView | None],
        check: Callable[[], None],
    ) -> None:
        """What a policy in audit mode would have rejected; reported, never answered."""
        verdicts = filtering.feasible(Selection(guardrails=(program,)), frame, views, check)
        counts: dict[str, int] = {}
        for verdict in verdicts:
            if isinstance(verdict, Rejected | Failed):
                counts[verdict.clause] = counts.get(verdict.clause, 0) + 1
        for clause, nodes in counts.items():
            self._observer.would_reject(program.address, clause, nodes)

    def _score_failed(self, clause: ScoreProgram, error: EvaluationError) -> None:
        self._observer.failed(clause.policy, clause.name, str(error))


def _rooted(pod: Pod, workloads: Mapping[str, Workload]) -> Pod:
    """The pod with its root controller in place of the one that it names."""
    root = workloads.get(pod.workload.uid) if pod.workload is not None else None
    return pod if root is None else replace(pod, workload=root)

"""Explainer: answers why a pod would be placed as it would be now, on the event loop that decides.

It works in portions of a few milliseconds, and rests longer between them, so that decisions do not
wait. It asks the engine, offers nothing and records nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from aiohttp import web

from engine.cache.cluster_copy import NamedPod
from engine.cache.node_table import Snapshot
from engine.decision.journal import DecisionRecord, Journal
from engine.enforced import EnforcedPolicies
from engine.engine import Engine
from engine.errors import (
    BadObjectError,
    DeadlineExceededError,
    EngineError,
    NotSyncedError,
    UnknownNodeError,
)
from engine.explanation.analysis import Analysis, Analyst, PodQuestion
from engine.explanation.decision_document import detail
from engine.explanation.document import PodExplanation
from engine.explanation.explanation import Asker, explain, undecided
from engine.explanation.fills import FilledBound, fills_of
from engine.explanation.inspection import Inspection, PodResults
from engine.explanation.written import Values
from grammar.meaning.schema import Schema
from grammar.messages.texts import shown
from grammar.values.time import Timestamp
from server.view.routes import Answer, ViewQuestion
from server.view.turns import Line, done

# The rest after each portion.
_REST_SECONDS = 0.005


class Pods(Protocol):
    """Where the cluster is, and the whole JSON of pods: a replica keeps only a part of it."""

    def snapshot(self) -> Snapshot:
        """The cluster now. Raises NotSyncedError."""
        ...

    async def pods_named(self, keys: Collection[str]) -> Mapping[str, bytes]:
        """The JSON of pods by `namespace/name`, without those that are gone. Raises EngineError."""
        ...


class Explainer:
    """The explanations of one replica. `enforced` gives what is in force at this time."""

    def __init__(
        self,
        replica: str,
        engine: Engine,
        journal: Journal,
        pods: Pods,
        schema: Schema,
        enforced: Callable[[], EnforcedPolicies],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._replica = replica
        self._engine = engine
        self._journal = journal
        self._pods = pods
        self._schema = schema
        self._values = Values(schema)
        self._enforced = enforced
        self._clock = clock
        self._analyst: Analyst | None = None
        self._line = Line("the explanation", "several explanations have not ended")

    @property
    def answers(self) -> Mapping[str, Answer]:
        return {"explain": self.answer}

    async def answer(self, asked: ViewQuestion) -> object:
        """What would be decided about a pod now; with `node` also what is said of that node."""
        return await self.explain(**asked.names, node=asked.query.get("node"))

    async def fills(self, namespace: str, name: str) -> list[FilledBound]:
        """The fill of each bound that holds for a pod; nothing for a pod that is gone.

        Raises HTTPException and EngineError.
        """
        async with self._line.one():
            pod = await self._pod(namespace, name)
            inspection = Inspection.of(self._engine, pod.body)
            work = PodResults(inspection, sorted(inspection.table.rows), self._clock)
            return await done(fills_of(inspection, work, pod.node), _REST_SECONDS, self._clock)

    async def explain(
        self, namespace: str, name: str, node: str | None = None
    ) -> Callable[[], PodExplanation]:
        """What makes the answer, in a thread. Raises HTTPException and EngineError."""
        return await self._line.turn(self._explained(namespace, name, node))

    async def place(self, pod: NamedPod, node: str | None) -> Callable[[], PodExplanation]:
        """The same of a pod that is not in the cluster. Raises HTTPException and EngineError."""
        return await self._line.turn(self._analysed(pod, node, None, is_live=False))

    async def _explained(
        self, namespace: str, name: str, node: str | None
    ) -> Callable[[], PodExplanation]:
        pod = await self._pod(namespace, name)
        record = self._journal.find(namespace, name)
        return await self._analysed(pod, node, record, is_live=True)

    async def _analysed(
        self, pod: NamedPod, node: str | None, record: DecisionRecord | None, *, is_live: bool
    ) -> Callable[[], PodExplanation]:
        # What is enforced may change while this works; the texts are those of its beginning.
        analyst, at = self._analyst_now(), Timestamp.now()
        found: Analysis | str
        try:
            found = await done(analyst.work(PodQuestion(pod, node)), _REST_SECONDS, self._clock)
        except (UnknownNodeError, BadObjectError, DeadlineExceededError, NotSyncedError):
            raise
        except EngineError as error:
            found = str(error)
        asker = self._asker(record, self._journal.generation, is_live=is_live)
        if isinstance(found, str):
            problem = found
            return lambda: undecided(pod, at, analyst.policies, problem, asker())
        analysis = found
        return lambda: explain(analysis, self._values, asker())

    def _asker(
        self, record: DecisionRecord | None, generation: int, *, is_live: bool
    ) -> Callable[[], Asker]:
        """What makes the rest of a question, which can take long."""

        def made() -> Asker:
            then = None if record is None else detail(self._replica, record, generation)
            return Asker(self._replica, is_live=is_live, then=then)

        return made

    async def _pod(self, namespace: str, name: str) -> NamedPod:
        """The pod as kube-scheduler would send it."""
        key = f"{namespace}/{name}"
        found = await self._pods.pods_named((key,))
        if key not in found:
            raise web.HTTPNotFound(
                text=f"there is no pod `{shown(name)}` in `{shown(namespace)}`\n"
            )
        return NamedPod.of(found[key])

    def _analyst_now(self) -> Analyst:
        enforced = self._enforced()
        if self._analyst is None or self._analyst.policies is not enforced:
            self._analyst = Analyst(self._engine, enforced, self._schema, self._clock)
        return self._analyst

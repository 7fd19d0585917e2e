"""Explainer: answers why a pod would be placed as it would be now, on the event loop that decides.

It works in portions of a few milliseconds, and rests longer between them, so that decisions do not
wait. It asks the engine, offers nothing and records nothing.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import msgspec
from aiohttp import web

from engine.cache.cluster_copy import NamedPod
from engine.cache.informers import Needs
from engine.decision.journal import Journal
from engine.decision.verb_call import ClusterState
from engine.enforced import EnforcedPolicies
from engine.engine import Engine
from engine.explanation.document import PodDecision, PodExplanation, decided
from engine.explanation.explanation import Analyst, Asker, PodQuestion, Told
from engine.explanation.fills import BoundFill, fills_of
from engine.explanation.inspection import Inspection
from engine.explanation.reader import EVERYTHING, Reader
from grammar.meaning.schema import Schema
from grammar.messages.texts import shown
from server.view.routes import Answer
from server.view.turns import Line, done

# The rest after each portion.
_REST_SECONDS = 0.005


class WholeCluster(ClusterState, Protocol):
    """The cluster that a server knows; what is awaited raises EngineError."""

    def policies(self) -> Mapping[str, bytes] | None:
        """The JSON of policy objects by name; None while they are not known."""
        ...

    async def pods_named(self, keys: Collection[str]) -> Mapping[str, bytes]:
        """The whole JSON of pods by `namespace/name`, without those that are gone."""
        ...

    async def pods_on(self, node: str) -> Mapping[str, bytes | msgspec.Raw]:
        """The JSON of the pods on a node by `namespace/name`."""
        ...

    def documents(self, needs: Needs) -> AsyncIterator[bytes]:
        """The objects of the cluster in parts, as JSON."""
        ...


@dataclass(eq=False, slots=True)
class Explainer:
    """The explanations of one replica. `enforced` gives what is in force at this time."""

    replica: str
    engine: Engine
    journal: Journal
    cluster: WholeCluster
    schema: Schema
    enforced: Callable[[], EnforcedPolicies]
    clock: Callable[[], float] = time.monotonic
    _analyst: Analyst | None = field(default=None, init=False)
    _line: Line = field(default_factory=lambda: Line("explanation"), init=False)

    @property
    def answers(self) -> Mapping[str, Answer]:
        return {
            "explain": lambda asked: self.explain(
                **asked.names, node=asked.query.get("node"), reader=asked.reader
            )
        }

    async def fills(self, namespace: str, name: str) -> list[BoundFill]:
        """The fill of each bound that holds for a pod; nothing for a pod that is gone.

        Raises HTTPException and EngineError.
        """
        async with self._line.one():
            pod = await self._pod(namespace, name)
            inspection = Inspection(self.engine, pod.body, clock=self.clock)
            return await done(fills_of(inspection, pod.node), _REST_SECONDS, self.clock)

    async def explain(
        self, namespace: str, name: str, node: str | None = None, reader: Reader = EVERYTHING
    ) -> Callable[[], PodExplanation]:
        """What makes the answer, in a thread. Raises HTTPException and EngineError."""
        async with self._line.turn(reader.owner):
            pod = await self._pod(namespace, name)
            told = await self._told(PodQuestion(pod, node, reader=reader))
        then = self.recorded(namespace, name, reader)
        return lambda: told(Asker(self.replica, is_live=True, then=then and then()))

    def recorded(
        self, namespace: str, name: str, reader: Reader
    ) -> Callable[[], PodDecision] | None:
        """A function for the last decision about a pod, to call in a thread; None if it is gone."""
        if (record := self.journal.find(namespace, name)) is None:
            return None
        generation, log = self.journal.generation, self.engine.audits.log
        return partial(decided, self.replica, record, generation, log, reader)

    async def place(
        self, pod: NamedPod, node: str | None, reader: Reader
    ) -> Callable[[], PodExplanation]:
        """The same of a pod that is not in the cluster. Raises HTTPException and EngineError."""
        async with self._line.turn(reader.owner):
            told = await self._told(PodQuestion(pod, node, reader=reader))
        return partial(told, Asker(self.replica))

    async def _told(self, question: PodQuestion) -> Told:
        # What is enforced may change while this works; the texts are those of its beginning.
        enforced = self.enforced()
        if self._analyst is None or self._analyst.policies is not enforced:
            self._analyst = Analyst(self.engine, enforced, self.schema, self.clock)
        work = self._analyst.work(question)
        return await done(work, _REST_SECONDS, self.clock)

    async def _pod(self, namespace: str, name: str) -> NamedPod:
        """The pod as kube-scheduler would send it."""
        key = f"{namespace}/{name}"
        found = await self.cluster.pods_named((key,))
        if key not in found:
            raise web.HTTPNotFound(
                text=f"there is no pod `{shown(name)}` in `{shown(namespace)}`\n"
            )
        return NamedPod.of(found[key])

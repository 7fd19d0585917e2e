"""Drafts: policies that are not in force, and pods that are not there, for people who write them.

Texts that anybody may write are read in a process that can be killed, so that no decision waits for
them, and drafts are tried there, on a copy of the cluster. Nothing is written.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

import msgspec
from aiohttp import web

from engine.cache.cluster_copy import DataText
from engine.cache.informers import Needs
from engine.cache.pod_manifests import DEFAULT_NAMESPACE
from engine.enforced import EnforcedPolicies
from engine.simulation.pod_list import PodList
from engine.simulation.what_if import MOST_ADDED
from grammar.messages.diagnostics import UserError
from server.admission.checking_process import (
    CheckFailedError,
    CheckingProcess,
    CheckStoppedError,
    CheckTimeoutError,
)
from server.answers import PastedPod, SimulationQuestion, Trial, TriedDraft
from server.view import trial
from server.view.explaining import Explainer
from server.view.routes import Answer, ViewQuestion
from server.view.simulating import Simulator
from server.view.turns import Line

T = TypeVar("T")
# The process has a bound of processor time for each part, which a busy machine gives it late.
_CHECK_SECONDS, _TRIAL_SECONDS = 30.0, 60.0
# The process has the cluster that a draft is tried on: 150,000 small pods took 242 MiB.
DRAFT_MEMORY_MIB = 768
# For all lists of a cluster, and for all of a draft.
_CLUSTER_SECONDS, _MOST_SECONDS = 120.0, 240.0


@dataclass(eq=False, slots=True)
class Drafts:
    """The drafts of one replica, one at a time, in a process of their own; owners take turns.

    `enforced` and `objects` are as those of PolicyStates. `cluster` gives the objects of the
    cluster in parts, as JSON; it raises EngineError. `data` gives the tables that policies read.
    """

    process: CheckingProcess
    enforced: Callable[[], EnforcedPolicies]
    objects: Callable[[], Mapping[str, bytes] | None]
    cluster: Callable[[Needs], AsyncIterator[bytes]]
    data: Callable[[], Awaitable[Mapping[str, DataText]]]
    explainer: Explainer
    simulator: Simulator
    _line: Line = field(default_factory=lambda: Line("draft", _MOST_SECONDS), init=False)

    @property
    def answers(self) -> Mapping[str, Answer]:
        return {
            "check": self._told_by(trial.check_draft),
            "complete": self._told_by(trial.complete_draft),
            "evaluate": self.evaluate,
            "place": self.place,
            "simulate": self.simulate,
        }

    async def evaluate(self, asked: ViewQuestion) -> object:
        """What a draft changes in a pasted cluster, or in the cluster of the server."""
        body: Trial = asked.body
        async with self._line.turn(asked.reader.owner):
            beside = self._beside()
            if body.cluster is None:
                beside = replace(beside, data=await self.data())
            begun = await self._run(_CHECK_SECONDS, trial.begin, beside, body)
            if isinstance(begun, TriedDraft):
                return begun
            parts = self.cluster(begun) if body.cluster is None else _one(body.cluster.encode())
            try:
                async with asyncio.timeout(_CLUSTER_SECONDS):
                    async for part in parts:
                        await self._run(_CHECK_SECONDS, trial.take, part)
            except TimeoutError:
                text = f"the cluster could not be read in {_CLUSTER_SECONDS:g} s"
                remedy = " (paste a part of it)\n"
                raise web.HTTPServiceUnavailable(text=f"{text}{remedy}") from None
            return await self._run(_TRIAL_SECONDS, trial.finish)

    async def place(self, asked: ViewQuestion) -> object:
        """Where a pod of manifests would go by itself."""
        body: PastedPod = asked.body
        async with self._line.turn(asked.reader.owner):
            pod = await self._run(_CHECK_SECONDS, trial.pod_of, body.text, body.pod)
        return await self.explainer.place(pod, body.node, asked.reader)

    async def simulate(self, asked: ViewQuestion) -> object:
        """Where pods would go, if nodes came or were drained."""
        question: SimulationQuestion = asked.body
        if sum(each.count for each in question.addNodes) > MOST_ADDED:
            raise UserError(f"`addNodes` has more than {MOST_ADDED} nodes")
        owner = asked.reader.owner
        return await self.simulator.simulate(question, lambda: self._pods(question, owner), owner)

    async def _pods(self, question: SimulationQuestion, owner: str) -> PodList | None:
        """The pods of a question, if it has some. It waits for its turn."""
        if (listed := question.pods) is None:
            return None
        text = listed if isinstance(listed, str) else msgspec.json.encode(listed).decode()
        where = question.namespace or DEFAULT_NAMESPACE
        async with self._line.one(owner):
            found, wanted = await self._run(_TRIAL_SECONDS, trial.pods_of, text, where, {})
            if uids := await self.simulator.uids(wanted):
                found, _ = await self._run(_TRIAL_SECONDS, trial.pods_of, text, where, uids)
            return found

    def _told_by(self, function: Callable[..., object]) -> Answer:
        """The answer of a function about a draft beside the policies in force, in its turn."""

        async def answer(asked: ViewQuestion) -> object:
            async with self._line.turn(asked.reader.owner):
                return await self._run(_CHECK_SECONDS, function, self._beside(), asked.body)

        return answer

    def _beside(self) -> trial.Beside:
        """The policies in force."""
        files, objects = self.enforced().validation.files, dict(self.objects() or {})
        others = [
            (file.source.name, file.source.text)
            for file in files
            if not file.private and file.source.name not in objects
        ]
        return trial.Beside(others, objects)

    async def _run(self, seconds: float, function: Callable[..., T], *args: object) -> T:
        """The result of a function in the process, given the schema too.

        Raises UserError and HTTPException.
        """
        process = self.process
        arguments = (function, *args, process.schema)
        try:
            found: T | UserError = await asyncio.to_thread(
                lambda: process.run(seconds, trial.answered, *arguments)
            )
        except CheckStoppedError as error:
            is_late = isinstance(error, CheckTimeoutError)
            failure = web.HTTPServiceUnavailable if is_late else web.HTTPUnprocessableEntity
            raise failure(text=f"{error.message} ({error.hint})\n") from None
        except CheckFailedError:
            text = "the check failed (report this, with the draft)\n"
            raise web.HTTPUnprocessableEntity(text=text) from None
        if isinstance(found, UserError):
            raise found
        return found


async def _one(part: bytes) -> AsyncIterator[bytes]:
    yield part

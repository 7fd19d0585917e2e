"""Drafts: questions of people who write policies, about what is not in force or not there.

Each is another set of policies, or other pods and nodes, over a copy of the cluster; nothing is
offered, recorded or written. Texts that anybody may write are read, and drafts are tried, in a
process that can be killed. What is in force is simulated on the event loop that decides, in steps
of a few milliseconds.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec

from engine.cache.cache import Cache
from engine.cache.cluster_copy import ClusterCopy, DataText, copied
from engine.cache.pod_manifests import DEFAULT_NAMESPACE
from engine.cache.tallies import Scope
from engine.simulation.cycle import SimulationOptions
from engine.simulation.pod_list import PodList, PodReader
from engine.simulation.result import SimulationAnswer, answer_of, played
from engine.simulation.what_if import MOST_ADDED, WhatIf, prepared
from engine.work import Work
from grammar.messages.diagnostics import UserError
from grammar.values.time import Timestamp
from server.admission.checking_process import CheckFailedError, CheckingProcess, CheckStoppedError
from server.answers import MOST_PODS, PastedPod, SimulationQuestion, Trial, TriedDraft
from server.view import trial
from server.view.explaining import Explainer
from server.view.routes import Answer, ViewQuestion
from server.view.turns import STEP_SECONDS, Line, done

T = TypeVar("T")
# A job of the process, which a busy machine gives its processor time late; and all of a draft.
_JOB_SECONDS, _MOST_SECONDS = 60.0, 240.0
# The process has the cluster that a draft is tried on: 150,000 small pods took 242 MiB.
DRAFT_MEMORY_MIB = 768
# The time of a step of a simulation, in which a verb gets far enough, and the rest after it.
_STEP_SECONDS, _REST_SECONDS = 0.008, 0.001
_PODS_OF_A_PORTION = 32


@dataclass(eq=False, slots=True)
class Drafts:
    """The drafts and simulations of one replica, one of each at a time; owners take turns.

    `here` explains, and knows the replica. `data` gives the tables that policies read.
    """

    process: CheckingProcess
    here: Explainer
    data: Callable[[], Awaitable[Mapping[str, DataText]]]
    _drafts: Line = field(default_factory=lambda: Line("draft", _MOST_SECONDS), init=False)
    _simulations: Line = field(default_factory=lambda: Line("simulation"), init=False)

    @property
    def answers(self) -> Mapping[str, Answer]:
        return {
            "check": partial(self.told, trial.check_draft),
            "complete": partial(self.told, trial.complete_draft),
            "evaluate": self.evaluate,
            "place": self.place,
            "simulate": self.simulate,
        }

    async def told(self, function: Callable[..., object], asked: ViewQuestion) -> object:
        """What a function of the process says of a draft beside the policies in force."""
        async with self._drafts.turn(asked.reader.owner):
            return await self._run(function, self._beside(), asked.body)

    async def evaluate(self, asked: ViewQuestion) -> object:
        """What a draft changes in a pasted cluster, or in the cluster of the server."""
        body: Trial = asked.body
        async with self._drafts.turn(asked.reader.owner):
            data = await self.data() if body.cluster is None else {}
            begun = await self._run(trial.begin, self._beside(), body, data)
            if isinstance(begun, TriedDraft):
                return begun
            if body.cluster is not None:
                await self._run(trial.take, body.cluster.encode())
            else:
                async for part in self.here.cluster.documents(begun):
                    await self._run(trial.take, part)
            return await self._run(trial.finish)

    async def place(self, asked: ViewQuestion) -> object:
        """Where a pod of manifests would go by itself."""
        body: PastedPod = asked.body
        async with self._drafts.turn(asked.reader.owner):
            pod = await self._run(trial.pod_of, body.text, body.pod)
        return await self.here.place(pod, body.node, asked.reader)

    def _beside(self) -> trial.Beside:
        """The policies in force."""
        files, objects = self.here.enforced().validation.files, self.here.cluster.policies() or {}
        sources = [each.source for each in files if not each.private]
        own = [each for each in sources if each.name not in objects]
        return trial.Beside(own, dict(objects))

    async def _run(self, function: Callable[..., T], *args: object) -> T:
        """The result of a function in the process, given the schema too. Raises UserError."""
        process = self.process
        job = partial(process.run, _JOB_SECONDS, trial.answered, function, *args, process.schema)
        try:
            found: T | UserError = await asyncio.to_thread(job)
        except CheckFailedError:
            raise CheckStoppedError("the check failed", "report this, with the draft") from None
        if isinstance(found, UserError):
            raise found
        return found

    # ---- what is in force, on a copy

    async def simulate(self, asked: ViewQuestion) -> Callable[[], SimulationAnswer]:
        """A function for where pods would go if nodes came or were drained, to call in a thread."""
        question: SimulationQuestion = asked.body
        if sum(each.count for each in question.addNodes) > MOST_ADDED:
            raise UserError(f"`addNodes` has more than {MOST_ADDED} nodes")
        self.here.cluster.snapshot()
        async with self._simulations.turn(asked.reader.owner):
            pods = await self._pods(question, asked.reader.owner)
            bodies = dict[str, bytes | msgspec.Raw]()
            for node in question.drain:
                if self.here.cluster.snapshot().node(node) is not None:
                    bodies.update(await self.here.cluster.pods_on(node))
            change = WhatIf(question.addNodes, question.drain, bodies)
            with _young_garbage_only():
                return await self._simulated(question, change, pods)

    async def _pods(self, question: SimulationQuestion, owner: str) -> PodList | None:
        """The pods of a question, if it has some. It waits for its turn."""
        if (listed := question.pods) is None:
            return None
        text = listed if isinstance(listed, str) else msgspec.json.encode(listed).decode()
        where = question.namespace or DEFAULT_NAMESPACE
        async with self._drafts.one(owner):
            found, wanted = await self._run(trial.pods_of, text, where, {})
            work = _uids(self.here.cluster.pods, wanted)
            if uids := await done(work, 0.0, self.here.clock, STEP_SECONDS):
                found, _ = await self._run(trial.pods_of, text, where, uids)
            return found

    async def _simulated(
        self, question: SimulationQuestion, change: WhatIf, pods: PodList | None
    ) -> Callable[[], SimulationAnswer]:
        engine = self.here.engine
        options = SimulationOptions(
            weight=question.weight,
            plugins=question.pluginScores,
            most=MOST_PODS,
            portion=STEP_SECONDS,
            real=self.here.clock,
            tables=engine.tables,
            exemptions=engine.exemptions,
        )
        held = {pod: node for part in engine.parts for pod, node in part.held_pods().items()}
        # Nothing is kept of the copy but the answer.
        with closing(await self._done(copied(self.here.cluster.pods))) as copy:
            cluster = ClusterCopy(copy, read_at=Timestamp.now())
            if pods is None and not question.drain:
                pods = await self._done(_waiting(copy, question.namespace))
            ready = await self._done(
                prepared(cluster, engine.codec, engine.registry, pods, options, change)
            )
            made = await self._done(played(ready.simulation, ready.changed))
            # To give the copy back is a step by itself.
            await asyncio.sleep(0)
        notes, replica = pods.notes if pods is not None else (), self.here.replica
        answer = partial(answer_of, ready.simulation, made, ready.changed, notes, replica)
        return lambda: msgspec.structs.replace(answer(), held=held)

    async def _done(self, work: Work[T]) -> T:
        return await done(work, _REST_SECONDS, self.here.clock, _STEP_SECONDS / 2)


@contextmanager
def _young_garbage_only() -> Iterator[None]:
    """Without full collections of garbage, each of which would look at the copy in one step."""
    usual = gc.get_threshold()
    # More young collections than these come in no simulation.
    gc.set_threshold(*usual[:2], 1_000_000)
    try:
        yield
    finally:
        gc.set_threshold(*usual)


def _uids(cache: Cache, wanted: trial.Keys) -> Work[trial.KnownUids]:
    """The uids of workloads that have pods in the cluster."""
    found: dict[tuple[str, str], str] = {}
    for space in sorted({key.partition("/")[0] for _, key in wanted}):
        for _, pod in cache.within(Scope(space)):
            if (root := pod.workload) is not None:
                key = root.kind, f"{space}/{root.name}"
                if key in wanted:
                    found[key] = root.uid
            yield
    return found


def _waiting(cache: Cache, namespace: str) -> Work[PodList]:
    """The pods of a cluster that wait: of a namespace, or of all if it is empty."""
    reader = PodReader(Path("the cluster"), most=MOST_PODS)
    for number, pod in enumerate(cache.snapshot().pending.values(), 1):
        body = cache.body(pod.uid)
        if body is not None and namespace in ("", pod.namespace):
            reader.add({"kind": "Pod", **msgspec.json.decode(body)})
        if not number % _PODS_OF_A_PORTION:
            yield
    if not reader.bodies:
        where = f"in the namespace `{namespace}`" if namespace else "in the cluster"
        raise UserError(f"no pod waits {where}", "give some in `pods`, or nodes in `drain`")
    return reader.read()

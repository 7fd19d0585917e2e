"""Explainer: answers why a pod would be placed as it would be now, on the event loop that decides.

It works in portions of a few milliseconds, and rests longer between them, so that decisions do not
wait. It asks the engine, offers nothing and records nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import msgspec
import numpy as np
from aiohttp import web

from engine.cache.names import KnownRows
from engine.counting.groups import Mask
from engine.decision.inspection import Contribution, Objection
from engine.decision.journal import DecisionRecord, Journal, concerned, recorded_counts
from engine.decision.registry import Selection
from engine.engine import Engine
from engine.errors import DeadlineExceededError, EngineError, NotSyncedError
from engine.explanation.application import application
from engine.explanation.evidence import clauses_on, scores_on
from engine.explanation.evidence_document import ClauseOnNode, clauses_document, scores_document
from engine.explanation.portions import PodResults, Work
from engine.explanation.value_text import Values
from engine.explanation.written import ClauseResults, WrittenClauses
from grammar.checker.policy_checker import Checked
from grammar.meaning.schema import Schema
from grammar.messages.texts import shown
from grammar.values.time import SECOND, Timestamp
from policies.validation import CheckedFile
from server.answers.explanation_answers import (
    Change,
    ClauseSummary,
    ConcernedPolicy,
    NearestMiss,
    NodeExplanation,
    NodeGroup,
    PodExplanation,
    RejectingClause,
)
from server.answers.view_answers import (
    ClauseCounts,
    DecisionDetail,
    NodeScore,
    Reason,
    clause_counts,
    detail,
)
from server.view.changes import changes

T = TypeVar("T")
# Explanations that wait for their turn, and the seconds of one.
_MOST_WAITING, _MOST_SECONDS = 4, 20.0
_MOST_NEAREST = 20
# The rest after each portion.
_REST_SECONDS = 0.005
_CAVEAT = (
    "kube-scheduler asks only about nodes that passed its own plugins, which this does not show;"
    " the event FailedScheduling of the pod counts the others"
)


class Pods(Protocol):
    """Where the whole JSON of pods is: a replica keeps only a part of it."""

    async def pod(self, namespace: str, name: str) -> bytes | None:
        """The JSON of a pod, None if there is none. Raises EngineError and ClusterFileError."""
        ...


class Enforced(Protocol):
    """The policies in force, with their texts."""

    @property
    def policies(self) -> Sequence[Checked]: ...
    @property
    def texts(self) -> Sequence[CheckedFile]: ...


@dataclass(frozen=True, slots=True)
class _FoundPod:
    """What the event loop has found about a pod; the answer is made of it in a thread."""

    pod: str
    on: str
    at: Timestamp
    policies: Sequence[ConcernedPolicy]
    results: ClauseResults
    nearest: Sequence[NearestMiss]
    now: DecisionDetail
    then: DecisionRecord | None
    generation: int
    node: NodeExplanation | None


class Explainer:
    """The explanations of one replica. `enforced` gives the policies and texts of this time."""

    def __init__(
        self,
        replica: str,
        engine: Engine,
        journal: Journal,
        pods: Pods,
        schema: Schema,
        enforced: Callable[[], Enforced],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._replica = replica
        self._engine = engine
        self._journal = journal
        self._pods = pods
        self._values = Values(schema)
        self._enforced = enforced
        self._clock = clock
        self._written: tuple[Enforced, WrittenClauses] | None = None
        self._one = asyncio.Lock()
        self._waiting = 0

    async def explain(
        self, namespace: str, name: str, node: str | None
    ) -> Callable[[], PodExplanation]:
        """What makes the answer, in a thread. Raises HTTPException."""
        if self._waiting >= _MOST_WAITING:
            raise web.HTTPTooManyRequests(text="several explanations have not ended\n")
        self._waiting += 1
        try:
            async with asyncio.timeout(_MOST_SECONDS), self._one:
                found = await self._found(namespace, name, node)
        except TimeoutError:
            text = f"the explanation takes longer than {_MOST_SECONDS:.0f} s\n"
            raise web.HTTPServiceUnavailable(text=text) from None
        except (DeadlineExceededError, NotSyncedError) as error:
            raise web.HTTPServiceUnavailable(text=f"{error}\n") from None
        except EngineError as error:
            raise web.HTTPConflict(text=f"{error}\n") from None
        finally:
            self._waiting -= 1
        return lambda: self._answer(found)

    async def _found(self, namespace: str, name: str, node: str | None) -> _FoundPod:
        key = f"{namespace}/{name}"
        body, on = await self._pod(namespace, name)
        # What is enforced may change while this works; the texts are those of the inspection.
        inspection, written = self._engine.inspect(body), self._clauses()
        programs = self._engine.registry.programs
        table = inspection.table
        if node is not None and node not in table.rows:
            raise web.HTTPNotFound(text=f"there is no node `{shown(node)}`\n")
        work = PodResults(inspection, sorted(table.rows), self._clock)
        results = await self._done(work.work())
        given = await self._done(work.contributions(list(results.scores)))
        selection = inspection.selection
        nearest = []
        for index, objection in _alone(results):
            nearest.append(self._miss(results, written, index, objection))
            await asyncio.sleep(0)
        policies = [
            ConcernedPolicy(p.address, *application(p, selection, inspection.frame))
            for p in programs
            if p.namespace in (None, namespace)
        ]
        about = None
        if node is not None:
            await self._done(work.counts(node))
            about = await self._node(results, written, given, node)
        await asyncio.sleep(0)
        at = inspection.frame.now
        known_rows = KnownRows(table.find(results.names), table.rows)
        counts = [clause_counts(c) for c in recorded_counts(work.headrooms, known_rows)]
        now = _decision(self._replica, key, at, selection, counts, results)
        journal = self._journal
        then = journal.find(namespace, name)
        return _FoundPod(
            key, on, at, policies, results, nearest, now, then, journal.generation, about
        )

    async def _pod(self, namespace: str, name: str) -> tuple[bytes, str]:
        """The pod as kube-scheduler would send it, and its node."""
        try:
            body = await self._pods.pod(namespace, name)
        except EngineError as error:
            raise web.HTTPServiceUnavailable(text=f"{error}\n") from None
        if body is None:
            raise web.HTTPNotFound(
                text=f"there is no pod `{shown(name)}` in `{shown(namespace)}`\n"
            )
        pod = msgspec.json.decode(body)
        on = (pod.get("spec") or {}).pop("nodeName", None)
        return msgspec.json.encode(pod), on or ""

    async def _done(self, work: Work[T]) -> T:
        """The result of work that is done in portions, with a rest after each."""
        while True:
            try:
                next(work)
            except StopIteration as end:
                found: T = end.value
                return found
            await asyncio.sleep(_REST_SECONDS)

    def _clauses(self) -> WrittenClauses:
        enforced = self._enforced()
        if self._written is None or self._written[0] is not enforced:
            made = WrittenClauses(enforced.policies, enforced.texts)
            self._written = enforced, made
        return self._written[1]

    def _miss(
        self, results: ClauseResults, written: WrittenClauses, index: int, against: Objection
    ) -> NearestMiss:
        name = results.names[index]
        clause = written.find(against.policy, against.name)
        text = clause.detail(results.inspection.frame_at(name))
        return NearestMiss(name, _clause(against), text)

    async def _node(
        self,
        results: ClauseResults,
        written: WrittenClauses,
        given: Sequence[Contribution],
        name: str,
    ) -> NodeExplanation:
        scored = list(results.scores)
        index = scored.index(name) if name in results.scores else 0
        terms = list(scores_on(written, results, given, name))
        clauses: list[ClauseOnNode] = []
        for clause in clauses_on(written, results, name):
            clauses += clauses_document([clause], self._values)
            await asyncio.sleep(0)
        return NodeExplanation(
            name,
            results.holds(name),
            results.scores.get(name),
            clauses,
            scores_document(terms, index, self._values),
        )

    def _answer(self, found: _FoundPod) -> PodExplanation:
        then = None
        if found.then is not None:
            then = detail(self._replica, found.then, found.generation)
        different: Sequence[Change] = () if then is None else changes(then, found.now)
        results = found.results
        ranked = sorted(results.scores.items(), key=lambda pair: (-pair[1], pair[0]))
        return PodExplanation(
            replica=self._replica,
            pod=found.pod,
            at=found.now.at,
            on=found.on or None,
            policies=found.policies,
            nodes=len(results.names),
            passing=found.now.passing,
            groups=_groups(results),
            clauses=_summaries(results),
            nearest=found.nearest,
            scores=[NodeScore(n, score) for n, score in ranked] if ranked else None,
            then=then,
            changes=different,
            node=found.node,
            caveat=_CAVEAT,
        )


def _clause(objection: Objection) -> RejectingClause:
    return RejectingClause(objection.policy, objection.name, objection.text)


def _refusing(results: ClauseResults) -> Mapping[bytes, list[int]]:
    """The indexes of the nodes by the clauses that reject them, each clause as a bit."""
    found: dict[bytes, list[int]] = {}
    if not results.objections:
        return {b"": list(range(len(results.names)))} if results.names else {}
    bits = np.packbits(np.array([o.refused for o in results.objections]), axis=0)
    for index, column in enumerate(np.ascontiguousarray(bits.T)):
        found.setdefault(column.tobytes(), []).append(index)
    return found


def _groups(results: ClauseResults) -> list[NodeGroup]:
    """The group that passes first, then the largest."""
    found = []
    broken = [
        RejectingClause(u.program.address, "for", f"its `for` cannot be evaluated: {u.error}")
        for u in results.inspection.selection.unselectable
    ]
    for indexes in _refusing(results).values():
        against = [_clause(o) for o in results.objections if o.refused[indexes[0]]]
        names = [results.names[index] for index in indexes]
        found.append(NodeGroup([*broken, *against], len(names), names))
    return sorted(found, key=lambda g: (bool(g.rejectedBy), -g.nodes, g.names[0]))


def _refused(results: ClauseResults) -> Mask:
    shape = len(results.objections), len(results.names)
    return np.array([o.refused for o in results.objections], np.bool_).reshape(shape)


def _alone(results: ClauseResults) -> Iterable[tuple[int, Objection]]:
    """The first nodes that one clause alone rejects, by index, with this clause."""
    refused = _refused(results)
    if results.inspection.selection.unselectable or not len(refused):
        return
    for index in np.flatnonzero(refused.sum(axis=0) == 1)[:_MOST_NEAREST].tolist():
        yield index, results.objections[int(np.argmax(refused[:, index]))]


def _summaries(results: ClauseResults) -> list[ClauseSummary]:
    refused = _refused(results)
    counts = refused.sum(axis=0)
    return [
        ClauseSummary(
            each.policy,
            each.name,
            int(row.sum()),
            int((row & (counts == 1)).sum()),
            len(each.errors),
        )
        for each, row in zip(results.objections, refused, strict=True)
    ]


def _decision(
    replica: str,
    key: str,
    at: Timestamp,
    selection: Selection,
    counts: Sequence[ClauseCounts],
    results: ClauseResults,
) -> DecisionDetail:
    """What would be decided now, in the form of a decision; its reasons have only the nodes."""
    policies = concerned(selection)
    counted: list[int] = _refused(results).sum(axis=0).tolist()
    pairs = list(zip(results.names, counted, strict=True))
    holds = not selection.unselectable
    passed = [name for name, fails in pairs if holds and not fails]
    rejected = [name for name, fails in pairs if fails or not holds]
    return DecisionDetail(
        number=0,
        pod=key,
        at=str(Timestamp(at.nanos // SECOND * SECOND)),
        offered=len(results.names),
        passing=len(passed),
        governing=policies.governing,
        error=None,
        seconds=None,
        scoredSeconds=None,
        replica=replica,
        uid="",
        generation=0,
        policiesChanged=False,
        guardrails=policies.guardrails,
        gaveWay=policies.losers,
        audited=policies.audited,
        digests=policies.digests,
        counts=counts,
        passed=passed,
        reasons=[Reason("", "", "", "", "", len(rejected), rejected)],
        scores=None,
    )

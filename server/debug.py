"""Debug pages: `/debug/cache` and `/debug/decisions`, as JSON.

`placet explain --server` decodes the decisions with the structs of this module.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import msgspec
from aiohttp import web

from engine.decision.journal import Journal, Record, RecordedVerdicts
from engine.decision.verdict import Failed, Feasible, Verdict, full_reason
from engine.errors import EngineError
from grammar.values.time import SECOND, Timestamp


class Reason(msgspec.Struct, frozen=True):
    """The reason for some rejected nodes: `text` in full, `message` as the pod's event shows it.

    `error` is the evaluation error of the clause, empty if there was none.
    """

    text: str
    policy: str
    clause: str
    message: str
    error: str
    nodes: int
    names: Sequence[str]


class NodeScore(msgspec.Struct, frozen=True):
    """The score of one node, 0..10."""

    node: str
    score: int


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """The last call about a pod in short; `error` is the text sent instead of a decision."""

    pod: str
    at: str
    offered: int
    passing: int
    governing: str | None
    error: str | None


class Listing(msgspec.Struct, frozen=True):
    """The stored decisions, newest first."""

    decisions: Sequence[Summary]


class DecisionDetail(Summary, frozen=True, kw_only=True):
    """The last call about a pod in full.

    `policiesChanged` says whether the policies have changed since. `passed` is null if no policy
    selects the pod and every node passes; `scores` is null if there was no prioritize call, or no
    score applies.
    """

    uid: str
    generation: int
    policiesChanged: bool
    guardrails: Sequence[str]
    gaveWay: Sequence[str]
    audited: Sequence[str]
    passed: Sequence[str] | None
    reasons: Sequence[Reason]
    scores: Sequence[NodeScore] | None


def _summary(record: Record) -> Summary:
    passing = 0 if record.error else record.offered
    if record.answered is not None:
        passing = int((record.answered.codes == 0).sum())
    return Summary(
        pod=f"{record.namespace}/{record.name}",
        at=str(Timestamp(record.at.nanos // SECOND * SECOND)),
        offered=record.offered,
        passing=passing,
        governing=record.policies.governing,
        error=record.error or None,
    )


def _detail(record: Record, generation: int) -> DecisionDetail:
    groups = list(_groups(record.answered)) if record.answered is not None else None
    passed = [n for v, names in groups or () if isinstance(v, Feasible) for n in names]
    return DecisionDetail(
        **msgspec.structs.asdict(_summary(record)),
        uid=record.uid,
        generation=record.generation,
        policiesChanged=record.generation != generation,
        guardrails=record.policies.guardrails,
        gaveWay=record.policies.losers,
        audited=record.policies.audited,
        passed=None if groups is None else passed,
        reasons=_reasons(groups or ()),
        scores=_scores(record),
    )


def _groups(answered: RecordedVerdicts) -> Iterator[tuple[Verdict, Sequence[str]]]:
    """Each verdict with the names of its nodes, sorted."""
    found: dict[int, list[str]] = {}
    for code, name in zip(answered.codes.tolist(), answered.nodes.names(), strict=True):
        found.setdefault(code, []).append(name)
    for code in sorted(found):
        yield answered.verdicts[code], sorted(found[code])


def _reasons(groups: Sequence[tuple[Verdict, Sequence[str]]]) -> Sequence[Reason]:
    """The reasons, the most frequent first."""
    found = [
        Reason(
            full_reason(verdict.policy, verdict.clause, verdict.reason),
            verdict.policy,
            verdict.clause,
            verdict.reason,
            verdict.error if isinstance(verdict, Failed) else "",
            len(names),
            names,
        )
        for verdict, names in groups
        if not isinstance(verdict, Feasible)
    ]
    return sorted(found, key=lambda reason: (-reason.nodes, reason.text))


def _scores(record: Record) -> Sequence[NodeScore] | None:
    """The scores, the best first."""
    if record.scored is None:
        return None
    pairs = zip(record.scored.nodes.names(), record.scored.points.tolist(), strict=True)
    return [NodeScore(n, s) for n, s in sorted(pairs, key=lambda pair: (-pair[1], pair[0]))]


# ---- the pages


class Inspection(Protocol):
    """The view of a watched cluster, as shown on `/debug/cache`."""

    def status(self) -> Mapping[str, object]:
        """The state of each watched resource, as JSON."""
        ...

    async def compare(self) -> Mapping[str, object]:
        """The differences from the API server, as JSON. Raises EngineError."""
        ...


class CachePage:
    """`/debug/cache`. A comparison lists every object of the cluster: it is not for probes."""

    def __init__(self, inspection: Inspection) -> None:
        self._inspection = inspection

    async def show(self, request: web.Request) -> web.Response:
        """The state of each watched resource; with `compare=1` its differences instead."""
        if request.query.get("compare", "0") in ("0", ""):
            return _json(self._inspection.status())
        try:
            return _json(await self._inspection.compare())
        except EngineError as error:
            return web.Response(status=503, text=f"{error}\n")


class Decisions:
    """`/debug/decisions`, from the journal: why a pod is pending, or why it is on its node."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    async def index(self, _request: web.Request) -> web.Response:
        """A summary for each pod in the journal."""
        return _json(Listing([_summary(record) for record in self._journal]))

    async def show(self, request: web.Request) -> web.Response:
        """The last call about one pod."""
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        record = self._journal.find(namespace, name)
        if record is None:
            text = f"there is no recent decision about {namespace}/{name}\n"
            return web.Response(status=404, text=text)
        return _json(_detail(record, self._journal.generation))


def _json(content: Mapping[str, object] | msgspec.Struct) -> web.Response:
    body = msgspec.json.format(msgspec.json.encode(content))
    return web.Response(body=body + b"\n", content_type="application/json")

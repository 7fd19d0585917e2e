"""What `/debug/decisions` tells of the last calls, as JSON; `placet explain --server` reads it."""

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
    """Why some nodes were rejected: `text` is all of it, `message` what the pod's event shows.

    `error` is what went wrong with the evaluation of the clause, empty if nothing did.
    """

    text: str
    policy: str
    clause: str
    message: str
    error: str
    nodes: int
    names: Sequence[str]


class NodeScore(msgspec.Struct, frozen=True):
    """A score 0..10 for one node."""

    node: str
    score: int


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """One line about a pod; `error` is the text that was sent in place of a decision, or null."""

    pod: str
    at: str
    offered: int
    passing: int
    governing: str | None
    error: str | None


class Listing(msgspec.Struct, frozen=True):
    """Those that are kept, the newest first."""

    decisions: Sequence[Summary]


class DecisionDetail(Summary, frozen=True, kw_only=True):
    """All about one pod.

    `policiesChanged` says that others are in force since. `passed` is null where no policy concerns
    the pod and every node passes, `scores` where none were asked for or none apply.
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


class Decisions:
    """The journal of an engine, to be read from outside."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def list(self) -> Listing:
        return Listing([_summary(record) for record in self._journal])

    def find(self, namespace: str, name: str) -> DecisionDetail | None:
        """The last call about a pod; None if it is not known."""
        record = self._journal.find(namespace, name)
        return None if record is None else _told(record, self._journal.generation)


def _summary(record: Record) -> Summary:
    return Summary(
        pod=f"{record.namespace}/{record.name}",
        at=str(Timestamp(record.at.nanos // SECOND * SECOND)),
        offered=record.offered,
        passing=_passing(record),
        governing=record.policies.governing,
        error=record.error or None,
    )


def _told(record: Record, generation: int) -> DecisionDetail:
    groups = list(_groups(record.answered)) if record.answered is not None else None
    return DecisionDetail(
        **msgspec.structs.asdict(_summary(record)),
        uid=record.uid,
        generation=record.generation,
        policiesChanged=record.generation != generation,
        guardrails=record.policies.guardrails,
        gaveWay=record.policies.losers,
        audited=record.policies.audited,
        passed=None if groups is None else _passed(groups),
        reasons=_reasons(groups or ()),
        scores=_scores(record),
    )


def _passing(record: Record) -> int:
    if record.answered is not None:
        return int((record.answered.codes == 0).sum())
    return 0 if record.error else record.offered


def _groups(answered: RecordedVerdicts) -> Iterator[tuple[Verdict, Sequence[str]]]:
    """The nodes of each verdict, by name."""
    found: dict[int, list[str]] = {}
    for code, name in zip(answered.codes.tolist(), answered.nodes.names(), strict=True):
        found.setdefault(code, []).append(name)
    for code in sorted(found):
        yield answered.verdicts[code], sorted(found[code])


def _passed(groups: Sequence[tuple[Verdict, Sequence[str]]]) -> Sequence[str]:
    return [n for verdict, names in groups if isinstance(verdict, Feasible) for n in names]


def _reasons(groups: Sequence[tuple[Verdict, Sequence[str]]]) -> Sequence[Reason]:
    """The most frequent first."""
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
    """The best first."""
    if record.scored is None:
        return None
    pairs = zip(record.scored.nodes.names(), record.scored.points.tolist(), strict=True)
    return [NodeScore(n, s) for n, s in sorted(pairs, key=lambda pair: (-pair[1], pair[0]))]


# ---- `/debug/…`: what is known of the cluster, whether that is so, and what was decided last.


class Inspection(Protocol):
    """What can be told of a view of the cluster."""

    def status(self) -> Mapping[str, object]:
        """What is known, as JSON."""
        ...

    async def compare(self) -> Mapping[str, object]:
        """The differences to the API server, as JSON. Raises EngineError."""
        ...


class CachePages:
    """For people with a suspicion. Comparing lists everything: it is not for probes."""

    def __init__(self, inspection: Inspection) -> None:
        self._inspection = inspection

    async def cache(self, request: web.Request) -> web.Response:
        """The state of each resource that is watched; with `compare=1` what is wrong with it."""
        if request.query.get("compare", "0") in ("0", ""):
            return _json(self._inspection.status())
        try:
            return _json(await self._inspection.compare())
        except EngineError as error:
            return web.Response(status=503, text=f"{error}\n")


class DecisionPages:
    """For people with a pod that is pending, or is where it should not be."""

    def __init__(self, decisions: Decisions) -> None:
        self._decisions = decisions

    async def every(self, _request: web.Request) -> web.Response:
        """A line for each pod that kube-scheduler asked about last."""
        return _json(self._decisions.list())

    async def one(self, request: web.Request) -> web.Response:
        """The last answer about one pod."""
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        told = self._decisions.find(namespace, name)
        if told is None:
            text = f"no decision about {namespace}/{name} is kept\n"
            return web.Response(status=404, text=text)
        return _json(told)


def _json(content: Mapping[str, object] | msgspec.Struct) -> web.Response:
    body = msgspec.json.format(msgspec.json.encode(content))
    return web.Response(body=body + b"\n", content_type="application/json")

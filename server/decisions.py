"""What `/debug/decisions` tells of the last calls, as JSON; `placet explain --server` reads it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from engine.journal import Answered, Journal, Record
from engine.verdict import Failed, Feasible, Verdict, full_reason
from grammar.values.duration import SECOND
from grammar.values.timestamp import Timestamp


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


class Told(Summary, frozen=True, kw_only=True):
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

    def find(self, namespace: str, name: str) -> Told | None:
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


def _told(record: Record, generation: int) -> Told:
    groups = list(_groups(record.answered)) if record.answered is not None else None
    return Told(
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


def _groups(answered: Answered) -> Iterator[tuple[Verdict, Sequence[str]]]:
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

"""Difference: what differs between two decisions about one pod: then and now, with and without.

A decision follows from four things: the policies, the nodes that were offered, what strict clauses
counted, and the time. `changes` says which of them are others now.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from engine.explanation.decision_document import ClauseCounts, DecisionDetail
from engine.explanation.document import Change, PodExplanation, What
from engine.explanation.inspection import Inspection, PodResults
from engine.work import finished
from grammar.messages.texts import named
from grammar.values.errors import EvaluationError
from grammar.values.time import SECOND, Timestamp

T = TypeVar("T")
_Differs = tuple[str, T | None, T | None]
# The most names in a text.
_NAMED = 4


def changes(then: DecisionDetail, now: PodExplanation) -> Sequence[Change]:
    """The differences between two decisions about one pod, in the order of `What`."""
    found: tuple[tuple[What, Iterator[str]], ...] = (
        ("policies", _policies(then.digests, now)),
        ("nodes", _nodes(then, now)),
        ("counts", _counts(then.counts, now.counts)),
        ("time", _time(then.at, now.at)),
    )
    return [Change(what, text) for what, parts in found if (text := "; ".join(parts))]


def _differing(before: Mapping[str, T], after: Mapping[str, T]) -> Iterator[_Differs[T]]:
    """The names under which two mappings say something else, with what each says, by name."""
    for name in sorted(before.keys() | after.keys()):
        if (old := before.get(name)) != (new := after.get(name)):
            yield name, old, new


def _policies(then: Mapping[str, str], now: PodExplanation) -> Iterator[str]:
    concerned = {each.address: each.digest for each in now.policies if each.concerns}
    for address, old, new in _differing(then, concerned):
        if new is None:
            yield f"{address} concerned the pod, and does not now"
        elif old is None:
            yield f"{address} concerns the pod now, and did not"
        else:
            yield f"{address} was {old} and is {new}"


def _nodes(then: DecisionDetail, now: PodExplanation) -> Iterator[str]:
    before = _names(then)
    if before is None:
        # Where no policy concerns the pod, only the number of nodes is kept.
        if then.offered != now.nodes:
            yield f"{then.offered} were offered, and there are {now.nodes}"
        return
    after = frozenset(name for group in now.groups for name in group.names)
    if more := sorted(after - before):
        yield f"not offered then: {named(more, _NAMED)}"
    if gone := sorted(before - after):
        yield f"offered then and gone: {named(gone, _NAMED)}"


def _names(decision: DecisionDetail) -> frozenset[str] | None:
    if decision.passed is None:
        return None
    others = (name for each in (*decision.reasons, *decision.heldBy) for name in each.names)
    return frozenset((*decision.passed, *others))


def _counts(then: Sequence[ClauseCounts], now: Sequence[ClauseCounts]) -> Iterator[str]:
    before, after = _by_clause(then), _by_clause(now)
    # A clause that only one of them has is a change of the policies, or there was no decision.
    for clause in sorted(before.keys() & after.keys()):
        others = [
            f"{group} {old or 0:g} then and {new or 0:g} now"
            for group, old, new in _differing(before[clause], after[clause])
        ]
        if others:
            yield f"{clause}: {named(others, _NAMED)}"


def _by_clause(counts: Sequence[ClauseCounts]) -> Mapping[str, Mapping[str, float]]:
    return {
        f"{each.policy}: {each.clause}": {group.name: group.pods for group in each.groups}
        for each in counts
    }


def _time(then: str, now: str) -> Iterator[str]:
    try:
        seconds = (Timestamp.parse(now).nanos - Timestamp.parse(then).nanos) // SECOND
    except EvaluationError:
        return
    if seconds:
        yield f"{abs(seconds)} s {'later' if seconds > 0 else 'earlier'}"


# ---- two answers of the policies


@dataclass(frozen=True, slots=True)
class PodAnswer:
    """The nodes that pass, the best of them if scores tell them apart, or why there is none."""

    passing: frozenset[str] = frozenset()
    best: str | None = None
    error: str | None = None


def answer_of(inspection: Inspection, names: Sequence[str]) -> PodAnswer:
    """What the policies answer about a pod and these sorted nodes."""
    work = PodResults(inspection, names, time.monotonic)
    objections = finished(work.objections())
    passing = work.passing(objections)
    given = finished(work.contributions(passing)) if passing else []
    scores = work.results(objections, given, passing).scores
    best = None
    if scores and min(scores.values()) < (most := max(scores.values())):
        # The first of equals, by name.
        best = min(name for name, score in scores.items() if score == most)
    return PodAnswer(frozenset(passing), best)

"""Changes: what differs between two decisions about one pod.

A decision follows from four things: the policies, the nodes that were offered, what strict clauses
counted, and the time. `changes` says which of them are others now.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from grammar.messages.texts import named
from grammar.values.errors import EvaluationError
from grammar.values.time import SECOND, Timestamp
from server.answers.explanation_answers import Change, What
from server.answers.view_answers import ClauseCounts, DecisionDetail

# The most names in a text.
_NAMED = 4


def changes(then: DecisionDetail, now: DecisionDetail) -> Sequence[Change]:
    """What differs between two decisions about one pod, in the order of `What`."""
    found: tuple[tuple[What, Iterator[str]], ...] = (
        ("policies", _policies(then.digests, now.digests)),
        ("nodes", _nodes(then, now)),
        ("counts", _counts(then.counts, now.counts)),
        ("time", _time(then.at, now.at)),
    )
    return [Change(what, text) for what, parts in found if (text := "; ".join(parts))]


def _policies(then: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    for address in sorted(then.keys() | now.keys()):
        if address not in now:
            yield f"{address} concerned the pod, and does not now"
        elif address not in then:
            yield f"{address} concerns the pod now, and did not"
        elif then[address] != now[address]:
            yield f"{address} was {then[address]} and is {now[address]}"


def _nodes(then: DecisionDetail, now: DecisionDetail) -> Iterator[str]:
    before, after = _names(then), _names(now)
    if before is None or after is None:
        # Where no policy concerns the pod, only the number of nodes is kept.
        if then.offered != now.offered:
            yield f"{then.offered} were offered, and there are {now.offered}"
        return
    if more := sorted(after - before):
        yield f"not offered then: {named(more, _NAMED)}"
    if gone := sorted(before - after):
        yield f"offered then and gone: {named(gone, _NAMED)}"


def _names(decision: DecisionDetail) -> frozenset[str] | None:
    if decision.passed is None:
        return None
    rejected = (name for reason in decision.reasons for name in reason.names)
    return frozenset((*decision.passed, *rejected))


def _counts(then: Sequence[ClauseCounts], now: Sequence[ClauseCounts]) -> Iterator[str]:
    before, after = _by_clause(then), _by_clause(now)
    # A clause that only one of them has is a change of the policies, or there was no decision.
    for clause in sorted(before.keys() & after.keys()):
        groups = sorted(before[clause].keys() | after[clause].keys())
        others = [
            f"{group} {before[clause].get(group, 0):g} then and {after[clause].get(group, 0):g} now"
            for group in groups
            if before[clause].get(group, 0) != after[clause].get(group, 0)
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

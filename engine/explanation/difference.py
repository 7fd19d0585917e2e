"""Difference between two answers about one pod, such as then and now.

An answer follows from four things: the policies, the nodes that were offered, what strict clauses
counted, and the time. `changes` says which of them are others now.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

from engine.explanation.document import Change, ClauseCounts, PodAnswer, What
from grammar.messages.texts import named
from grammar.values.errors import EvaluationError
from grammar.values.time import SECOND, Timestamp

T = TypeVar("T")
_Differs = tuple[str, T | None, T | None]
# The most names in a text.
_NAMED = 4


def changes(then: PodAnswer, now: PodAnswer) -> Sequence[Change]:
    """The differences between two answers about one pod, in the order of `What`."""
    found: tuple[tuple[What, Iterator[str]], ...] = (
        ("policies", _policies(then, now)),
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


def _policies(then: PodAnswer, now: PodAnswer) -> Iterator[str]:
    digests = ({p.address: p.digest for p in each.policies if p.concerns} for each in (then, now))
    for address, old, new in _differing(*digests):
        if new is None:
            yield f"{address} concerned the pod, and does not now"
        elif old is None:
            yield f"{address} concerns the pod now, and did not"
        else:
            yield f"{address} was {old} and is {new}"


def _nodes(then: PodAnswer, now: PodAnswer) -> Iterator[str]:
    before, after = ({n for g in each.groups for n in g.names} for each in (then, now))
    if then.nodes and not before:
        # Where no policy concerns the pod, only the number of nodes is kept.
        if then.nodes != now.nodes:
            yield f"{then.nodes} were offered, and there are {now.nodes}"
        return
    if more := sorted(after - before):
        yield f"not offered then: {named(more, _NAMED)}"
    if gone := sorted(before - after):
        yield f"offered then and gone: {named(gone, _NAMED)}"


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

"""Then and now: the last decision of the running Placet beside what would be decided now.

A decision follows from four things: the policies, the nodes that were offered, what strict clauses
counted, and the time. `changes` says which of them are others now.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal as OneOf

from cli.console import Part, table
from cli.explaining.views import NAMED, passed
from cli.render import named
from cli.world import NamedPod, World, engine
from engine.decision.journal import Journal
from engine.errors import EngineError
from grammar.errors import EvaluationError
from grammar.values.time import SECOND, Timestamp
from server.view_answers import ClauseCounts, DecisionDetail, detail

What = OneOf["policies", "nodes", "counts", "time"]
_HERE = "here"


@dataclass(frozen=True, slots=True)
class Change:
    """One of the four things that a decision follows from, and how it differs now."""

    what: What
    text: str


def decision_now(world: World, pod: NamedPod) -> DecisionDetail:
    """What would be decided about a pod and every node of a world, in the form of the view."""
    journal = Journal(now=lambda: world.cluster.now)
    extender = engine(world.policies.registry, world.cluster, world.codec, journal)
    names = sorted(world.cluster.snapshot().table.rows)
    with suppress(EngineError):  # it is in the journal
        extender.filter(pod.body, names, None, math.inf)
    record = journal.find(pod.namespace, pod.name)
    assert record is not None, "the journal has just recorded it"
    return detail(_HERE, record, journal.generation)


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
        yield f"not offered then: {named(more, NAMED)}"
    if gone := sorted(before - after):
        yield f"offered then and gone: {named(gone, NAMED)}"


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
            yield f"{clause}: {named(others, NAMED)}"


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


# ---- layout


def then_and_now(then: DecisionDetail, now: DecisionDetail) -> Iterator[Part]:
    """Both decisions, and which of the four things changed between them."""
    yield f"decided by replica {then.replica} at {then.at}: {_outcome(then)}"
    yield f"now: {_outcome(now)}"
    found = changes(then, now)
    if not found:
        yield "policies, nodes, counts and time are the same"
        return
    rows = table("changed", "how")
    for change in found:
        rows.add_row(change.what, change.text)
    yield rows


def _outcome(decision: DecisionDetail) -> str:
    if decision.error is not None:
        return f"error: {decision.error}"
    return passed(decision.passing, decision.offered)

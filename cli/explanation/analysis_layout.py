"""Layout of an analysis: a row for each clause, the nearest misses, the smallest relaxations."""

from __future__ import annotations

from collections.abc import Iterator

from cli.console import Part, table
from cli.explanation.decision_layout import passed
from engine.explanation.document import PodExplanation, Relaxation
from grammar.messages.texts import counted

_NEAREST = 5
_RELAXATIONS = 3


def analysis(found: PodExplanation) -> Iterator[Part]:
    if not found.clauses:
        yield f"no clause can reject the pod: {found.offered} nodes pass"
        return
    yield from _clauses(found)
    yield from _nearest(found)
    yield from _relaxations(found)


def _clauses(found: PodExplanation) -> Iterator[Part]:
    numbers = ("passes", "fails", "fails only this")
    listed = table("clause", *numbers, right=numbers)
    for each in found.clauses:
        row = (found.nodes - each.fails, each.fails, each.failsOnlyThis)
        listed.add_row(f"{each.policy}: {each.clause}", *map(str, row))
        for part in each.requires:
            listed.add_row(f"  {part.text}", str(found.nodes - part.fails), str(part.fails), "")
    yield listed
    yield f"\n{passed(found.passing, found.nodes)}"


def _nearest(found: PodExplanation) -> Iterator[Part]:
    if not found.nearest:
        return
    yield "\nnearest misses"
    for miss in found.nearest[:_NEAREST]:
        yield f"  {miss.node} fails {counted(len(miss.rejectedBy), 'clause')}"
        for each in miss.rejectedBy:
            yield f"    {each.text}"
            for line in each.detail.splitlines():
                yield f"      {line}"
    if (more := found.nodes - found.passing - min(len(found.nearest), _NEAREST)) > 0:
        yield f"  and {more} more"


def _relaxations(found: PodExplanation) -> Iterator[Part]:
    if not found.relaxations:
        return
    yield "\nsmallest relaxation"
    for relaxation in found.relaxations[:_RELAXATIONS]:
        yield f"  {_relaxed(relaxation)}"
    if (more := len(found.relaxations) - _RELAXATIONS) > 0:
        yield f"  and {more} more of {counted(len(found.relaxations[0].without), 'clause')}"


def _relaxed(relaxation: Relaxation) -> str:
    names = " and ".join(f"{each.policy}: {each.clause}" for each in relaxation.without)
    return f"without {names}: {counted(relaxation.gained, 'more node')} would pass"

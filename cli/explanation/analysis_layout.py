"""Layout of an analysis: a row for each clause, the nearest misses, the smallest relaxations."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cli.console import Part, table
from cli.explanation.decision_layout import count_lines, passed
from cli.explanation.explanation import Explanation, written_clauses
from cli.render import counted
from cli.world import World
from engine.decision.inspection import Objection, RefusalSummary, Relaxation, summarize
from engine.explanation.evidence import card_evidence, count_evidence
from engine.explanation.value_text import Values
from engine.explanation.written import Written, WrittenClauses, rows
from engine.program.frame import Frame
from engine.program.program import FilterProgram
from grammar.tree.ast import Expr
from grammar.tree.clauses import Cards, Filter
from grammar.values.errors import EvaluationError

_NEAREST = 5
_RELAXATIONS = 3


def analysis(world: World, found: Explanation) -> Iterator[Part]:
    if not found.objections:
        yield f"no clause can reject the pod: {len(found.passing)} nodes pass"
        return
    result = summarize(np.array([o.refused for o in found.objections]))
    yield from _clauses(world, found, result)
    yield from _nearest(world, found, result)
    yield from _relaxations(found, result)


def _clauses(world: World, found: Explanation, result: RefusalSummary) -> Iterator[Part]:
    clauses, nodes = written_clauses(world), len(found.names)
    listed = table(
        "clause", "passes", "fails", "fails only this", right=("passes", "fails", "fails only this")
    )
    for objection, fails, alone in zip(found.objections, result.fails, result.alone, strict=True):
        named = f"{objection.policy}: {objection.name}"
        listed.add_row(named, str(nodes - fails), str(fails), str(alone))
        for text, failing in _requires(objection, clauses, found):
            listed.add_row(f"  {text}", str(nodes - failing), str(failing), "")
    yield listed
    yield f"\n{passed(result.passing, nodes)}"


def _nearest(world: World, found: Explanation, result: RefusalSummary) -> Iterator[Part]:
    if not result.nearest:
        return
    clauses, values = written_clauses(world), Values(world.schema)
    yield "\nnearest misses"
    for index in result.nearest[:_NEAREST]:
        name = found.names[index]
        against = found.against(name)
        yield f"  {name} fails {counted(len(against), 'clause')}"
        for objection in against:
            yield f"    {objection.text}"
            written = clauses.find(objection.policy, objection.name)
            for line in _shortfall(objection, written, found, name, values):
                yield f"      {line}"
    if (more := len(result.nearest) - _NEAREST) > 0:
        yield f"  and {more} more"


def _relaxations(found: Explanation, result: RefusalSummary) -> Iterator[Part]:
    if not result.relaxations:
        return
    yield "\nsmallest relaxation"
    for relaxation in result.relaxations[:_RELAXATIONS]:
        yield f"  {_relaxed(relaxation, found)}"
    if (more := len(result.relaxations) - _RELAXATIONS) > 0:
        yield f"  and {more} more of {counted(len(result.relaxations[0].clauses), 'clause')}"


def _requires(
    objection: Objection, clauses: WrittenClauses, found: Explanation
) -> list[tuple[str, int]]:
    if not isinstance(objection.program, FilterProgram):
        return []
    written = clauses.find(objection.policy, objection.name)
    if isinstance(written.clause, Cards):
        return []
    assert isinstance(written.clause, Filter), "its program is a filter's"
    failing = found.inspection.parts(objection.program, found.names)
    shown = zip(written.clause.requires, failing, strict=True)
    return [(written.text(require), int(mask.sum())) for require, mask in shown]


def _shortfall(
    objection: Objection, written: Written, found: Explanation, name: str, values: Values
) -> list[str]:
    """The `detail` of a clause; without one, its counts or the failing parts of its expressions."""
    frame = found.inspection.frame_at(name)
    if detail := written.detail(frame):
        return [detail]
    if not isinstance(objection.program, FilterProgram):
        return list(count_lines(count_evidence(objection, found, name)))
    if isinstance(written.clause, Cards):
        return list(count_lines(card_evidence(written.clause, written, frame)))
    assert isinstance(written.clause, Filter), "its program is a filter's"
    failing = found.inspection.parts(objection.program, [name])
    requires = zip(written.clause.requires, failing, strict=True)
    return [_because(written, r, frame, values) for r, mask in requires if mask[0]]


def _because(written: Written, require: Expr, frame: Frame, values: Values) -> str:
    known: dict[str, str] = {}
    for depth, text, step in rows(written, written.trace(require, frame)):
        if isinstance(step.outcome, EvaluationError):
            known.setdefault(text, str(step.outcome))
        elif depth == 1:
            known.setdefault(text, values.line(step.outcome, step.expr.type))
    parts = ", ".join(f"{text} is {value}" for text, value in known.items())
    whole = written.text(require)
    return f"{whole}: {parts}" if parts else whole


def _relaxed(relaxation: Relaxation, found: Explanation) -> str:
    clauses = [found.objections[i] for i in relaxation.clauses]
    names = " and ".join(f"{c.policy}: {c.name}" for c in clauses)
    gained = counted(relaxation.gained, "more node")
    return f"without {names}: {gained} would pass"

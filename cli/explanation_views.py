"""How an explanation is laid out: the policies, the nodes in a list or by reason, and one node."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from rich.table import Table
from rich.text import Text

from cli.console import Part, table
from cli.counts import count_text
from cli.explaining import Explanation
from cli.render import counted
from cli.score_bars import score_bars
from cli.selection_table import elsewhere, selection_table
from cli.values import Values
from cli.world import World
from cli.written import Texts, Written, rows
from engine.inspection import Objection
from engine.program.frame import Frame
from engine.program.program import FilterProgram
from engine.program.trace import Step
from engine.verdict import Failed, Feasible
from grammar.ast import Expr
from grammar.clauses import Filter, Score
from grammar.errors import EvaluationError

# More nodes than this are shown by reason; more names than that in a row are counted.
LISTED = 20
_NAMED = 4
# A loop over a node's pods has steps for each of them.
_STEPS = 40
_VALUE = 60
_PASS, _PASSES = Text("pass", "green"), Text("passes", "green")
_FAIL, _FAILS = Text("fail", "red"), Text("fails", "red")


def head(world: World, found: Explanation) -> Iterator[Part]:
    """The pod, and what each policy has to do with it."""
    where = f", asked about as if it were not on {found.pod.node}" if found.pod.node else ""
    yield f"pod {found.pod.key} at {world.cluster.now}{where}\n"
    registry, inspection = world.policies.registry, found.inspection
    listed = selection_table(registry, inspection.selection, found.pod.namespace, inspection.frame)
    if inspection.selection.exempt:
        yield f"{inspection.selection.exempt}: none decides about the pod"
    elif listed.row_count:
        yield listed
    else:
        yield "no policy concerns pods of its namespace"
    if others := elsewhere(registry, found.pod.namespace):
        yield f"and {counted(others, 'policy', 'policies')} of other namespaces"
    yield ""
    if found.problem:
        yield f"kube-scheduler would get an error, and try again: {found.problem}\n"


def every_node(world: World, found: Explanation) -> Iterator[Part]:
    """Every node, or every reason where the nodes are many."""
    if len(found.names) > LISTED:
        yield _by_reason(found)
    else:
        yield _listed(world, found)
    passing = sum(found.holds(name) for name in found.names)
    yield f"\n{_pass(passing, len(found.names))}{_narrowed(found, passing)}"
    for program in found.inspection.selection.audited:
        objections = found.inspection.objections([program], found.names)
        would = int(np.any([o.refused for o in objections], axis=0).sum()) if objections else 0
        yield f"{program.address}, in audit, would reject {counted(would, 'node')}"


def one_node(world: World, found: Explanation, name: str) -> Iterator[Part]:
    """One node: every clause, and every part of its expressions with its value."""
    texts, values, frame = Texts(world.policies), Values(world.schema), found.inspection.frame
    frame.node = world.cluster.node(name)
    against = found.against(name)
    yield f"node {name} {_outcome(found, name)}"
    for objection in found.objections:
        written = texts.find(objection.policy, objection.name)
        refuses = objection in against
        yield f"\n{_clause_line(objection, refuses=refuses)}"
        if refuses and (detail := written.detail(frame)):
            yield f"  {detail}"
        if isinstance(objection.program, FilterProgram):
            yield from _traces(written, frame, values)
        else:
            numbers, cell = found.inspection.numbers(objection.program, name)
            yield f"  {count_text(objection.program, numbers, cell)}"
    yield from _scores(texts, values, found, name)


def _listed(world: World, found: Explanation) -> Table:
    texts, frame = Texts(world.policies), found.inspection.frame
    listed = table("node", "verdict", "score", "why", right=("score",))
    for name in found.names:
        frame.node = world.cluster.node(name)
        against = found.against(name)
        reasons = [_reason(o, texts, frame) for o in against] or _narrowing(found, name)
        score = str(found.scores[name]) if name in found.scores else ""
        verdict = _PASSES if found.holds(name) else _FAILS
        listed.add_row(name, verdict, score, "\n".join(reasons))
    return listed


def _by_reason(found: Explanation) -> Table:
    """Nodes that fail the same clauses have one row; those that pass are the first."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for name in found.names:
        reasons = [o.text for o in found.against(name)]
        groups.setdefault(tuple(reasons or _narrowing(found, name)), []).append(name)
    listed = table("nodes", "verdict", "why", "which", right=("nodes",))
    for texts, names in sorted(
        groups.items(), key=lambda g: (not found.holds(g[1][0]), -len(g[1]), g[0])
    ):
        verdict = _PASS if found.holds(names[0]) else _FAIL
        why = "\n".join(texts) or _score_range(found, names)
        listed.add_row(str(len(names)), verdict, why, _some(names))
    return listed


def _traces(written: Written, frame: Frame, values: Values) -> Iterator[Part]:
    clause = written.clause
    assert isinstance(clause, Filter), "its program is a filter's"
    if clause.when is not None:
        yield "  when"
        yield from traced(written, clause.when, frame, values)
    for require in clause.requires:
        yield from traced(written, require, frame, values)


def traced(written: Written, expr: Expr, frame: Frame, values: Values) -> Iterator[Part]:
    """A row for each part; the value stands where a reader finds it without looking."""
    steps = list(rows(written, written.trace(expr, frame)))
    if not steps:
        yield f"  {written.text(expr)}"
        return
    grid = table("", "")
    grid.show_header = False
    for depth, text, step in steps[:_STEPS]:
        grid.add_row(f"  {'  ' * depth}{text}", f"= {_outcome_text(step, values)}")
    yield grid
    if len(steps) > _STEPS:
        yield f"  … and {len(steps) - _STEPS} parts more"


def _scores(texts: Texts, values: Values, found: Explanation, name: str) -> Iterator[Part]:
    if name not in found.scores:
        text = "no score applies" if name in found.passing else "not scored: only what passes is"
        yield f"\n{text}"
        return
    names = list(found.scores)
    contributions = found.inspection.contributions(names)
    yield f"\nscore {found.scores[name]} of 10"
    yield score_bars(contributions, names.index(name))
    found.inspection.frame.node = found.inspection.table.views[
        int(found.inspection.table.find([name])[0])
    ]
    for contribution in contributions:
        written = texts.find(contribution.policy, contribution.name)
        if isinstance(written.clause, Score):
            yield f"\n{contribution.policy}: {contribution.name}"
            yield from traced(written, written.clause.value, found.inspection.frame, values)


def _outcome(found: Explanation, name: str) -> str:
    verdict = found.verdicts.get(name)
    match verdict:
        case Feasible():
            return "passes"
        case None:
            return "has no verdict"
        case Failed(policy=policy, clause=clause, error=error):
            return f"fails by {policy}: {clause}: {error}"
        case _ if found.holds(name):
            return f"passes, {_narrowing(found, name)[0]}"
        case _ if against := found.against(name):
            return f"fails by {against[0].text}"
        case _:
            return f"fails by {verdict.policy}: {verdict.reason}"


def _clause_line(objection: Objection, *, refuses: bool) -> str:
    named = f"{objection.policy}: {objection.name}"
    if not refuses:
        return f"{named} holds"
    return f"{named} fails{objection.text.removeprefix(named)}"


def _reason(objection: Objection, texts: Texts, frame: Frame) -> str:
    detail = texts.find(objection.policy, objection.name).detail(frame)
    more = f" ({detail})" if detail else ""
    return f"{objection.text}{more}"


def _narrowing(found: Explanation, name: str) -> list[str]:
    """Why a node is not in the answer though no clause is against it."""
    verdict = found.verdicts.get(name)
    if verdict is None or isinstance(verdict, Feasible):
        return []
    if not found.holds(name):
        return [f"{verdict.policy}: {verdict.reason}"]
    return [f"not in this answer: {verdict.policy}: {verdict.clause} takes one place at a time"]


def _pass(passing: int, nodes: int) -> str:
    return f"{passing} of {counted(nodes, 'node')} {'passes' if passing == 1 else 'pass'}"


def _narrowed(found: Explanation, passing: int) -> str:
    offered = len(found.passing)
    return f"; this answer offers {offered} of them" if found.verdicts and offered < passing else ""


def _score_range(found: Explanation, names: Sequence[str]) -> str:
    scores = sorted(found.scores[n] for n in names if n in found.scores)
    if not scores:
        return ""
    low, high = scores[0], scores[-1]
    return f"score {low}" if low == high else f"score {low} to {high}"


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{', '.join(names[:_NAMED])}{more}"


def _outcome_text(step: Step, values: Values) -> str:
    if isinstance(step.outcome, EvaluationError):
        return f"error: {step.outcome}"
    text = values.line(step.outcome, step.expr.type)
    return text if len(text) <= _VALUE else f"{text[: _VALUE - 1]}…"

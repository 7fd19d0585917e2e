"""Layout of an explanation: the policies of a pod, its nodes as rows or by reason, and one node."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import assert_never

import numpy as np
from rich.table import Table
from rich.text import Text

from cli.console import Part, console, table
from cli.explaining.explanation import Explanation, Written, WrittenClauses, rows
from cli.expressions import Values
from cli.render import counted, named
from cli.world import World
from engine.cache.tallies import FULL
from engine.counting.groups import ON, GroupCounts, fewest, wanted_on
from engine.decision.inspection import Contribution, Objection
from engine.decision.registry import Registry, Selection
from engine.decision.verdict import Failed, Feasible, message_of
from engine.program.frame import Frame
from engine.program.program import (
    BoundProgram,
    CountClause,
    FilterProgram,
    LimitProgram,
    Program,
    ShareProgram,
    SpreadProgram,
)
from engine.program.sums import THOUSANDTHS
from engine.program.trace import Step
from grammar.ast import Expr
from grammar.clauses import Filter, Score
from grammar.errors import EvaluationError
from grammar.texts import cut
from grammar.values.quantity import NANO, Quantity

# Explanations of more nodes than this show them by reason.
LISTED = 20
# The most names in a row.
NAMED = 4
# The most rows of a trace: a loop over the pods of a node has steps for each pod.
_STEPS = 40
# The longest value in a trace.
_VALUE = 60
# What is said of a limit that other pods have.
KEPT_OUT = "a pod that is there, or may end there, has this limit"
# What is said of a node that passes and is not offered: as few as keep a strict bound exact.
HELD_BACK = (
    "held back until this pod is bound, so that the strict bound holds; kube-scheduler asks again"
)
PASS, _PASSES = Text("pass", "green"), Text("passes", "green")
FAIL, _FAILS = Text("fail", "red"), Text("fails", "red")
# The width of the bar of a score of 10, and its characters, also for ASCII terminals.
_WIDTH = 40
_BLOCK, _PLAIN_BLOCK = "█", "#"


def head(world: World, found: Explanation) -> Iterator[Part]:
    """The pod, and whether each policy applies to it."""
    where = f", as if it were not on {found.pod.node}" if found.pod.node else ""
    yield f"pod {found.pod.key} at {world.cluster.now}{where}\n"
    registry, inspection = world.policies.registry, found.inspection
    listed = selection_table(registry, inspection.selection, found.pod.namespace, inspection.frame)
    if inspection.selection.exempt:
        yield f"{inspection.selection.exempt}: no policy applies to the pod"
    elif listed.row_count:
        yield listed
    else:
        yield "no policy applies to the namespace of the pod"
    others = sum(p.namespace not in (None, found.pod.namespace) for p in registry.programs)
    if others:
        yield f"and {counted(others, 'policy', 'policies')} of other namespaces"
    yield ""
    if found.problem:
        yield f"kube-scheduler would get an error and retry: {found.problem}\n"


def every_node(world: World, found: Explanation) -> Iterator[Part]:
    """A row for each node, or for each reason if there are more than LISTED nodes."""
    if len(found.names) > LISTED:
        yield _by_reason(found)
    else:
        yield _listed(world, found)
    passing = sum(found.holds(name) for name in found.names)
    offered = len(found.passing)
    held = passing - offered if found.verdicts else 0
    kept = f"; {held} of them {'is' if held == 1 else 'are'} held back for now" if held else ""
    yield f"\n{passed(passing, len(found.names))}{kept}"
    for program in found.inspection.selection.audited:
        objections = found.inspection.objections([program], found.names)
        would = int(np.any([o.refused for o in objections], axis=0).sum()) if objections else 0
        yield f"{program.address}, in audit, would reject {counted(would, 'node')}"


def one_node(world: World, found: Explanation, name: str) -> Iterator[Part]:
    """One node: each clause, and each part of its expressions with its value."""
    clauses, values = WrittenClauses(world.policies), Values(world.schema)
    frame = found.inspection.frame
    frame.node = world.cluster.node(name)
    against = found.against(name)
    yield f"node {name} {_outcome(found, name)}"
    for objection in found.objections:
        written = clauses.find(objection.policy, objection.name)
        refuses = objection in against
        clause = f"{objection.policy}: {objection.name}"
        outcome = f"fails{objection.text.removeprefix(clause)}" if refuses else "holds"
        yield f"\n{clause} {outcome}"
        if refuses and (detail := written.detail(frame)):
            yield f"  {detail}"
        if isinstance(objection.program, FilterProgram):
            yield from _traces(written, frame, values)
        elif objection.is_mutual:
            yield f"  {KEPT_OUT}"
        else:
            counts, group = found.inspection.group_counts(objection.program, name)
            yield f"  {count_text(objection.program, counts, group)}"
    if name in found.scores:
        yield from _scores(world, found, name)
    elif name in found.passing:
        yield "\nno score applies"
    else:
        yield "\nnot scored: filter did not return the node"


def _listed(world: World, found: Explanation) -> Table:
    clauses, frame = WrittenClauses(world.policies), found.inspection.frame
    listed = table("node", "verdict", "score", "why", right=("score",))
    unscored = _unscored(found)
    for name in found.names:
        frame.node = world.cluster.node(name)
        against = found.against(name)
        reasons = [_reason(o, clauses, frame) for o in against] or _narrowing(found, name)
        reasons = [*reasons, *unscored.get(name, ())]
        score = str(found.scores[name]) if name in found.scores else ""
        verdict = _PASSES if found.holds(name) else _FAILS
        listed.add_row(name, verdict, score, "\n".join(reasons))
    return listed


def _unscored(found: Explanation) -> dict[str, list[str]]:
    """By node, why scores have no value for it: of what fails, not of what is absent."""
    names = list(found.scores)
    reasons: dict[str, list[str]] = {}
    for each in found.inspection.contributions(names) if names else ():
        for index, error in each.errors.items():
            reason = f"{each.policy}: {each.name} is missing: {error}"
            reasons.setdefault(names[index], []).append(reason)
    return reasons


def _by_reason(found: Explanation) -> Table:
    """A row for the nodes that fail the same clauses; passing nodes come first."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for name in found.names:
        reasons = [o.text for o in found.against(name)]
        groups.setdefault(tuple(reasons or _narrowing(found, name)), []).append(name)
    listed = table("nodes", "verdict", "why", "which", right=("nodes",))
    for texts, names in sorted(
        groups.items(), key=lambda g: (not found.holds(g[1][0]), -len(g[1]), g[0])
    ):
        verdict = PASS if found.holds(names[0]) else FAIL
        why = "\n".join(texts) or _score_range(found, names)
        listed.add_row(str(len(names)), verdict, why, named(names, NAMED))
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
    """A row for each part of an expression, with the values in one column."""
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
        yield f"  … and {len(steps) - _STEPS} more parts"


def _scores(world: World, found: Explanation, name: str) -> Iterator[Part]:
    clauses, values = WrittenClauses(world.policies), Values(world.schema)
    names = list(found.scores)
    contributions = found.inspection.contributions(names)
    yield f"\nscore {found.scores[name]} of 10"
    yield score_bars(contributions, names.index(name))
    frame = found.inspection.frame
    frame.node = world.cluster.node(name)
    for contribution in contributions:
        written = clauses.find(contribution.policy, contribution.name)
        if isinstance(written.clause, Score):
            yield f"\n{contribution.policy}: {contribution.name}"
            yield from traced(written, written.clause.value, frame, values)


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
            return f"passes; {_narrowing(found, name)[0]}"
        case _ if against := found.against(name):
            return f"fails by {against[0].text}"
        case _:
            return f"fails by {verdict.policy}: {message_of(verdict)}"


def _reason(objection: Objection, clauses: WrittenClauses, frame: Frame) -> str:
    detail = clauses.find(objection.policy, objection.name).detail(frame)
    more = f" ({detail})" if detail else ""
    return f"{objection.text}{more}"


def _narrowing(found: Explanation, name: str) -> list[str]:
    """The reason why a node that no clause refuses is not in the answer."""
    verdict = found.verdicts.get(name)
    if verdict is None or isinstance(verdict, Feasible):
        return []
    if not found.holds(name):
        return [f"{verdict.policy}: {message_of(verdict)}"]
    return [f"{verdict.policy}: {verdict.clause}: {HELD_BACK}"]


def passed(passing: int, nodes: int) -> str:
    return f"{passing} of {counted(nodes, 'node')} {'passes' if passing == 1 else 'pass'}"


def _score_range(found: Explanation, names: Sequence[str]) -> str:
    scores = sorted(found.scores[n] for n in names if n in found.scores)
    if not scores:
        return ""
    low, high = scores[0], scores[-1]
    return f"score {low}" if low == high else f"score {low} to {high}"


def _outcome_text(step: Step, values: Values) -> str:
    if isinstance(step.outcome, EvaluationError):
        return f"error: {step.outcome}"
    return cut(values.line(step.outcome, step.expr.type), _VALUE)


# ---- the policies


def selection_table(
    registry: Registry, selection: Selection, namespace: str, frame: Frame
) -> Table:
    """A row for each policy that can apply to a pod of the namespace."""
    rows = table("policy", "applies", "because")
    for program in registry.programs:
        if program.namespace in (None, namespace):
            rows.add_row(program.address, *_application(program, selection, frame))
    return rows


def _application(program: Program, selection: Selection, frame: Frame) -> tuple[str, str]:
    if program in selection.guardrails:
        return "as a guardrail", "every cluster policy that selects the pod applies"
    if program is selection.governing:
        return "governs", _victory(program, selection.losers)
    if program in selection.losers:
        assert selection.governing is not None, "there is no loser without a winner"
        return "no", f"`{selection.governing.address}` governs"
    if program in selection.audited:
        return "in audit", "it is evaluated, but rejects nothing"
    for broken in selection.unselectable:
        if broken.program is program:
            return "rejects all", f"its `for` cannot be evaluated: {broken.error}"
    return "no", _unselected(program, frame)


def _victory(winner: Program, losers: tuple[Program, ...]) -> str:
    """The first rule of precedence in which the winner and the next policy differ."""
    if not losers:
        return "no other policy selects the pod"
    loser, name = losers[0], f"`{losers[0].address}`"
    if winner.weight != loser.weight:
        return f"its weight {winner.weight} is higher than the {loser.weight} of {name}"
    if winner.strict != loser.strict:
        return f"it can reject, and {name} cannot"
    if winner.namespace != loser.namespace:
        return f"it belongs to the namespace, and {name} to all namespaces"
    return f"its name comes before {name}"


def _unselected(program: Program, frame: Frame) -> str:
    """The result of its `for`, which did not select the pod."""
    assert program.select is not None, "a policy without a `for` selects every pod"
    try:
        program.select(frame)
    except EvaluationError as error:
        return f"its `for` has no value: {error}"
    return "its `for` is false"


# ---- the score of one node: bars that each begin where the one before ends


def score_bars(contributions: Sequence[Contribution], node: int) -> Table:
    """A row for each score clause of one node, which is given by index, and one for the sum.

    A clause adds weight · points / total weight / 10 to the score. The shown values are differences
    of rounded sums, so that they add up to the shown sum.
    """
    total = sum(c.weight for c in contributions)
    rows = table("score", "weight", "points", "adds", "", right=("weight", "points", "adds"))
    so_far = 0.0
    for each in contributions:
        given = float(each.points[node])
        end = so_far + each.weight * given / total / 10
        adds = f"{round(end, 2) - round(so_far, 2):.2f}"
        name = f"{each.policy}: {each.name}"
        bar = "missing" if each.lacks_value(node) else _bar(so_far, end)
        rows.add_row(name, f"{each.weight:g}", f"{given:.1f}", adds, bar)
        so_far = end
    rows.add_row(
        "sum, rounded to a whole number", f"{total:g}", "", f"{so_far:.2f}", _bar(0, so_far)
    )
    return rows


def _bar(start: float, end: float) -> str:
    block = _PLAIN_BLOCK if console().options.ascii_only else _BLOCK
    first, last = (round(at * _WIDTH / 10) for at in (start, end))
    return f"{' ' * first}{block * (last - first)}".ljust(_WIDTH)


# ---- the counts of a share, spread or limit for one node


def count_text(clause: CountClause, counts: GroupCounts, group: int) -> str:
    """A sentence about the counts without this pod; `group` is that of the node, or -1."""
    if group < 0:
        return "the node has no value for the domain, or for the bound"
    here = int(counts.high[group])
    match clause:
        case ShareProgram():
            bound = counts.bound_of(clause, group)
            side = "one" if group == ON else "not one"
            wanted = wanted_on(bound, counts.total, counts.pods)
            every = counts.pods if bound.amount == 100 else counts.total
            share = f" ({_amount(bound)} of {every})" if bound.percent else ""
            there = int(counts.high[ON])
            return (
                f"{there} on these nodes, {bound.kind} {wanted}{share}; this node is {side} of them"
            )
        case SpreadProgram():
            least, skew = fewest(clause, counts), counts.skew_of(clause, group)
            return (
                f"{here} in this node's domain, {least} in the emptiest one; skew at most {skew:g}"
            )
        case LimitProgram(nodes="used" | "empty" as unit):
            bound = counts.bound_of(clause, group)
            words = f"{bound.kind} {_amount(bound)} {unit}"
            if not here:
                return f"with this pod no more nodes are used; {words}"
            return f"up to {here} of {counts.total} nodes are used with this pod; {words}"
        case LimitProgram(per_node=per_node, domain=domain):
            bound = counts.bound_of(clause, group)
            scope = "on this node" if per_node else "in the cluster"
            where = scope if domain is None else "in this node's domain"
            if clause.count.peers.amount is not None:
                own = "no amount" if counts.own == FULL else _sum(counts.own)
                most = f"{bound.kind} {_sum(bound.amount or 0)}"
                return f"{_sum(here)} {where}, {own} of this pod; {most}"
            return f"{here} {where}, {bound.kind} {_amount(bound)} with this pod"
        case _:
            assert_never(clause)


def _sum(thousandths: float) -> str:
    """A sum, which is in thousandths, as an amount."""
    if thousandths >= FULL:
        return "more than any bound"
    return str(Quantity(int(thousandths) * NANO // THOUSANDTHS))


def _amount(bound: BoundProgram) -> str:
    return f"{bound.amount:g}{'%' if bound.percent else ''}"

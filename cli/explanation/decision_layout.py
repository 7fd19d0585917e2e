"""Layout of an explanation: the policies of a pod, its nodes as rows or by reason, and one node."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from rich.table import Table
from rich.text import Text

from cli.console import Part, console, table
from cli.explanation.explanation import Explanation, written_clauses
from cli.explanation.portable_form import form_lines
from cli.render import counted
from cli.world import World
from engine.counting.pod_counter import PRESENCES
from engine.decision.inspection import Contribution, Objection
from engine.decision.registry import Registry, Selection
from engine.decision.verdict import Failed, Feasible, message_of
from engine.explanation.application import application
from engine.explanation.evidence import CountEvidence, Traced, clauses_on, scores_on
from engine.explanation.value_text import Values
from engine.explanation.written import WrittenClauses
from engine.program.frame import Frame
from engine.program.trace import Step
from grammar.messages.texts import cut, named
from grammar.values.errors import EvaluationError

# Explanations of more nodes than this show them by reason.
LISTED = 20
# The most names in a row.
NAMED = 4
# The most rows of a trace: a loop over the pods of a node has steps for each pod.
_STEPS = 40
# The longest value in a trace.
_VALUE = 60
# The most pods of one kind in a line.
_PODS = 10
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
    yield from form_lines(found.pod.body, registry)
    yield ""
    if found.problem:
        yield f"kube-scheduler would get an error and retry: {found.problem}\n"


def every_node(world: World, found: Explanation, *, every: bool = False) -> Iterator[Part]:
    """A row for each node, or for each reason if there are more than LISTED, unless `every`."""
    if len(found.names) > LISTED and not every:
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
    values = Values(world.schema)
    yield f"node {name} {_outcome(found, name)}"
    for said in clauses_on(written_clauses(world), found, name):
        text = said.objection.text.removeprefix(said.clause)
        yield f"\n{said.clause} {f'fails{text}' if said.refuses else 'holds'}"
        if said.detail:
            yield f"  {said.detail}"
        if said.when is not None:
            yield "  when"
            yield from trace_rows(said.when, values)
        for require in said.requires:
            yield from trace_rows(require, values)
        if said.counts is not None:
            yield from (f"  {line}" for line in count_lines(said.counts))
    if name in found.scores:
        yield from _scores(world, found, name)
    elif name in found.passing:
        yield "\nno score applies"
    else:
        yield "\nnot scored: filter did not return the node"


def count_lines(counts: CountEvidence) -> Iterator[str]:
    """The counts of a clause for one node, and a line for the pods of each presence."""
    yield counts.text
    for pods, where in ((counts.pods, ""), (counts.emptiest, ", in the emptiest one")):
        for presence in PRESENCES:
            if names := [each.key for each in pods if each.presence == presence]:
                yield f"  {presence}{where}: {named(names, _PODS)}"


def _listed(world: World, found: Explanation) -> Table:
    clauses = written_clauses(world)
    listed = table("node", "verdict", "score", "why", right=("score",))
    unscored = _unscored(found)
    for name in found.names:
        frame = found.inspection.frame_at(name)
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


def trace_rows(shown: Traced, values: Values) -> Iterator[Part]:
    """A row for each part of an expression, with the values in one column."""
    if not shown.rows:
        yield f"  {shown.text}"
        return
    grid = table("", "")
    grid.show_header = False
    for depth, text, step in shown.rows[:_STEPS]:
        grid.add_row(f"  {'  ' * depth}{text}", f"= {_outcome_text(step, values)}")
    yield grid
    if len(shown.rows) > _STEPS:
        yield f"  … and {len(shown.rows) - _STEPS} more parts"


def _scores(world: World, found: Explanation, name: str) -> Iterator[Part]:
    values, written = Values(world.schema), written_clauses(world)
    given = list(scores_on(written, found, found.contributions, name))
    yield f"\nscore {found.scores[name]} of 10"
    yield score_bars([each.contribution for each in given], list(found.scores).index(name))
    for each in given:
        if each.value is not None:
            yield f"\n{each.contribution.policy}: {each.contribution.name}"
            yield from trace_rows(each.value, values)


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
            rows.add_row(program.address, *application(program, selection, frame))
    return rows


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

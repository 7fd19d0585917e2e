"""Layout of an explanation: the policies of a pod, its nodes as rows or by reason, and one node."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.table import Table
from rich.text import Text

from cli.console import Part, console, table
from engine.explanation.document import (
    NodeExplanation,
    PodExplanation,
    PolicyNotInForce,
    ReadValue,
    ScoreTerm,
    TracedExpression,
)
from engine.explanation.explanation import count_lines
from grammar.messages.texts import counted, cut, named

# The most names in a row.
NAMED = 4
# The most rows of a trace: a loop over the pods of a node has steps for each pod.
_STEPS = 40
# The longest value in a trace.
_VALUE = 60
PASS, _PASSES = Text("pass", "green"), Text("passes", "green")
FAIL, _FAILS = Text("fail", "red"), Text("fails", "red")
# The width of the bar of a score of 10, and its characters, also for ASCII terminals.
_WIDTH = 40
_BLOCK, _PLAIN_BLOCK = "█", "#"


def not_in_force(broken: Sequence[PolicyNotInForce]) -> Iterator[Part]:
    """A row for each policy that is not in force as it is written."""
    if not broken:
        return
    rows = table("not in force", "instead", "because")
    for each in broken:
        rows.add_row(each.policy, each.instead, each.because)
    yield rows
    yield ""


def head(found: PodExplanation) -> Iterator[Part]:
    """The pod, and whether each policy applies to it."""
    where = f", as if it were not on {found.on}" if found.on else ""
    yield f"pod {found.pod} at {found.at}{where}\n"
    if found.exempt:
        yield f"{found.exempt}: no policy applies to the pod"
    elif found.policies:
        rows = table("policy", "applies", "because")
        for each in found.policies:
            rows.add_row(each.address, each.applies, each.because)
        yield rows
    else:
        yield "no policy applies to the namespace of the pod"
    if found.otherPolicies:
        yield f"and {counted(found.otherPolicies, 'policy', 'policies')} of other namespaces"
    yield from found.toldToOthers
    yield ""
    if found.problem:
        yield f"kube-scheduler would get an error and retry: {found.problem}\n"


def every_node(found: PodExplanation) -> Iterator[Part]:
    """A row for each node if the explanation has them, else one for each reason."""
    yield _by_reason(found) if found.rows is None else _listed(found)
    held = found.heldBack or 0
    kept = f"; {held} of them {'is' if held == 1 else 'are'} held back for now" if held else ""
    yield f"\n{passed(found.passing, found.nodes)}{kept}"
    for audit in found.audits:
        yield f"{audit.policy}, in audit, would reject {counted(audit.nodes, 'node')}"


def one_node(found: PodExplanation) -> Iterator[Part]:
    """One node: each clause, and each part of its expressions with its value."""
    node = found.node
    assert node is not None, "the question names a node"
    yield f"node {node.node} {node.outcome}"
    for said in node.clauses:
        name = f"{said.policy}: {said.clause}"
        yield f"\n{name} {'holds' if said.holds else f'fails{said.text.removeprefix(name)}'}"
        if said.detail:
            yield f"  {said.detail}"
        for each in said.expressions:
            if each.part == "when":
                yield "  when"
            yield from trace_rows(each)
        if said.counts is not None:
            yield from (f"  {line}" for line in count_lines(said.counts))
    if node.score is not None:
        yield from _scores(node)
    elif node.outcome == "passes":
        yield "\nno score applies"
    else:
        yield "\nnot scored: filter did not return the node"


def _listed(found: PodExplanation) -> Table:
    listed = table("node", "verdict", "score", "why", right=("score",))
    for row in found.rows or ():
        score = "" if row.score is None else str(row.score)
        listed.add_row(row.node, _PASSES if row.passes else _FAILS, score, "\n".join(row.why))
    return listed


def _by_reason(found: PodExplanation) -> Table:
    """A row for the nodes that fail the same clauses; passing nodes come first."""
    scores = {each.node: each.score for each in found.scores or ()}
    listed = table("nodes", "verdict", "why", "which", right=("nodes",))
    for group in found.groups:
        verdict = FAIL if group.rejectedBy else PASS
        why = "\n".join(each.text for each in group.rejectedBy) or group.heldBack
        why = why or _score_range([scores[name] for name in group.names if name in scores])
        listed.add_row(str(group.nodes), verdict, why, named(group.names, NAMED))
    return listed


def trace_rows(shown: TracedExpression) -> Iterator[Part]:
    """A row for each part of an expression, with the values in one column."""
    if not shown.values:
        yield f"  {shown.text}"
        return
    grid = table("", "")
    grid.show_header = False
    for each in shown.values[:_STEPS]:
        grid.add_row(f"  {'  ' * each.depth}{each.expression}", f"= {_value(each)}")
    yield grid
    if len(shown.values) > _STEPS:
        yield f"  … and {len(shown.values) - _STEPS} more parts"


def _value(read: ReadValue) -> str:
    return f"error: {read.error}" if read.value is None else cut(read.value, _VALUE)


def _scores(node: NodeExplanation) -> Iterator[Part]:
    yield f"\nscore {node.score} of 10"
    yield score_bars(node.terms)
    for each in node.terms:
        if each.value is not None:
            yield f"\n{each.policy}: {each.clause}"
            yield from trace_rows(each.value)


def passed(passing: int, nodes: int) -> str:
    return f"{passing} of {counted(nodes, 'node')} {'passes' if passing == 1 else 'pass'}"


def _score_range(scores: Sequence[int]) -> str:
    if not scores:
        return ""
    low, high = min(scores), max(scores)
    return f"score {low}" if low == high else f"score {low} to {high}"


# ---- the score of one node: bars that each begin where the one before ends


def score_bars(terms: Sequence[ScoreTerm]) -> Table:
    """A row for each score clause of one node, and one for the sum.

    A clause adds weight · points / total weight / 10 to the score.
    """
    total = sum(each.weight for each in terms)
    rows = table("score", "weight", "points", "adds", "", right=("weight", "points", "adds"))
    so_far = 0.0
    for each in terms:
        end = so_far + each.weight * each.points / total / 10
        bar = "missing" if each.missing else _bar(so_far, end)
        name = f"{each.policy}: {each.clause}"
        rows.add_row(name, f"{each.weight:g}", f"{each.points:.1f}", f"{each.adds:.2f}", bar)
        so_far = end
    rows.add_row(
        "sum, rounded to a whole number", f"{total:g}", "", f"{so_far:.2f}", _bar(0, so_far)
    )
    return rows


def _bar(start: float, end: float) -> str:
    block = _PLAIN_BLOCK if console().options.ascii_only else _BLOCK
    first, last = (round(at * _WIDTH / 10) for at in (start, end))
    return f"{' ' * first}{block * (last - first)}".ljust(_WIDTH)

"""Layout of an explanation: policies, nodes as rows or by reason, and one node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from rich.table import Table
from rich.text import Text

from cli.console import Part, lines, table
from engine.enforced import PolicyNotInForce
from engine.explanation.cause import event_time, pod_scheduled
from engine.explanation.document import (
    CAVEAT,
    NodeExplanation,
    PodAnswer,
    PodDecision,
    PodExplanation,
    ReadValue,
    TracedExpression,
)
from engine.explanation.written import count_lines
from engine.facts import Cause, Cell, ExplainedPart, Row
from grammar.messages.texts import counted, cut, excerpt, named

# The most names in a row.
NAMED = 4
# Of more nodes than these there is a row for each only if it is asked for.
_LISTED = 20
# The most rows of a part.
_ROWS = 20
# The most rows of a trace: a loop over the pods of a node has steps for each pod.
_STEPS = 40
# The longest value in a trace.
_VALUE = 60
PASS, _PASSES = Text("pass", "green"), Text("passes", "green")
FAIL, _FAILS = Text("fail", "red"), Text("fails", "red")


def not_in_force(broken: Sequence[PolicyNotInForce]) -> Iterator[Part]:
    """A row for each policy that is not in force as it is written."""
    if broken:
        rows = [(each.policy, each.instead, each.because) for each in broken]
        yield table("not in force", "instead", "because", rows=rows)
        yield ""


def head(found: PodExplanation) -> Iterator[Part]:
    """The pod, and whether each policy applies to it."""
    where = f", as if it were not on {found.on}" if found.on else ""
    yield f"pod {found.pod} at {found.at}{where}"
    yield ""
    if found.exempt:
        yield f"{found.exempt}: no policy applies to the pod"
    elif found.policies:
        yield concerned(found)
    else:
        yield "no policy applies to the namespace of the pod"
    if found.otherPolicies:
        yield f"and {counted(found.otherPolicies, 'policy', 'policies')} of other namespaces"
    yield from parts_of(found)
    yield ""
    if found.problem:
        yield f"kube-scheduler would get an error and retry: {found.problem}"
        yield ""


def concerned(found: PodAnswer) -> Table:
    """A row for each policy."""
    rows = [(each.address, each.applies, each.because) for each in found.policies]
    return table("policy", "applies", "because", rows=rows)


def parts_of(found: PodAnswer, *, after: bool = False) -> Iterator[Part]:
    """The parts of capabilities that come before the nodes, or `after` them."""
    for part in found.parts:
        if part.afterNodes == after:
            yield from explained_part(part)


def explained_part(part: ExplainedPart) -> Iterator[Part]:
    """The texts of a part, set apart if it has a title, and its first rows."""
    if part.title:
        first, *others = part.texts
        yield ""
        yield f"{part.title}: {first}"
        yield from (f"  {text}" for text in others)
    else:
        yield from part.texts
    if part.rows:
        yield row_table(part.rows[:_ROWS])
    if (more := part.more + len(part.rows[_ROWS:])) > 0:
        yield f"and {more} more"


def row_table(found: Sequence[Row]) -> Table:
    """A table with the columns of all rows."""
    columns = list(dict.fromkeys(column for row in found for column in row))
    return table(*columns, rows=([row.get(column) for column in columns] for row in found))


def every_node(found: PodExplanation, *, wide: bool = False) -> Iterator[Part]:
    """A row for each node if there are few of them, or with `wide`, else one for each reason.

    With `wide`, and where no node passes, it also shows what would help.
    """
    has_rows = wide or found.nodes <= _LISTED
    yield _listed(found) if has_rows else by_reason(found)
    yield ""
    if found.caveat != CAVEAT:
        yield f"note: {found.caveat.removesuffix(f'; {CAVEAT}')}"
    passing, unfit = passed(found.passing, found.nodes, found.heldBack), found.unfit_passing
    yield f"{passing}; kube-scheduler's own plugins reject {unfit} of them" if unfit else passing
    if found.unfit and not has_rows:
        rows = [(each.nodes, each.text, named(each.names, NAMED)) for each in found.unfit]
        yield ""
        yield table("nodes", "kube-scheduler's own reason", "which", rows=rows)
    if wide or not found.passing:
        # What each clause keeps the pod from, and without which of them more nodes would pass.
        if found.clauses:
            yield ""
            yield _clauses(found)
        yield from _relaxations(found)
    yield from parts_of(found, after=True)


def one_node(found: PodExplanation) -> Iterator[Part]:
    """One node: each clause, and each part of its expressions with its value."""
    node = found.node
    assert node is not None, "the question names a node"
    yield f"node {node.node} {node.outcome}"
    yield from (f"kube-scheduler's own plugins reject it: {reason}" for reason in node.unfit)
    for said in node.clauses:
        name = f"{said.policy}: {said.clause}"
        yield ""
        yield f"{name} {'holds' if said.holds else f'fails{said.text.removeprefix(name)}'}"
        yield from (f"  {line}" for line in said.detail.splitlines())
        for each in said.expressions:
            if each.part == "when":
                yield "  when"
            yield from trace_rows(each)
        if said.counts is not None:
            yield from (f"  {line}" for line in count_lines(said.counts))
    if node.score is not None:
        yield from _scores(node)
    elif node.outcome == "passes":
        yield ""
        yield "no score applies"
    else:
        yield ""
        yield "not scored: filter did not return the node"


def _listed(found: PodExplanation) -> Table:
    listed: list[Sequence[Cell | Text]] = []
    scored = {each.node: each for each in found.scores or ()}
    unfit = [(f"kube-scheduler: {each.text}", set(each.names)) for each in found.unfit]
    details = {
        (miss.node, each.text): f"{each.text} ({each.detail})"
        for miss in found.nearest
        for each in miss.rejectedBy
        if each.detail
    }
    rows = ((name, group) for group in found.groups for name in group.names)
    for name, group in sorted(rows, key=lambda row: row[0]):
        score, texts = scored.get(name), [each.text for each in group.rejectedBy]
        why = [*(details.get((name, text), text) for text in texts), group.heldBack]
        why += [*(score.missing if score else ()), *(t for t, names in unfit if name in names)]
        verdict = _FAILS if group.rejectedBy else _PASSES
        points = score.score if score is not None else None
        listed.append((name, verdict, points, lines(text for text in why if text)))
    return table("node", "verdict", "score", "why", rows=listed)


def by_reason(found: PodAnswer) -> Table:
    """A row for the nodes that fail the same clauses; passing nodes come first."""
    scores = {each.node: each.score for each in found.scores or ()}
    listed: list[Sequence[Cell | Text]] = []
    for group in found.groups:
        verdict = FAIL if group.rejectedBy else PASS
        why = [each.text for each in group.rejectedBy] or [
            group.heldBack or _score_range([scores[name] for name in group.names if name in scores])
        ]
        listed.append((group.nodes, verdict, lines(why), named(group.names, NAMED)))
    return table("nodes", "verdict", "why", "which", rows=listed)


def trace_rows(shown: TracedExpression) -> Iterator[Part]:
    """A row for each part of an expression, with the values in one column."""
    if not shown.values:
        yield f"  {shown.text}"
        return
    steps = shown.values[:_STEPS]
    rows = ((f"  {'  ' * each.depth}{each.expression}", f"= {_value(each)}") for each in steps)
    grid = table("", "", rows=rows)
    grid.show_header = False
    yield grid
    if len(shown.values) > _STEPS:
        yield f"  … and {len(shown.values) - _STEPS} more parts"


def _value(read: ReadValue) -> str:
    return f"error: {read.error}" if read.value is None else cut(read.value, _VALUE)


def _scores(node: NodeExplanation) -> Iterator[Part]:
    yield ""
    yield f"score {node.score} of 10"
    # A row for each score clause, and one for the sum.
    rows, terms = [], node.terms
    for each in terms:
        name = f"{each.policy}: {each.clause}{', missing' if each.missing else ''}"
        rows.append((name, f"{each.weight:g}", f"{each.points:.1f}", f"{each.adds:.2f}"))
    total, adds = sum(each.weight for each in terms), sum(each.adds for each in terms)
    rows.append(("sum, rounded to a whole number", f"{total:g}", "", f"{adds:.2f}"))
    numbers = ("weight", "points", "adds")
    yield table("score", *numbers, rows=rows, right=numbers)
    for each in terms:
        if each.value is not None:
            yield ""
            yield f"{each.policy}: {each.clause}"
            yield from trace_rows(each.value)


def passed(passing: int, nodes: int, held: int | None = 0) -> str:
    """How many nodes pass, and how many of these are `held` back."""
    kept = f"; {held} of them {'is' if held == 1 else 'are'} held back for now" if held else ""
    return f"{passing} of {counted(nodes, 'node')} {'passes' if passing == 1 else 'pass'}{kept}"


def _score_range(scores: Sequence[int]) -> str:
    if not scores:
        return ""
    low, high = min(scores), max(scores)
    return f"score {low}" if low == high else f"score {low} to {high}"


# ---- then and now


def then_and_now(found: PodExplanation) -> Iterator[Part]:
    """Both decisions, and which of the four things changed between them."""
    then = found.then
    if then is None:
        return
    yield f"decided by replica {then.replica} at {then.at}: {_in_short(then)}"
    yield f"now: {_in_short(found)}"
    if not found.changes:
        yield "policies, nodes, counts and time are the same"
    else:
        yield table("changed", "how", rows=((each.what, each.text) for each in found.changes))
    yield from preemption(then)


def _in_short(found: PodAnswer) -> str:
    passing = passed(found.passing, found.nodes, found.heldBack)
    return f"error: {found.problem}" if found.problem else passing


def preemption(decided: PodDecision) -> Iterator[Part]:
    """What the last call of preempt kept; nothing without it."""
    found = decided.preemption
    if found is None:
        return
    kept = f"{found.kept} of {counted(found.offered, 'node')} where kube-scheduler may evict pods"
    yield f"preempt kept {kept}, at {found.at}"


# ---- what would help


_RELAXATIONS = 3


def _clauses(found: PodExplanation) -> Table:
    rows: list[Sequence[Cell]] = []
    for each in found.clauses:
        name, passes = f"{each.policy}: {each.clause}", found.nodes - each.fails
        rows.append((name, passes, each.fails, each.failsOnlyThis))
        rows += [(f"  {p.text}", found.nodes - p.fails, p.fails, None) for p in each.requires]
    return table("clause", "passes", "fails", "fails only this", rows=rows)


def _relaxations(found: PodExplanation) -> Iterator[Part]:
    if not (closest := found.closest):
        return
    yield ""
    yield "smallest relaxation"
    for group in closest[:_RELAXATIONS]:
        names = " and ".join(f"{each.policy}: {each.clause}" for each in group.rejectedBy)
        yield f"  without {names}: {counted(group.nodes, 'more node')} would pass"
    if (more := len(closest) - _RELAXATIONS) > 0:
        yield f"  and {more} more of {counted(len(closest[0].rejectedBy), 'clause')}"


# ---- what a running cluster says about a pod


Json = dict[str, Any]
_EVENTS = 3
_MESSAGE = 600


def beginning(
    cause: Cause | None, pod: Json, events: Sequence[Json] | str, broken: Sequence[PolicyNotInForce]
) -> Iterator[Part]:
    """What comes before the policies: the cause, what it was worked out from, broken policies."""
    if cause is not None:
        yield from cause_lines(cause)
        # What a cause was worked out from: the condition of the pod, and its last events.
        condition = pod_scheduled(pod)
        if condition is not None:
            reason, message = condition.get("reason", ""), condition.get("message", "")
            yield excerpt(
                f"PodScheduled is {condition.get('status')}: {reason}: {message}", _MESSAGE
            )
        if isinstance(events, str):
            yield f"the events are not known: you may not {events}"
        else:
            for event in events[-_EVENTS:]:
                times = event.get("count") or 1
                again = f" ({times} times)" if times > 1 else ""
                text = f"{event_time(event)} {event.get('reason')}{again}: {event.get('message')}"
                yield excerpt(f"event {text}", _MESSAGE)
        yield ""
    yield from not_in_force(broken)


def cause_lines(found: Cause) -> Iterator[Part]:
    yield f"cause: {found.text}"
    if found.hint:
        yield f"  = help: {found.hint}"


# ---- what a caller with few rights sees


def readable_policies(policies: Mapping[str, bytes]) -> Iterator[Part]:
    """A row for each policy object, with what its status says; pods are numbers there."""
    if not policies:
        yield "no policy can be read"
        return
    rows: list[Sequence[Cell]] = []
    for name, raw in sorted(policies.items()):
        item = msgspec.json.decode(raw)
        status = item.get("status") or {}
        ready: Json = next(
            (c for c in status.get("conditions", ()) if c.get("type") == "Ready"), {}
        )
        numbers = [status.get(f"{field}Pods") for field in ("matched", "placed", "target")]
        why = "" if ready.get("status") == "True" else ready.get("message", "")
        rows.append((name.partition("/")[2], ready.get("status", "unknown"), *numbers, why))
    yield table("policy", "ready", "matched", "placed", "target", "why", rows=rows)

"""Cost table: the steps that each expression of a policy can take, for `check` and the REPL."""

from __future__ import annotations

from collections.abc import Iterator

from grammar.checker.policy_checker import Checked
from grammar.checks.costs import describe
from grammar.messages.texts import excerpt
from grammar.tree.source import Source, Span

# The longest text of an expression in a cost table.
_TEXT = 72


def cost_table(checked: Checked, source: Source, limit: int) -> Iterator[str]:
    """Lines with the steps for one node, the place and the text of each expression.

    The most expensive parts of an expression follow it.
    """
    described = list(describe(checked))
    yield f"cost of {checked.policy.address} in steps for one node, of {limit:,}"
    if not described:
        yield "  nothing"
        return
    rows = [
        row
        for d in described
        for row in (
            (d.steps, d.expr.span, ""),
            *((part.steps, part.span, "  ") for part in d.parts),
        )
    ]
    width = max(len(f"{steps:,}") for steps, _, _ in rows)
    places = [line_and_column(source, span) for _, span, _ in rows]
    column = max(map(len, places))
    for (steps, span, indent), place in zip(rows, places, strict=True):
        text = excerpt(source.slice(span), _TEXT)
        yield f"  {steps:>{width},}  {place:<{column}}  {indent}{text}"
    yield from _slow_for_new_shapes(checked, source)


def _slow_for_new_shapes(checked: Checked, source: Source) -> Iterator[str]:
    """Lines with the clauses that make the first call about a new shape of pods slow."""
    from engine.program.new_shapes import LIMIT, NODES, PODS_ON_NODE, new_shapes  # noqa: PLC0415

    found = list(new_shapes(checked))
    for verb in ("filter", "prioritize"):
        clauses = sorted((each for each in found if each.verb == verb), key=lambda e: -e.times)
        total = sum(each.times for each in clauses)
        if total <= LIMIT:
            continue
        yield (
            f"the first {verb} about pods of a new shape takes up to {total:,} times as long as the"
            f" next one, with {NODES:,} nodes and {PODS_ON_NODE} pods on each"
        )
        width = len(f"{clauses[0].times:,}")
        for each in clauses:
            place = line_and_column(source, each.span)
            yield f"  {each.times:>{width},} times  {place}  {each.clause}"


def line_and_column(source: Source, span: Span) -> str:
    """The line and the column where a span begins: `3:14`."""
    line, column = source.position(span.start)
    return f"{line}:{column}"

"""What each expression of a policy can cost, as `placet check --cost` shows it."""

from __future__ import annotations

from collections.abc import Iterator

from grammar.checks import cost
from grammar.policy_checker import Checked
from grammar.source import Source, Span

_TEXT = 72


def cost_table(checked: Checked, source: Source, limit: int) -> Iterator[str]:
    """Steps for one node, place and text of every expression and its dearest parts, as lines."""
    described = list(cost.describe(checked))
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
    places = [_place(source, span) for _, span, _ in rows]
    column = max(map(len, places))
    for (steps, span, indent), place in zip(rows, places, strict=True):
        yield f"  {steps:>{width},}  {place:<{column}}  {indent}{_shown(source.slice(span))}"


def _place(source: Source, span: Span) -> str:
    line, column = source.position(span.start)
    return f"{line}:{column}"


def _shown(text: str) -> str:
    """On one line, and no longer than a terminal shows well."""
    text = " ".join(text.split())
    return text if len(text) <= _TEXT else f"{text[: _TEXT - 1]}…"

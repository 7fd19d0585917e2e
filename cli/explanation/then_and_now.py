"""Layout of then and now: the last decision of the running Placet beside what is decided now."""

from __future__ import annotations

from collections.abc import Iterator

from cli.console import Part, table
from cli.explanation.decision_layout import passed
from engine.explanation.document import PodExplanation


def then_and_now(found: PodExplanation) -> Iterator[Part]:
    """Both decisions, and which of the four things changed between them."""
    then = found.then
    if then is None:
        return
    before = passed(then.passing, then.offered) if then.error is None else f"error: {then.error}"
    yield f"decided by replica {then.replica} at {then.at}: {before}"
    now = f"error: {found.problem}" if found.problem else passed(found.offered, found.nodes)
    yield f"now: {now}"
    if not found.changes:
        yield "policies, nodes, counts and time are the same"
        return
    rows = table("changed", "how")
    for change in found.changes:
        rows.add_row(change.what, change.text)
    yield rows

"""`range minmax` and `range rank` compare the nodes of one request, which can be a sample."""

from __future__ import annotations

from collections.abc import Iterator

from grammar.clauses import Score
from grammar.diagnostics import Diagnostic
from grammar.policy_checker import Checked


def check(checked: Checked) -> Iterator[Diagnostic]:
    """Warn that kube-scheduler offers a part of the nodes unless told otherwise (C12)."""
    for clause in checked.policy.clauses:
        if isinstance(clause, Score) and isinstance(clause.range, str):
            yield Diagnostic(
                "P0314",
                "warning",
                f"`range {clause.range}` compares only the nodes that kube-scheduler offers",
                clause.value.span,
                hint="set `percentageOfNodesToScore: 100`, or write the range in numbers",
            )

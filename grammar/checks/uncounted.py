"""Clauses that this version checks and does not act on: nothing is skipped in silence."""

from __future__ import annotations

from collections.abc import Iterator

from grammar.clauses import Limit, Preempt, Share, Spread
from grammar.diagnostics import Diagnostic
from grammar.policy_checker import Checked


def check(checked: Checked) -> Iterator[Diagnostic]:
    """Warn of each clause that counts pods, or that is about preemption."""
    for clause in checked.policy.clauses:
        if isinstance(clause, Share | Spread | Limit | Preempt):
            word = type(clause).__name__.lower()
            yield Diagnostic(
                "P0316",
                "warning",
                f"{word} `{clause.name}` is checked, but not acted on by this version",
                clause.name_span,
                hint="filter and score clauses decide; see the language reference",
            )

"""Clauses that this version checks and does not act on: nothing is skipped in silence."""

from __future__ import annotations

from collections.abc import Iterator

from grammar.clauses import Preempt
from grammar.diagnostics import Diagnostic
from grammar.policy_checker import Checked


def check(checked: Checked) -> Iterator[Diagnostic]:
    """Warn of each clause about preemption."""
    for clause in checked.policy.clauses:
        if isinstance(clause, Preempt):
            yield Diagnostic(
                "P0316",
                "warning",
                f"preempt `{clause.name}` is checked, but not acted on by this version",
                clause.name_span,
                hint="every candidate is answered as kube-scheduler proposed it",
            )

"""Conditions that are always true or always false."""

from __future__ import annotations

from collections.abc import Iterator

from grammar.ast import Chain, Expr, Literal
from grammar.checks.conditions import conditions
from grammar.diagnostics import Diagnostic
from grammar.folding import fold
from grammar.policy_checker import Checked

_MEANING = {
    ("require", False): "no node can pass it",
    ("require", True): "every node passes it",
    ("when", False): "the clause never applies",
    ("when", True): "the clause always applies",
    ("for", False): "the policy selects no pod",
}


def check(checked: Checked) -> Iterator[Diagnostic]:
    """Warn of each constant condition or operand.

    `for pods where true` is how one says all, `for pods where false` that a policy is there for
    `use` alone.
    """
    for condition in conditions(checked.policy):
        folded = fold(condition.expr, checked.environment)
        if isinstance(folded, Literal) and isinstance(folded.value, bool):
            if condition.word == "for" and (folded.value or condition.expr == folded):
                continue
            meaning = _MEANING.get((condition.word, folded.value))
            yield _warning(condition.expr, folded.value, meaning)
        elif isinstance(condition.expr, Chain):
            yield from _operands(condition.expr, checked)


def _operands(chain: Chain, checked: Checked) -> Iterator[Diagnostic]:
    for operand in chain.operands:
        folded = fold(operand, checked.environment)
        if isinstance(folded, Literal) and isinstance(folded.value, bool):
            yield _warning(operand, folded.value, f"leave it out of the `{chain.op}`")


def _warning(expr: Expr, value: object, meaning: str | None) -> Diagnostic:
    return Diagnostic(
        "P0302", "warning", f"this is always {str(value).lower()}", expr.span, hint=meaning
    )

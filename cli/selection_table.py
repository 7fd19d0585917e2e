"""Which policies concern a pod, which of them governs it, and why: a row for each policy."""

from __future__ import annotations

from collections.abc import Iterator

from rich.table import Table

from cli.console import table
from engine.program.frame import Frame
from engine.program.program import Program
from engine.registry import Registry, Selection
from grammar.errors import EvaluationError


def selection_table(
    registry: Registry, selection: Selection, namespace: str, frame: Frame
) -> Table:
    """A row for each policy that could concern a pod of the namespace."""
    rows = table("policy", "applies", "because")
    for program in registry.programs:
        if program.namespace in (None, namespace):
            rows.add_row(program.address, *_standing(program, selection, frame))
    return rows


def elsewhere(registry: Registry, namespace: str) -> int:
    """How many policies are of other namespaces."""
    return sum(p.namespace not in (None, namespace) for p in registry.programs)


def _standing(program: Program, selection: Selection, frame: Frame) -> tuple[str, str]:
    if program in selection.guardrails:
        return "as a guardrail", "every cluster policy that selects the pod applies"
    if program is selection.governing:
        return "governs", _victory(program, selection.losers)
    if program in selection.losers:
        assert selection.governing is not None, "there is no loser without a winner"
        return "no", f"`{selection.governing.address}` governs"
    if program in selection.audited:
        return "in audit", "it is evaluated beside the others, and rejects nothing"
    for broken in selection.unselectable:
        if broken.program is program:
            return "rejects all", f"its `for` cannot be evaluated: {broken.error}"
    return "no", _unselected(program, frame)


def _victory(winner: Program, losers: tuple[Program, ...]) -> str:
    """By what it came before the policy that came closest."""
    if not losers:
        return "no other policy selects the pod"
    loser = losers[0]
    return next(
        reason.format(loser=loser.address) for differs, reason in _steps(winner, loser) if differs
    )


def _steps(winner: Program, loser: Program) -> Iterator[tuple[bool, str]]:
    """The rules in their order; the first in which the two differ decides."""
    weights = f"its weight {winner.weight} is more than the {loser.weight} of `{{loser}}`"
    yield winner.weight != loser.weight, weights
    yield winner.strict != loser.strict, "it can reject, and `{loser}` cannot"
    yield winner.namespace != loser.namespace, "it is of the namespace, and `{loser}` of every one"
    yield True, "it comes before `{loser}` by name"


def _unselected(program: Program, frame: Frame) -> str:
    """What its `for` said when it was asked."""
    assert program.select is not None, "a policy without a `for` concerns every pod"
    try:
        program.select(frame)
    except EvaluationError as error:
        return f"its `for` has no value: {error}"
    return "its `for` is false"

"""Application: how each policy applies to a pod, and why, in the words of `placet explain`."""

from __future__ import annotations

from engine.decision.registry import Selection
from engine.program.frame import Frame
from engine.program.program import Program
from grammar.values.errors import EvaluationError


def application(program: Program, selection: Selection, frame: Frame) -> tuple[str, str]:
    """How a policy that can apply to a pod applies to it, and the reason."""
    if selection.exempt:
        return "no", selection.exempt
    if program in selection.guardrails:
        return "as a guardrail", "every cluster policy that selects the pod applies"
    if program is selection.governing:
        return "governs", _victory(program, selection.losers)
    if program in selection.losers:
        assert selection.governing is not None, "there is no loser without a winner"
        return "no", f"`{selection.governing.address}` governs"
    if program in selection.audited:
        return "in audit", "it is evaluated, but rejects nothing"
    for broken in selection.unselectable:
        if broken.program is program:
            return "rejects all", f"its `for` cannot be evaluated: {broken.error}"
    return "no", _unselected(program, frame)


def _victory(winner: Program, losers: tuple[Program, ...]) -> str:
    """The first rule of precedence in which the winner and the next policy differ."""
    if not losers:
        return "no other policy selects the pod"
    loser, name = losers[0], f"`{losers[0].address}`"
    if winner.weight != loser.weight:
        return f"its weight {winner.weight} is higher than the {loser.weight} of {name}"
    if winner.strict != loser.strict:
        return f"it can reject, and {name} cannot"
    if winner.namespace != loser.namespace:
        return f"it belongs to the namespace, and {name} to all namespaces"
    return f"its name comes before {name}"


def _unselected(program: Program, frame: Frame) -> str:
    """The result of its `for`, which did not select the pod."""
    assert program.select is not None, "a policy without a `for` selects every pod"
    try:
        program.select(frame)
    except EvaluationError as error:
        return f"its `for` has no value: {error}"
    return "its `for` is false"

"""Constant regular expressions that RE2 does not take: found now, not on the first pod."""

from __future__ import annotations

from collections.abc import Iterator

from grammar import mistakes
from grammar.ast import Call, Literal
from grammar.checks.everywhere import expressions
from grammar.diagnostics import Diagnostic
from grammar.errors import EvaluationError
from grammar.policy_checker import Checked
from grammar.values import regex

_FUNCTIONS = frozenset({"matches", "find", "findAll"})


def check(checked: Checked) -> Iterator[Diagnostic]:
    """An error for each constant pattern that can never match anything."""
    for expr in expressions(checked.policy):
        match expr:
            case Call(function, target, args) if function in _FUNCTIONS:
                operands = args if target is None else (target, *args)
                if len(operands) > 1 and isinstance(operands[1], Literal):
                    yield from _refused(operands[1])
            case _:
                pass


def _refused(constant: Literal) -> Iterator[Diagnostic]:
    if not isinstance(constant.value, str):
        return
    try:
        regex.pattern(constant.value)
    except EvaluationError as error:
        yield mistakes.bad_pattern(str(error), constant.span)

"""Constant folding on a checked tree: what reads nothing is worked out once."""

from __future__ import annotations

from dataclasses import replace

from grammar.ast import (
    Binary,
    Call,
    Chain,
    Conditional,
    Expr,
    Index,
    ListLiteral,
    Literal,
    MapLiteral,
    Unary,
)
from grammar.environment import Environment
from grammar.errors import EvaluationError
from grammar.evaluator import evaluate
from grammar.types import BOOL

# Only values that a Literal prints and compares by; a folded list would lose its elements' places.
_FOLDED = frozenset("bool int double string quantity duration timestamp semver null".split())


def fold(expr: Expr, environment: Environment) -> Expr:
    """The expression with its constant parts turned to literals.

    An error stays to happen at run time.
    """
    match expr:
        case Unary(_, operand):
            return _closed(replace(expr, operand=fold(operand, environment)), environment)
        case Binary(_, left, right):
            folded = replace(expr, left=fold(left, environment), right=fold(right, environment))
            return _closed(folded, environment)
        case Chain("&&" | "||", operands):
            return _logical(replace(expr, operands=tuple(fold(o, environment) for o in operands)))
        case Chain(_, operands):
            return _closed(
                replace(expr, operands=tuple(fold(o, environment) for o in operands)), environment
            )
        case Conditional(condition, then, otherwise):
            test = fold(condition, environment)
            if isinstance(test, Literal):
                return fold(then if test.value is True else otherwise, environment)
            branches = fold(then, environment), fold(otherwise, environment)
            return replace(expr, condition=test, then=branches[0], otherwise=branches[1])
        case Call(_, target, args):
            called = fold(target, environment) if target is not None else None
            return _closed(
                replace(expr, target=called, args=tuple(fold(a, environment) for a in args)),
                environment,
            )
        case Index(operand, index):
            return replace(expr, operand=fold(operand, environment), index=fold(index, environment))
        case _:
            return expr


def _logical(chain: Chain) -> Expr:
    """A deciding constant decides, whatever the others do; the other constant says nothing."""
    decisive = chain.op == "||"
    if any(isinstance(o, Literal) and o.value is decisive for o in chain.operands):
        return Literal(decisive, BOOL, chain.span)
    left = tuple(
        o for o in chain.operands if not (isinstance(o, Literal) and o.value is (not decisive))
    )
    if not left:
        return Literal(not decisive, BOOL, chain.span)
    # A single operand keeps its chain where its type does not promise a bool.
    return left[0] if len(left) == 1 and left[0].type == BOOL else replace(chain, operands=left)


def _closed(expr: Expr, environment: Environment) -> Expr:
    """Evaluates an operation whose operands are all constants."""
    operands = _operands(expr)
    if not all(_constant(o) for o in operands) or expr.type.name not in _FOLDED:
        return expr
    try:
        return Literal(evaluate(expr, {}, environment), expr.type, expr.span)
    except EvaluationError:
        return expr


def _operands(expr: Expr) -> tuple[Expr, ...]:
    match expr:
        case Unary(_, operand):
            return (operand,)
        case Binary(_, left, right):
            return left, right
        case Chain(_, operands):
            return operands
        case Call(_, target, args):
            return (target, *args) if target is not None else args
        case _:
            return (expr,)


def _constant(expr: Expr) -> bool:
    if isinstance(expr, ListLiteral):
        return not expr.optional and all(map(_constant, expr.elements))
    return isinstance(expr, Literal) or (isinstance(expr, MapLiteral) and not expr.entries)

"""Folding: the constant parts of expressions as literals, and the constants that one can be.

The compiler folds what it compiles. Rules compare what is constant with what can be true.
"""

from __future__ import annotations

from dataclasses import replace

from grammar.meaning.environment import Environment
from grammar.meaning.evaluator import evaluate
from grammar.tree import ast
from grammar.tree.types import BOOL
from grammar.tree.walk import children
from grammar.values.errors import EvaluationError

# The types of values that a Literal can hold. A folded list would lose the spans of its elements.
_FOLDED = frozenset("bool int double string quantity duration timestamp semver null".split())
# The steps of one folded operation, with the texts that it makes: a policy may have thousands.
_FOLDING_STEPS = 1000


def fold(expr: ast.Expr, environment: Environment) -> ast.Expr:
    """The expression with its constant parts replaced by literals.

    A part whose evaluation fails stays as it is, so that it fails at run time.
    """
    match expr:
        case ast.Unary(_, operand):
            return _closed(replace(expr, operand=fold(operand, environment)), environment)
        case ast.Binary(_, left, right):
            folded = replace(expr, left=fold(left, environment), right=fold(right, environment))
            return _closed(folded, environment)
        case ast.Chain(op, operands):
            chain = replace(expr, operands=tuple(fold(o, environment) for o in operands))
            return _closed(chain, environment) if op == "+" else _logical(chain)
        case ast.Conditional(condition, then, otherwise):
            test = fold(condition, environment)
            if isinstance(test, ast.Literal):
                return fold(then if test.value is True else otherwise, environment)
            branches = fold(then, environment), fold(otherwise, environment)
            return replace(expr, condition=test, then=branches[0], otherwise=branches[1])
        case ast.Call(_, target, args):
            called = fold(target, environment) if target is not None else None
            call = replace(expr, target=called, args=tuple(fold(a, environment) for a in args))
            return _closed(call, environment)
        case ast.Index(operand, index):
            return replace(expr, operand=fold(operand, environment), index=fold(index, environment))
        case _:
            return expr


def _logical(chain: ast.Chain) -> ast.Expr:
    """The chain without its neutral constants; a literal where one constant decides it."""
    decisive = chain.op == "||"
    if any(isinstance(o, ast.Literal) and o.value is decisive for o in chain.operands):
        return ast.Literal(decisive, BOOL, chain.span)
    left = tuple(
        o for o in chain.operands if not (isinstance(o, ast.Literal) and o.value is (not decisive))
    )
    if not left:
        return ast.Literal(not decisive, BOOL, chain.span)
    # A single operand that may not be a bool keeps its chain, which checks that.
    return left[0] if len(left) == 1 and left[0].type == BOOL else replace(chain, operands=left)


def _closed(expr: ast.Expr, environment: Environment) -> ast.Expr:
    """The value of an operation whose operands are all constants; else the expression."""
    if not all(map(_constant, children(expr))) or expr.type.name not in _FOLDED:
        return expr
    try:
        value = evaluate(expr, {}, environment, _FOLDING_STEPS)
        return ast.Literal(value, expr.type, expr.span)
    except EvaluationError:
        return expr


def _constant(expr: ast.Expr) -> bool:
    if isinstance(expr, ast.ListLiteral):
        return not expr.optional and all(map(_constant, expr.elements))
    return isinstance(expr, ast.Literal) or (isinstance(expr, ast.MapLiteral) and not expr.entries)


# ---- constants


def constant(number: float | ast.Expr, environment: Environment) -> float | None:
    """The value of a number, or of a constant expression; None for any other expression."""
    if not isinstance(number, ast.Expr):
        return number
    value = literal(number, environment)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    return None


def literal(expr: ast.Expr, environment: Environment) -> object:
    """The value of a constant expression, or of a `let` of one; None for any other."""
    while isinstance(expr, ast.LetReference):
        expr = environment.lets[expr.name]
    folded = fold(expr, environment)
    return folded.value if isinstance(folded, ast.Literal) else None


def constants(expr: ast.Expr, environment: Environment) -> tuple[ast.Literal, ...]:
    """The constants that an expression can be; none if it is computed from something else."""
    match fold(expr, environment):
        case ast.Literal() as constant:
            return (constant,)
        case ast.Conditional(_, then, otherwise):
            return (*constants(then, environment), *constants(otherwise, environment))
        case ast.Call("optional.of" | "dyn" | "string", None, (value,)):
            return constants(value, environment)
        case _:
            return ()

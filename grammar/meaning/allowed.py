"""Allowed values: those of a path for which a comparison with constants is true.

There is no solver: a condition of any other form has no allowed values. So what follows from them
is right, and some of what could follow is not found.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from grammar.tree import ast
from grammar.tree.printer import print_expression

# A relation with its sides exchanged, and the relation that is true where another one is false.
MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
NEGATED = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}


def conjuncts(expr: ast.Expr) -> tuple[ast.Expr, ...]:
    """The operands that must all be true for the expression to be true."""
    if isinstance(expr, ast.Chain) and expr.op == "&&":
        return tuple(part for operand in expr.operands for part in conjuncts(operand))
    return (expr,)


_INFINITY = float("inf")


@dataclass(frozen=True, slots=True)
class Allowed:
    """The values of a path that pass: a set of constants, or an interval with exceptions."""

    values: frozenset[object] | None = None
    low: float = -_INFINITY
    high: float = _INFINITY
    open_low: bool = False
    open_high: bool = False
    excluded: frozenset[object] = field(default_factory=frozenset)

    def admits(self, value: object) -> bool:
        if value in self.excluded or (self.values is not None and value not in self.values):
            return False
        if not isinstance(value, float):
            return self.low == -_INFINITY and self.high == _INFINITY
        above = value > self.low if self.open_low else value >= self.low
        return above and (value < self.high if self.open_high else value <= self.high)

    def both(self, other: Allowed) -> Allowed:
        values = self.values if other.values is None else other.values
        if values is not None:
            return Allowed(frozenset(v for v in values if self.admits(v) and other.admits(v)))
        # Of two equal ends, an open one is narrower.
        low, open_low = max((self.low, self.open_low), (other.low, other.open_low))
        high, closed = min((self.high, not self.open_high), (other.high, not other.open_high))
        return Allowed(None, low, high, open_low, not closed, self.excluded | other.excluded)

    @property
    def empty(self) -> bool:
        if self.values is not None:
            return not self.values
        return self.low > self.high or (self.low == self.high and (self.open_low or self.open_high))


def allowed_by(expr: ast.Expr) -> tuple[str, Allowed] | None:
    """The compared path, and the values of it that pass."""
    match expr:
        case ast.Binary("in", left, ast.ListLiteral(elements)):
            if all(isinstance(e, ast.Literal) for e in elements):
                return print_expression(left), Allowed(frozenset(value_of(e) for e in elements))
        case ast.Binary(op, ast.Literal() as constant, right) if op in MIRRORED:
            return _range(MIRRORED[op], right, constant)
        case ast.Binary(op, left, ast.Literal() as constant) if op in MIRRORED:
            return _range(op, left, constant)
    return None


def _range(op: str, path: ast.Expr, constant: ast.Literal) -> tuple[str, Allowed] | None:
    if isinstance(path, ast.Literal):
        return None
    value, name = value_of(constant), print_expression(path)
    if op == "==":
        return name, Allowed(frozenset({value}))
    if op == "!=":
        return name, Allowed(excluded=frozenset({value}))
    if not isinstance(value, float):
        return None
    if op in ("<", "<="):
        return name, Allowed(high=value, open_high=op == "<")
    return name, Allowed(low=value, open_low=op == ">")


def value_of(expr: ast.Expr) -> object:
    """A constant as the language compares it: numbers, amounts and times as floats."""
    value = getattr(expr, "value", None)
    if isinstance(value, bool | str) or value is None:
        return value
    if isinstance(value, int | float):
        return float(value)
    nanos = getattr(value, "nanos", None)
    return float(nanos) if nanos is not None else value


def exclude_each_other(one: ast.Expr, other: ast.Expr) -> bool:
    """Whether it is known that two conditions are never true together."""
    for part in conjuncts(one):
        for opposite in conjuncts(other):
            if ast.Unary("!", part) == opposite or ast.Unary("!", opposite) == part:
                return True
            first, second = allowed_by(part), allowed_by(opposite)
            if first is None or second is None or first[0] != second[0]:
                continue
            if first[1].both(second[1]).empty:
                return True
    return False

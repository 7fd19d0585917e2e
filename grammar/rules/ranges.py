"""Ranges: the values for which a condition is true, and the numbers that an expression can be.

There is no solver: any condition but a comparison is known to be true, and a number without a known
range has no extent. So what follows from them is right, and some of what could follow is not
found. Hours go from 0 to 23, a size is never negative, and so is no sum of what is never negative.
Amounts and durations are in billionths.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import product
from math import inf, isfinite, isnan

from grammar.meaning.environment import inside
from grammar.tree import ast
from grammar.tree.printer import print_expression
from grammar.tree.types import BOOL, QUANTITY, TIMESTAMP
from grammar.tree.walk import conjuncts, walk

# ---- facts

# A relation with its sides exchanged, and the relation that is true where another one is false.
MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
NEGATED = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact about a path: its values for which a condition is true.

    They are a set of constants, or an interval with exceptions.
    """

    path: str
    values: frozenset[object] | None = None
    low: float = -inf
    high: float = inf
    open_low: bool = False
    open_high: bool = False
    excluded: frozenset[object] = frozenset()

    def admits(self, value: object) -> bool:
        if value in self.excluded or (self.values is not None and value not in self.values):
            return False
        if not isinstance(value, float):
            return self.low == -inf and self.high == inf
        above = value > self.low if self.open_low else value >= self.low
        return above and (value < self.high if self.open_high else value <= self.high)

    def both(self, other: Fact) -> Fact:
        """The fact about the path that holds where both this one and another hold."""
        values = self.values if other.values is None else other.values
        if values is not None:
            admitted = (v for v in values if self.admits(v) and other.admits(v))
            return Fact(self.path, frozenset(admitted))
        # Of two equal ends, an open one is narrower.
        low, open_low = max((self.low, self.open_low), (other.low, other.open_low))
        high, closed = min((self.high, not self.open_high), (other.high, not other.open_high))
        excluded = self.excluded | other.excluded
        return Fact(self.path, None, low, high, open_low, not closed, excluded)

    @property
    def empty(self) -> bool:
        if self.values is not None:
            return not self.values
        return self.low > self.high or (self.low == self.high and (self.open_low or self.open_high))

    @property
    def opposite(self) -> Fact:
        """What is true where the condition is false; it is no interval between two ends."""
        if self.values is not None:
            return Fact(self.path, excluded=self.values)
        if self.excluded:
            return Fact(self.path, self.excluded)
        if self.low > -inf:
            return Fact(self.path, high=self.low, open_high=not self.open_low)
        return Fact(self.path, low=self.high, open_low=not self.open_high)

    def excludes(self, other: Fact) -> bool:
        """Whether it is known that both are never true together."""
        return self.path == other.path and self.both(other).empty

    def implies(self, other: Fact) -> bool:
        """Whether this fact includes the other."""
        return self.path == other.path and self.both(other) == self


def fact(expr: ast.Expr) -> Fact:
    """The fact that a condition states; of any other than a comparison, that it is true."""
    match expr:
        case ast.Unary("!", operand):
            return fact(operand).opposite
        case ast.Binary("in", path, ast.ListLiteral(elements)):
            if all(isinstance(e, ast.Literal) for e in elements):
                return Fact(print_expression(path), frozenset(map(value_of, elements)))
        case ast.Binary(_, ast.Literal(), ast.Literal()):
            pass
        case ast.Binary(op, ast.Literal() as constant, path) if op in MIRRORED:
            return fact(ast.Binary(MIRRORED[op], path, constant))
        case ast.Binary(op, path, ast.Literal() as constant):
            name = print_expression(path)
            match op, value_of(constant):
                case "==", value:
                    return Fact(name, frozenset({value}))
                case "!=", value:
                    return Fact(name, excluded=frozenset({value}))
                case "<" | "<=", float(value):
                    return Fact(name, high=value, open_high=op == "<")
                case ">" | ">=", float(value):
                    return Fact(name, low=value, open_low=op == ">")
                case _:
                    pass
        case _:
            pass
    return Fact(print_expression(expr), frozenset({True}))


def value_of(expr: ast.Expr) -> object:
    """A constant as the language compares it: numbers, amounts and times as floats."""
    value = getattr(expr, "value", None)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    nanos = getattr(value, "nanos", None)
    return float(nanos) if nanos is not None else value


def exclude_each_other(one: ast.Expr, other: ast.Expr) -> bool:
    """Whether it is known that two conditions are never true together."""
    known = [fact(part) for part in conjuncts(one)]
    return any(each.excludes(fact(part)) for part in conjuncts(other) for each in known)


def includes(one: ast.Expr, other: ast.Expr) -> bool:
    """Whether it is known that the second of two conditions is never true without the first."""
    known = [fact(part) for part in conjuncts(other)]
    wanted = (fact(part) for part in conjuncts(one) if part != ast.Literal(True, BOOL))
    return all(any(each.implies(part) for each in known) for part in wanted)


# ---- extents

Extent = tuple[float, float]

# The least and the greatest value of what is read of a time.
PARTS_OF_TIME: dict[str, tuple[int, int]] = {
    "getDate": (1, 31),
    "getDayOfMonth": (0, 30),
    "getDayOfWeek": (0, 6),
    "getDayOfYear": (0, 365),
    "getFullYear": (1000, 9999),
    "getHours": (0, 23),
    "getMilliseconds": (0, 999),
    "getMinutes": (0, 59),
    "getMonth": (0, 11),
    "getSeconds": (0, 59),
}
_WHOLES = ("allocatable", "capacity")
_NOT_NEGATIVE: Extent = (0.0, inf)
_FUNCTIONS: dict[str, Extent] = {
    "compareTo": (-1.0, 1.0),
    "hash": (0.0, 2.0**32 - 1),
    "indexOf": (-1.0, inf),
    "lastIndexOf": (-1.0, inf),
    "major": _NOT_NEGATIVE,
    "math.abs": _NOT_NEGATIVE,
    "math.sign": (-1.0, 1.0),
    "minor": _NOT_NEGATIVE,
    "patch": _NOT_NEGATIVE,
    "sign": (-1.0, 1.0),
    "size": _NOT_NEGATIVE,
}
# Functions whose result is what they are called on, or their argument.
_KEEPING = frozenset({"double", "or", "orValue", "value"})
_FIELDS: dict[str, Extent] = {
    "age": _NOT_NEGATIVE,
    "hostPort": (0.0, 65535.0),
    "priority": (-(2.0**31), 2.0**31 - 1),
    "replicas": _NOT_NEGATIVE,
}
# Amounts of resources by name; what is free of one may be less than nothing.
_AMOUNTS = frozenset("allocatable capacity limits requested requests usage".split())


def extent(expr: ast.Expr, part: Extent | None = None) -> Extent | None:
    """The least and the greatest value of an expression; None if nothing is known of it.

    `part` is what a part of a node is taken for: from 0 to 1 if no node is more than full.
    """
    if part is not None and is_part(expr):
        return part
    match expr:
        case ast.Literal():
            number = value_of(expr)
            return (number, number) if isinstance(number, float) else None
        case ast.Call(name, moment) if name in PARTS_OF_TIME and moment is not None:
            least, most = PARTS_OF_TIME[name]
            return (float(least), float(most)) if moment.type == TIMESTAMP else None
        case ast.Call(name) if name in _FUNCTIONS:
            return _FUNCTIONS[name]
        case ast.Call(name, target, args) if name in _KEEPING:
            return _any_of([*([target] if target is not None else []), *args], part)
        case ast.Conditional(_, then, otherwise):
            return _any_of((then, otherwise), part)
        case ast.Chain("+", operands):
            ends = [extent(each, part) for each in operands]
            known = [each for each in ends if each is not None]
            if len(known) < len(ends):
                return None
            return sum(low for low, _ in known), sum(high for _, high in known)
        case ast.Binary("-" | "*" | "/" as op, left, right):
            return _of_two(op, extent(left, part), extent(right, part))
        case ast.Select(operand, name) if name in _FIELDS and inside(operand.type).is_record:
            return _FIELDS[name]
        case ast.Index(ast.Select(operand, name)) if name in _AMOUNTS:
            return _NOT_NEGATIVE if inside(operand.type).is_record else None
        case _:
            return None


def is_part(expr: ast.Expr) -> bool:
    """Whether an expression is a quantity divided by what the node has of it."""
    match expr:
        case ast.Binary("/", ast.Call("double", None, (left,)), ast.Call("double", None, (right,))):
            return is_part(replace(expr, left=left, right=right))
        case ast.Binary(
            "/", left, ast.Index(ast.Select(_, name)) | ast.Select(ast.Select(_, name))
        ):
            times = any(isinstance(e, ast.Binary) and e.op in ("*", "/") for e in walk(left))
            return left.type == QUANTITY and name in _WHOLES and not times
        case _:
            return False


def _any_of(exprs: Iterable[ast.Expr], part: Extent | None) -> Extent | None:
    found = [extent(each, part) for each in exprs]
    known = [each for each in found if each is not None]
    if not known or len(known) < len(found):
        return None
    return min(low for low, _ in known), max(high for _, high in known)


def _of_two(op: str, left: Extent | None, right: Extent | None) -> Extent | None:
    if left is None or right is None:
        return None
    if op == "-":
        return left[0] - right[1], left[1] - right[0]
    if op == "/":
        if right[0] <= 0:
            return None
        right = 1 / right[1], 1 / right[0]
    ends = [0.0 if isnan(made := one * other) else made for one, other in product(left, right)]
    return min(ends), max(ends)


def said(low: float, high: float) -> str:
    """How a message names an extent."""
    least, most = (f"{n:.0f}" if n % 1 == 0 else f"{n:g}" for n in (low, high))
    if high == inf:
        return "never negative" if low == 0 else f"never below {least}"
    return f"never above {most}" if low == -inf else f"from {least} to {most}"


def scale_of(expr: ast.Expr) -> float | None:
    """What an expression is at most, if no node is more than full; None if it reads no part."""
    ends = extent(expr, (0.0, 1.0)) if any(map(is_part, walk(expr))) else None
    return ends[1] if ends is not None and isfinite(ends[1]) else None

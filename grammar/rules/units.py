"""Units: amounts of memory and cpu without the unit that is meant.

A number beside a quantity is one of bytes or of cores, which is seldom meant where it is 16 of
memory or 500 of cpu.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from grammar.meaning.folding import constants
from grammar.messages.diagnostics import Diagnostic, Fix
from grammar.rules.rule import ExpressionRule, Rule, Tree
from grammar.tree import ast
from grammar.tree.clause_parts import Bounds
from grammar.tree.clauses import Limit, Score
from grammar.tree.types import QUANTITY
from grammar.tree.walk import walk
from grammar.values.quantity import NANO, Quantity

_RELATIONS = ("<", "<=", ">", ">=", "==", "!=", "in")
# Nobody means less memory than this, except 0.
_LEAST_BYTES = 100_000
# So many cores no node has; and from here on, hundreds and fifties are millicores.
_MOST_CORES = 1000
_MANY_CORES = 100
_ROUND_CORES = 50


def resource_of(expr: ast.Expr) -> str | None:
    """The only resource that an expression is an amount of."""
    found = set()
    for part in walk(expr):
        match part:
            case ast.Index(_, ast.Literal(str() as name)) if part.type == QUANTITY:
                found.add(name)
            case ast.Select(_, "cpu" | "memory" as name) if part.type == QUANTITY:
                found.add(name)
            case ast.Binary("*" | "/" | "%"):
                # A part, or a number of times, of an amount.
                return None
            case _:
                continue
    return found.pop() if len(found) == 1 else None


@dataclass(frozen=True, slots=True)
class _Meant:
    """The amount that is meant, as a text; what is said of the written one; a hint beside it."""

    text: str
    said: str
    beside: str = ""


def _meant(value: ast.Expr, found: ast.Literal) -> _Meant | None:
    """What an amount beside a value is meant as; None if it may be right."""
    resource, amount = resource_of(value), found.value
    if resource is None or not isinstance(amount, Quantity) or amount.nanos <= 0:
        return None
    number, rest = divmod(amount.nanos, NANO)
    is_bytes = resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-")
    if is_bytes and number < _LEAST_BYTES:
        if not rest:
            unit = "Gi" if number <= 1024 else "Mi"
            return _Meant(f"{number}{unit}", f"{number} byte{'s' * (number > 1)}")
        said = "a part of a byte" if number else "less than a byte"
        is_milli = str(amount).endswith("m") and amount.nanos * 1000 % NANO == 0
        return _Meant(f"{amount.nanos * 1000 // NANO}Mi", said) if is_milli else None
    if resource != "cpu" or rest:
        return None
    if str(amount).endswith("i") and not found.let:
        # An amount of memory.
        said = f"{number} cores"
        return _Meant(str(amount).rstrip("KMGTPEi"), said, " for cores, or read `memory`")
    is_round = number >= _MANY_CORES and number % _ROUND_CORES == 0
    if is_round or _MOST_CORES <= number < _LEAST_BYTES:
        return _Meant(f"{number}m", f"{number} cores")
    return None


class AmountWithoutUnit(ExpressionRule):
    """An amount of memory or cpu without the unit that is meant."""

    code = "P0343"
    wrong = 'filter "room" { require node.free["memory"] > 16 }'
    right = 'filter "room" { require node.free["memory"] > "16Gi" }'

    def at(self, expr: ast.Expr, tree: Tree) -> Iterator[Diagnostic]:
        if not isinstance(expr, ast.Binary) or expr.op not in _RELATIONS:
            return
        for value, other in ((expr.left, expr.right), (expr.right, expr.left)):
            if value.type == QUANTITY:
                yield from self._compared(expr, value, other, tree)

    def _compared(
        self, expr: ast.Binary, value: ast.Expr, other: ast.Expr, tree: Tree
    ) -> Iterator[Diagnostic]:
        listed = other.elements if isinstance(other, ast.ListLiteral) else (other,)
        amounts = [c for each in listed for c in constants(each, tree.environment)]
        wrong = [(a, meant) for a in amounts if (meant := _meant(value, a)) is not None]
        if not wrong:
            return
        found, meant = wrong[0]
        shown, right = tree.shown(value), f'"{meant.text}"'
        message = f"`{shown}` is compared with {meant.said}"
        if len(amounts) > 1:
            # All constants of a list, and all results of a `?:`, are of one type.
            yield self.found(message, other.span, f"write each with its unit, as in `{right}`")
            return
        text = f" {expr.op} ".join((shown, right) if value is expr.left else (right, shown))
        hint = f"write `{right if meant.beside else text}`{meant.beside}"
        yield self.found(message, found.span, hint, Fix(found.span, right))


class BoundWithoutUnit(Rule):
    """The end of a range of memory, or the bound of a sum, that is a few bytes or many cores."""

    code = "P0343"
    wrong = 'score "room" weight 10 { value node.free["memory"] range 0 .. 64 }'
    right = 'score "room" weight 10 { value node.free["memory"] range 0 .. "64Gi" }'

    def look(self, tree: Tree) -> Iterator[Diagnostic]:
        for clause in tree.clauses(Score):
            if clause.value.type != QUANTITY or not isinstance(clause.range, Bounds):
                continue
            for found in (c for end in clause.ends for c in constants(end, tree.environment)):
                if (meant := _meant(clause.value, found)) is not None:
                    message = f"`{tree.shown(clause.value)}` is compared with {meant.said}"
                    yield self.instead(message, found.span, f'"{meant.text}"')
        for limit in tree.clauses(Limit):
            bound, added = limit.bound, limit.pods.amount if limit.pods is not None else None
            # The pods of a zone or of a cluster may well have thousands of cores.
            if added is None or (resource_of(added) == "cpu" and limit.per.scope != "node"):
                continue
            given = bound.amount
            if not isinstance(given, ast.Expr):
                given = ast.Literal(Quantity(int(given * NANO)), QUANTITY, bound.span)
            for found in constants(given, tree.environment):
                if (meant := _meant(added, found)) is not None:
                    message = f"this sum is bounded by {meant.said}"
                    yield self.instead(message, bound.span, f'{bound.kind} "{meant.text}"')

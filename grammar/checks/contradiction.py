"""Filters that no node can pass together, and filters that another one implies.

Per path that is compared with constants: the set of texts, or the interval of numbers, that is
left. No solver: what is not such a comparison is left out, so a finding is always right and some
contradictions are not found.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from grammar.ast import Binary, Expr, ListLiteral, Literal
from grammar.checks.conditions import conjuncts
from grammar.clauses import Filter
from grammar.diagnostics import Diagnostic
from grammar.policy_checker import Checked
from grammar.printer import print_expression

_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
_INFINITY = float("inf")


@dataclass(frozen=True, slots=True)
class _Allowed:
    """What values of a path pass: a set of constants, or an interval with exceptions."""

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

    def both(self, other: _Allowed) -> _Allowed:
        values = self.values if other.values is None else other.values
        merged = _Allowed(
            values,
            max(self.low, other.low),
            min(self.high, other.high),
            self.open_low
            if self.low > other.low
            else other.open_low
            if other.low > self.low
            else self.open_low or other.open_low,
            self.open_high
            if self.high < other.high
            else other.open_high
            if other.high < self.high
            else self.open_high or other.open_high,
            self.excluded | other.excluded,
        )
        if values is None:
            return merged
        return _Allowed(frozenset(v for v in values if self.admits(v) and other.admits(v)))

    @property
    def empty(self) -> bool:
        if self.values is not None:
            return not self.values
        return self.low > self.high or (self.low == self.high and (self.open_low or self.open_high))


@dataclass(frozen=True, slots=True)
class _Fact:
    path: str
    allowed: _Allowed
    expr: Expr
    clause: Filter


def check(checked: Checked) -> Iterator[Diagnostic]:
    """Compares the requirements of all filters that apply to the same pods and nodes."""
    facts = [
        f
        for c in checked.policy.clauses
        if isinstance(c, Filter) and not c.at_bind
        for f in _facts(c)
    ]
    for number, later in enumerate(facts):
        for earlier in facts[:number]:
            if later.path != earlier.path or not _together(earlier.clause, later.clause):
                continue
            merged = earlier.allowed.both(later.allowed)
            if merged.empty:
                yield _contradiction(earlier, later)
                break
            if merged == earlier.allowed and later.clause.missing == earlier.clause.missing:
                yield _implied(earlier, later)
                break


def _together(one: Filter, other: Filter) -> bool:
    """Whether both apply whenever the later does: same condition, or the earlier has none."""
    return one.when is None or one.when == other.when


def _facts(clause: Filter) -> Iterator[_Fact]:
    for require in clause.requires:
        for part in conjuncts(require):
            if (found := _comparison(part)) is not None:
                yield _Fact(found[0], found[1], part, clause)


def _comparison(expr: Expr) -> tuple[str, _Allowed] | None:
    """A path and what a comparison with constants leaves of it."""
    match expr:
        case Binary("in", left, ListLiteral(elements)) if all(
            isinstance(e, Literal) for e in elements
        ):
            return print_expression(left), _Allowed(frozenset(_value(e) for e in elements))
        case Binary(op, Literal() as constant, right) if op in _MIRRORED:
            return _range(_MIRRORED[op], right, constant)
        case Binary(op, left, Literal() as constant) if op in _MIRRORED:
            return _range(op, left, constant)
    return None


def _range(op: str, path: Expr, constant: Literal) -> tuple[str, _Allowed] | None:
    if isinstance(path, Literal):
        return None
    value, name = _value(constant), print_expression(path)
    if op == "==":
        return name, _Allowed(frozenset({value}))
    if op == "!=":
        return name, _Allowed(excluded=frozenset({value}))
    if not isinstance(value, float):
        return None
    if op in ("<", "<="):
        return name, _Allowed(high=value, open_high=op == "<")
    return name, _Allowed(low=value, open_low=op == ">")


def _value(expr: Expr) -> object:
    """A constant that compares as the language does: amounts and times on one scale each."""
    value = getattr(expr, "value", None)
    if isinstance(value, bool | str) or value is None:
        return value
    if isinstance(value, int | float):
        return float(value)
    nanos = getattr(value, "nanos", None)
    return float(nanos) if nanos is not None else value


def _contradiction(earlier: _Fact, later: _Fact) -> Diagnostic:
    return Diagnostic(
        "P0310",
        "warning",
        "no node can pass both conditions",
        later.expr.span,
        label=f"and {print_expression(later.expr)} here",
        hint="every pod of this policy would stay pending",
        notes=(
            f"filter `{earlier.clause.name}` already requires `{print_expression(earlier.expr)}`",
        ),
    )


def _implied(earlier: _Fact, later: _Fact) -> Diagnostic:
    return Diagnostic(
        "P0311",
        "warning",
        "every node that gets here passes this",
        later.expr.span,
        hint=f"filter `{earlier.clause.name}` already requires `{print_expression(earlier.expr)}`",
    )

"""How many steps an expression can take at most, worked out before it runs.

A step is a read, an operation or a call; a macro multiplies by how long its list can be. Lengths
come from what the API and the kubelet allow, not from guesses about request sizes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from grammar.ast import (
    Comprehension,
    DefCall,
    Expr,
    LetReference,
    ListLiteral,
    Literal,
    MapLiteral,
    Select,
)
from grammar.environment import Environment
from grammar.reads import children
from grammar.source import Span

# The most steps one expression may take for one node. At some 10 million steps a second that is 0.1
# s at the worst.
LIMIT = 1_000_000
# Sums stop growing here, so that a tower of `let`s cannot make huge numbers.
_CEILING = 10**15

# Longest lists and maps that a cluster's objects carry, by field name: the kubelet's limits and the
# API's.
_LENGTHS: Mapping[str, int] = {
    "pods": 250,
    "images": 100,
    "names": 10,
    "conditions": 20,
    "taints": 20,
    "addresses": 10,
    "volumesAttached": 256,
    "volumesInUse": 256,
    "containers": 20,
    "initContainers": 20,
    "tolerations": 30,
    "victims": 250,
    "labels": 60,
    "annotations": 60,
    "allocatable": 30,
    "capacity": 30,
    "requests": 20,
    "limits": 20,
    "env": 200,
}
_DEFAULT_LENGTH = 100


@dataclass(frozen=True, slots=True)
class Cost:
    """The bound of one sub-expression."""

    span: Span
    steps: int


class Costs:
    """Bounds of the expressions of one environment; a `let` or `def` is looked at once."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._named: dict[str, int] = {}

    def steps(self, expr: Expr) -> int:
        """The most steps of an expression."""
        match expr:
            case Literal():
                return 0
            case LetReference(name):
                return self._of(name, self._environment.lets[name])
            case DefCall(name, args):
                return _capped(
                    sum(map(self.steps, args)) + self._of(name, self._environment.defs[name].body)
                )
            case Comprehension("cel.bind" | "optMap" | "optFlatMap"):
                return _capped(1 + sum(map(self.steps, children(expr))))
            case Comprehension(_, target, _, body):
                return _capped(
                    self.steps(target) + self.length(target) * (1 + sum(map(self.steps, body)))
                )
            case _:
                return _capped(1 + sum(map(self.steps, children(expr))))

    def length(self, expr: Expr) -> int:
        """How many items a list or map can have."""
        match expr:
            case ListLiteral(elements):
                return len(elements)
            case MapLiteral(entries):
                return len(entries)
            case Comprehension(
                "map" | "filter" | "transformList" | "transformMap" | "sortBy", target
            ):
                return self.length(target)
            case Select(_, name):
                return _LENGTHS.get(name, _DEFAULT_LENGTH)
            case LetReference(name):
                return self.length(self._environment.lets[name])
            case _:
                return _LENGTHS.get(getattr(expr, "name", ""), _DEFAULT_LENGTH)

    def table(self, expr: Expr) -> Iterator[Cost]:
        """The bound of every part that costs something, the dearest first."""
        parts = sorted(self._parts(expr), key=lambda c: -c.steps)
        yield from parts

    def dearest(self, expr: Expr) -> Expr:
        """The innermost part that most of the cost comes from."""
        total = self.steps(expr)
        for child in children(expr):
            if self.steps(child) * 2 > total:
                return self.dearest(child)
        return expr

    def _parts(self, expr: Expr) -> Iterator[Cost]:
        if steps := self.steps(expr):
            yield Cost(expr.span, steps)
        for child in children(expr):
            yield from self._parts(child)

    def _of(self, name: str, body: Expr) -> int:
        if name not in self._named:
            self._named[name] = self.steps(body)
        return self._named[name]


def _capped(steps: int) -> int:
    return min(steps, _CEILING)


# ---- Expressions that can take too many steps.

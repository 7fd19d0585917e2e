"""Moments: until when the result of an expression that reads the time stays as it is.

A comparison of what follows `now` knows the moment at which its result turns, and a part of the
calendar lasts for a minute. So a memo evaluates them again at that moment, and not before. Whatever
else reads `now` lasts for a second.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter, eq, ge, gt, le, lt, ne

from engine.program.frame import Evaluate, Frame
from grammar.meaning.environment import Environment
from grammar.tree import ast
from grammar.tree.types import DURATION, TIMESTAMP
from grammar.values.errors import EvaluationError, MissingError
from grammar.values.time import SECOND

MINUTE = 60 * SECOND
_nanos = attrgetter("nanos")
_COMPARED: Mapping[str, Callable[[int, int], bool]] = {
    "<": lt,
    "<=": le,
    ">": gt,
    ">=": ge,
    "==": eq,
    "!=": ne,
}
# What of the calendar lasts for a minute at least: zones differ by whole minutes.
OF_MINUTES = frozenset(
    {"getFullYear", "getMonth", "getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear"}
) | {"getHours", "getMinutes"}


@dataclass(frozen=True, slots=True)
class Following:
    """What follows `now`: sums and differences in which it occurs at most once.

    `reads` says whether an expression reads a name. `is_hidden`: a local has the name `now`.
    """

    environment: Environment
    reads: Callable[[ast.Expr, str], bool]
    is_hidden: bool

    def rises(self, expr: ast.Binary) -> bool | None:
        """Whether the difference of the sides of a comparison rises with `now`, or falls.

        None for a comparison that does not follow `now`, and for any other operation.
        """
        if expr.op not in _COMPARED or expr.left.type != expr.right.type:
            return None
        if expr.left.type not in (TIMESTAMP, DURATION):
            return None
        left, right = self._sign(expr.left, {}), self._sign(expr.right, {})
        if left is None or right is None or abs(left - right) != 1:
            return None
        return left > right

    def _sign(self, expr: ast.Expr, parameters: Mapping[str, int]) -> int | None:
        """1 if the value rises with `now`, -1 if it falls, 0 if it stays, None for anything else.

        `parameters` has the signs of the parameters around the expression.
        """
        match expr:
            case ast.Ident(name, absolute=False) if name in parameters:
                return parameters[name]
            case ast.Ident("now") if expr.absolute or not self.is_hidden:
                return 1
            case ast.LetReference(name):
                return self._sign(self.environment.lets[name], {})
            case ast.DefCall(name, args):
                known = self.environment.defs[name]
                signs = [self._sign(arg, parameters) for arg in args]
                if None in signs:
                    return None
                named = zip(known.parameters, signs, strict=True)
                given = {p.name: sign for p, sign in named if sign is not None}
                return self._sign(known.body, given)
            case ast.Chain("+", operands):
                return self._sum([(operand, 1) for operand in operands], parameters)
            case ast.Binary("-", left, right):
                return self._sum([(left, 1), (right, -1)], parameters)
            case _:
                names = {"now", *(name for name, sign in parameters.items() if sign)}
                return None if any(self.reads(expr, name) for name in names) else 0

    def _sum(
        self, terms: Sequence[tuple[ast.Expr, int]], parameters: Mapping[str, int]
    ) -> int | None:
        signs = [(self._sign(term, parameters), times) for term, times in terms]
        found = [sign * times for sign, times in signs if sign]
        if any(sign is None for sign, _ in signs) or len(found) > 1:
            return None
        return found[0] if found else 0


def until_it_turns(compare: str, left: Evaluate, right: Evaluate, *, rises: bool) -> Evaluate:
    """A comparison of two times or two durations, whose difference follows `now`.

    The difference of left and right rises or falls by a second each second. So the result lasts
    until the difference is 0, and then for a nanosecond.
    """
    meets = _COMPARED[compare]

    def run(frame: Frame) -> object:
        try:
            difference = _nanos(left(frame)) - _nanos(right(frame))
        except MissingError:
            raise
        except EvaluationError:
            frame.holds_for_a_second()
            raise
        ahead = -difference if rises else difference
        if ahead >= 0:
            frame.holds_until(frame.now.nanos + (ahead or 1))
        return meets(difference, 0)

    return run


def until_the_next_minute(read: Evaluate) -> Evaluate:
    """A part of the calendar of `now` that lasts for a minute at least, in whatever time zone."""

    def run(frame: Frame) -> object:
        nanos = frame.now.nanos
        frame.holds_until(nanos - nanos % MINUTE + MINUTE)
        return read(frame)

    return run


def brief(read: Evaluate) -> Evaluate:
    """The value of `now` in an expression that may change at any time."""

    def run(frame: Frame) -> object:
        frame.holds_for_a_second()
        return read(frame)

    return run

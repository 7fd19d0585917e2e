"""Comparisons of quantities, durations and times, and how long their results last.

A comparison of what follows `now` knows the moment at which its result turns. So a memo evaluates
it again at that moment, and not before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter, eq, ge, gt, le, lt, ne
from typing import Any

from engine.program.frame import Evaluate, Frame
from engine.program.operations import FieldChain
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


def is_amount(operand: Evaluate, least: int, *, wanted: bool) -> Evaluate:
    """Whether the operand has at least these nanos, or has not."""
    return lambda frame: (_nanos(operand(frame)) >= least) is wanted


def chain_is_amount(chain: FieldChain, least: int, meaning: Evaluate, *, wanted: bool) -> Evaluate:
    """`is_amount` of a chain."""
    fields, slot, key, missing = chain.fields, chain.slot, chain.key, chain.missing

    def run(frame: Frame) -> object:
        try:
            value = fields(frame if slot is None else frame.locals[slot])
            nanos = value.nanos if key is None else value[key].nanos
        except KeyError:
            raise MissingError(missing) from None
        except (AttributeError, TypeError):
            return meaning(frame)
        return (nanos >= least) is wanted

    return run


def compare_amounts(op: str, left: Evaluate, right: Evaluate) -> Evaluate:
    """A comparison of two amounts of the same type."""
    wanted = op in (">=", ">", "==")

    def at_least(frame: Frame) -> object:
        value: Any = left(frame)
        return (value.nanos >= _nanos(right(frame))) is wanted

    def above(frame: Frame) -> object:
        value: Any = left(frame)
        return (value.nanos > _nanos(right(frame))) is wanted

    def same(frame: Frame) -> object:
        value: Any = left(frame)
        return (value.nanos == _nanos(right(frame))) is wanted

    match op:
        case ">=" | "<":
            return at_least
        case ">" | "<=":
            return above
        case _:
            return same


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

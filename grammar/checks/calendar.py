"""Calendar: hours, days and months that no time has, or that are counted from 0, and time zones.

CEL counts months, days of a month and days of a week from 0, which is Sunday; `getDate` counts from
1. The checks look at policies that are written out.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from difflib import get_close_matches
from zoneinfo import available_timezones

from grammar.checker.parameters import is_example
from grammar.checker.policy_checker import Checked
from grammar.checks.known_words import compared
from grammar.meaning.allowed import allowed_by
from grammar.meaning.environment import Environment
from grammar.meaning.extents import PARTS_OF_TIME
from grammar.meaning.folding import constants
from grammar.meaning.schema import print_as_written
from grammar.messages import catalogue
from grammar.messages.diagnostics import Diagnostic, write_instead
from grammar.tree import ast
from grammar.tree.printer import print_string
from grammar.tree.types import TIMESTAMP
from grammar.tree.walk import walk
from grammar.values.errors import EvaluationError
from grammar.values.time import Timestamp

# ---- parts of a time

_CENTURY = 100
# After the last one, the first one comes again.
_ROUND = frozenset({"getHours", "getMinutes", "getSeconds"})


def unknown_times(expr: ast.Expr, environment: Environment) -> Iterator[Diagnostic]:
    """A warning (P0333) for a number that an hour, a day or the like, equal to it, never is."""
    for read, found in compared(expr, environment):
        if (part := _part(read)) is None:
            continue
        least, most = PARTS_OF_TIME[part]
        numbers = [c.value for c in found]
        for constant in found:
            if isinstance(constant.value, int) and not least <= constant.value <= most:
                yield _unknown_time(part, constant.value, constant)
        if part == "getDayOfMonth" and all(isinstance(n, int) and 0 < n <= most for n in numbers):
            yield _from_zero(expr, environment)


def _part(expr: ast.Expr) -> str | None:
    """The name of the function that reads a part of a time."""
    match expr:
        case ast.Call(name, moment) if name in PARTS_OF_TIME and moment is not None:
            return name if moment.type == TIMESTAMP else None
        case _:
            return None


def _unknown_time(name: str, number: int, constant: ast.Literal) -> Diagnostic:
    least, most = PARTS_OF_TIME[name]
    hint = f"write a number from {least} to {most}"
    if name == "getDayOfWeek" and number == most + 1:
        hint = "write `0`, which is Sunday"
    elif name == "getFullYear" and 0 <= number < _CENTURY:
        hint = f"write `{2000 + number}`"
    elif number == most + 1:
        hint = f"write `{least if name in _ROUND else most}`: it is from {least} to {most}"
    message = f"`{name}()` is never {number}"
    return Diagnostic("P0333", "warning", message, constant.span, hint=hint)


def _from_zero(expr: ast.Expr, environment: Environment) -> Diagnostic:
    """`now.getDayOfMonth() == 1`, which is the second day."""
    shown = print_as_written(expr, environment.schema)
    message = "`getDayOfMonth()` counts from 0, so this is one day later"
    meant = shown.replace("getDayOfMonth", "getDate")
    return write_instead("P0360", message, expr.span, meant)


_SATURDAY, _THURSDAY = 6, 4
_WORKDAYS, _WEEKEND = "[1, 2, 3, 4, 5]", "[0, 6]"


def days_of_one_side(checked: Checked) -> Iterator[Diagnostic]:
    """A warning (P0360) for `now.getDayOfWeek() > 5`, in which Sunday is not."""
    exprs = [*walk(checked.policy)]
    bounded = {id(o) for e in exprs if isinstance(e, ast.Chain) for o in _bounded(e.operands)}
    for expr in exprs:
        if not isinstance(expr, ast.Binary) or id(expr) in bounded:
            continue
        reads = [side for side in (expr.left, expr.right) if _part(side) == "getDayOfWeek"]
        found = allowed_by(expr) if expr.op not in ("==", "!=", "in") else None
        if not reads or found is None:
            continue
        days = [day for day in range(_SATURDAY + 1) if found[1].admits(float(day))]
        if days and (days[0] > _THURSDAY or (days[0] == 0 and _THURSDAY <= days[-1] < _SATURDAY)):
            shown = print_as_written(reads[0], checked.environment.schema)
            meant = f"{shown} in {_WORKDAYS if days[0] == 0 else _WEEKEND}"
            message = "Sunday is day 0, and Saturday day 6"
            yield write_instead("P0360", message, expr.span, meant)


def _bounded(operands: tuple[ast.Expr, ...]) -> Iterator[ast.Expr]:
    """The comparisons of the day of the week that others beside them bound, too."""
    found = [o for o in operands if any(_part(e) == "getDayOfWeek" for e in walk(o))]
    if len(found) > 1:
        yield from found


_MONTHS = (
    "january february march april may june july august september october november december".split()
)
_DAYS = "sunday monday tuesday wednesday thursday friday saturday".split()
# `may` has another meaning, too.
_OF_CALENDAR = frozenset({*_MONTHS, *_DAYS, "weekend", "weekends"} - {"may"})


def contradicted_calendars(checked: Checked) -> Iterator[Diagnostic]:
    """A warning (P0360) for a clause whose name has another day or month than its condition."""
    for clause in checked.policy.clauses:
        said = _OF_CALENDAR.intersection(re.findall(r"[a-z]+", clause.name.lower()))
        if not said:
            continue
        for expr in walk(clause):
            for read, found in compared(expr, checked.environment):
                numbers = sorted({c.value for c in found if isinstance(c.value, int)})
                meant = _meant(_part(read), numbers, said)
                if meant is None or not isinstance(expr, ast.Binary):
                    continue
                schema = checked.environment.schema
                other = str(meant) if len(meant) > 1 or expr.op == "in" else str(meant[0])
                op = "in" if len(meant) > 1 else expr.op
                text = f"{print_as_written(read, schema)} {op} {other}"
                first = "January" if _part(read) == "getMonth" else "Sunday"
                message = f"`{_part(read)}()` is 0 for {first}"
                yield write_instead("P0360", message, expr.span, text)


def _meant(part: str | None, numbers: list[int], said: frozenset[str]) -> list[int] | None:
    """The numbers of the months or days that a name has, if those given are of a calendar."""
    names = {"getMonth": _MONTHS, "getDayOfWeek": _DAYS}.get(part or "")
    if names is None or not numbers or numbers[-1] >= len(names):
        return None
    if names is _DAYS and said & {"weekend", "weekends"} and numbers == [5, 6]:
        return [0, 6]
    known = sorted(names.index(word) for word in said if word in names)
    shift = 1 if names is _MONTHS else -1
    return known if known and [n - shift for n in numbers] == known and numbers != known else None


# ---- time zones

_ZONED = "get"
_OFFSET = re.compile(r"(?:UTC|GMT) ?([+-])(\d{1,2})(?::?(\d\d))?\Z", re.IGNORECASE)
# Longer names are like none; the comparison takes time by the length.
_LONGEST = 40
_SOME_ZONES = 'write an IANA name such as `"Europe/Berlin"`, or an offset such as `"+01:00"`'


def unknown_zones(expr: ast.Expr, environment: Environment) -> Iterator[Diagnostic]:
    """An error (P0156) for each constant time zone of a call that does not exist."""
    match expr:
        case ast.Call(function, moment, (zone,)) if (
            function.startswith(_ZONED) and moment is not None and moment.type == TIMESTAMP
        ):
            for constant in constants(zone, environment):
                name = constant.value
                if isinstance(name, str) and not _is_zone(name):
                    yield catalogue.unknown_zone(name, _zone_hint(name), constant.span)
        case _:
            return


def _is_zone(name: str) -> bool:
    if not name or is_example(name):
        return True
    try:
        Timestamp(0).local(name)
    except EvaluationError:
        return False
    return True


def _zone_hint(name: str) -> str:
    # The sign of `Etc/GMT+1` is that of the other direction.
    if (offset := _OFFSET.match(name)) is not None:
        return f'write `"{offset[1]}{int(offset[2]):02}:{offset[3] or "00"}"`'
    zones = {zone.lower(): zone for zone in _zones()}
    written = name.replace(" ", "_").lower()
    # `Berlin` for `Europe/Berlin`.
    cities = [low for low in zones if low.rpartition("/")[2] == written]
    close = cities or get_close_matches(written[:_LONGEST], zones, n=1, cutoff=0.77)
    return f"write `{print_string(zones[close[0]])}`" if close else _SOME_ZONES


@functools.lru_cache(maxsize=1)
def _zones() -> tuple[str, ...]:
    """The names of all time zones; finding them takes the time of hundreds of files."""
    return tuple(sorted(z for z in available_timezones() if "/" in z or z == "UTC"))

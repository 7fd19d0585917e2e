"""Calendar: hours, days and months that no time has, or that are counted from 0, and time zones.

CEL counts months, days of a month and days of a week from 0, which is Sunday; `getDate` counts from
1.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from difflib import get_close_matches
from zoneinfo import available_timezones

from grammar.checker.parameters import is_example
from grammar.meaning.extents import PARTS_OF_TIME
from grammar.meaning.folding import constants
from grammar.messages import catalogue
from grammar.messages.diagnostics import Diagnostic
from grammar.rules.comparisons import compared
from grammar.rules.rule import ExpressionRule, Tree
from grammar.tree import ast
from grammar.tree.printer import print_string
from grammar.tree.types import TIMESTAMP
from grammar.values.errors import EvaluationError
from grammar.values.time import Timestamp

# After the last one, the first one comes again.
_ROUND = frozenset({"getHours", "getMinutes", "getSeconds"})


def _part(expr: ast.Expr) -> str | None:
    """The name of the function that reads a part of a time."""
    match expr:
        case ast.Call(name, moment) if name in PARTS_OF_TIME and moment is not None:
            return name if moment.type == TIMESTAMP else None
        case _:
            return None


class UnknownTime(ExpressionRule):
    """A number that an hour, a day or the like, equal to it, never is."""

    code = "P0333"
    wrong = 'filter "night" when now.getHours() == 24 { require node.ready }'
    right = 'filter "night" when now.getHours() == 0 { require node.ready }'

    def at(self, expr: ast.Expr, tree: Tree) -> Iterator[Diagnostic]:
        for read, found in compared(expr, tree.environment):
            if (part := _part(read)) is None:
                continue
            least, most = PARTS_OF_TIME[part]
            for constant in found:
                number = constant.value
                if isinstance(number, int) and not least <= number <= most:
                    hint = f"write a number from {least} to {most}"
                    if part == "getDayOfWeek" and number == most + 1:
                        hint = "write `0`, which is Sunday"
                    elif number == most + 1:
                        near = least if part in _ROUND else most
                        hint = f"write `{near}`: it is from {least} to {most}"
                    yield self.found(f"`{part}()` is never {number}", constant.span, hint)


# ---- time zones

_OFFSET = re.compile(r"(?:UTC|GMT) ?([+-])(\d{1,2})(?::?(\d\d))?\Z", re.IGNORECASE)
# Longer names are like none; the comparison takes time by the length.
_LONGEST = 40
_SOME_ZONES = 'write an IANA name such as `"Europe/Berlin"`, or an offset such as `"+01:00"`'


class UnknownZone(ExpressionRule):
    """A constant time zone of a call that does not exist."""

    code = "P0156"
    wrong = 'let zone = "Berlin"\nfilter "by day" { require now.getHours(zone) >= 6 }'
    right = 'let zone = "Europe/Berlin"\nfilter "by day" { require now.getHours(zone) >= 6 }'
    kinds = (ast.Call,)

    def at(self, expr: ast.Expr, tree: Tree) -> Iterator[Diagnostic]:
        match expr:
            case ast.Call(function, moment, (zone,)) if (
                function.startswith("get") and moment is not None and moment.type == TIMESTAMP
            ):
                for constant in constants(zone, tree.environment):
                    name = constant.value
                    if isinstance(name, str) and not _is_zone(name):
                        yield catalogue.unknown_zone(name, _zone_hint(name), constant.span)


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

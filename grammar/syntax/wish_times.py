"""Wish times: the hours and days of which a wish in plain words speaks, as whole clauses.

A part of the readers of `grammar.syntax.wish_readers`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from grammar.syntax.wish_parts import pods_of
from grammar.syntax.wish_words import find

_CLOCK = r"(\d{1,2})(?::(\d\d))?\s*(h|hours|am|pm|o'clock)?"
# The zone of a clock: a name of IANA, or one of the short ones that it has, too.
_ZONE = re.compile(
    r"(?:\bin\s+)?\"?\b((?:[A-Z][A-Za-z]+/[A-Z]\w+)|UTC|GMT|CET|EET|MST|EST)\b\"?(?:\s+time\b)?"
)


def _minutes(hour: str, minute: str | None, half: str | None) -> int:
    """The minute of the day of a time such as `9`, `9:30` or `5pm`."""
    hours = int(hour) % 12 + 12 * (half.lower() == "pm") if half in ("am", "pm") else int(hour)
    return hours * 60 + int(minute or 0)


def _compared_time(sign: str, minutes: int) -> str:
    if minutes % 60 == 0:
        return f"now.getHours() {sign} {minutes // 60}"
    return f"now.getHours() * 60 + now.getMinutes() {sign} {minutes}"


def hours(body: str) -> Iterator[str]:
    """`between 9 and 17`, `from 22h to 6h CET`, `only at night`, `not on weekends`."""
    zone = _ZONE.search(body)
    if zone is None:
        yield from _hours(body)
        return
    plain = (body[: zone.start()] + body[zone.end() :]).strip()
    for clause in _hours(f"{plain} o'clock" if not _OF_CLOCK.search(plain) else plain):
        yield re.sub(r"(?<=now\.)(get\w+)\(\)", rf'\1("{zone[1]}")', clause)


_DAYS = "sunday monday tuesday wednesday thursday friday saturday".split()
_OF_CLOCK = re.compile(r"(?i)hour|time|now|o'clock|\d ?(?:am|pm|h)\b|:\d\d|clock|day|night|week")


def _hours(body: str) -> Iterator[str]:
    ends = rf"\b(?:between|from)\s+{_CLOCK}\s*(?:and|to|until|till|-|&&)\s*{_CLOCK}"
    found = find(ends, body)
    open_end = find(
        r"\b(after|before|from|since|until|till)\s+(\d{1,2})(?::(\d\d)|\s*(h|am|pm)\b)", body
    )
    is_negated = find(r"\b(not|never|no|outside|except|unless|forbid|avoid)\b", body)
    required = re.search(r"\brequire\s+([^{}]+?)\s*\}?\s*\Z", body)

    if find(r"\bnow\.\w+\(", body):
        # An expression, and no plain words.
        return

    def clause(name: str, said: str) -> str:
        said = f"!({said})" if is_negated else said
        if required is None and (pods := pods_of(body)) is not None:
            return f'filter "{name}" when {pods.replace("peer.", "pod.")} {{ require {said} }}'
        if required is None:
            return f'filter "{name}" {{ require {said} }}'
        return f'filter "{name}" when {said} {{ require {required[1]} }}'

    if found is None and find(r"\b(?:at|by|during\s+the)\s+nights?\b", body):
        yield clause("night", "(now.getHours() >= 22 || now.getHours() < 6)")
        return
    if found is not None and _OF_CLOCK.search(body):
        low, high = _minutes(*found.groups()[:3]), _minutes(*found.groups()[3:])
        if max(low, high) > 24 * 60:
            return
        sign = "&&" if low < high else "||"
        said = f"{_compared_time('>=', low)} {sign} {_compared_time('<', high)}"
        if (days := _days(body)) is not None:
            both = said if low < high else f"({said})"
            yield clause("hours", f"{days[1]} && {both}")
        yield clause("hours", said)
    if found is None and open_end is not None and int(open_end[2]) <= 24:
        sign = "<" if open_end[1].lower() in ("before", "until", "till") else ">="
        yield clause("hours", _compared_time(sign, _minutes(*open_end.groups()[1:])))
        return
    if (days := _days(body)) is not None:
        yield clause(*days)


def _days(body: str) -> tuple[str, str] | None:
    """The days that a wish names, and the condition of them."""
    if find(r"\bweek-?ends?\b|\bsaturdays?\W+(?:and|or|,)?\W*sunday", body):
        return "weekend", "now.getDayOfWeek() in [0, 6]"
    if find(r"\b(?:week-?days?|working days?|business days?|monday (?:to|till|-) friday)\b", body):
        return "weekdays", "!(now.getDayOfWeek() in [0, 6])"
    days = sorted({_DAYS.index(day) for day in re.findall(rf"\b({'|'.join(_DAYS)})", body.lower())})
    if days:
        one = f"== {days[0]}" if len(days) == 1 else f"in {days}"
        return "days", f"now.getDayOfWeek() {one}"
    return None

"""What durations and timestamps can be asked, and their arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from grammar.types import DURATION, INT, STRING, TIMESTAMP, Overload, function, member
from grammar.values.time import SECOND, Duration, Timestamp, shifted, since


def to_timestamp(value: object) -> Timestamp:
    match value:
        case Timestamp():
            return value
        case int():
            return Timestamp.of(value * SECOND)
        case _:
            return Timestamp.parse(str(value))


def to_duration(value: Duration | str) -> Duration:
    return value if isinstance(value, Duration) else Duration.parse(value)


def _truncated(unit: int) -> Callable[[Duration], int]:
    def whole(value: Duration) -> int:
        count = abs(value.nanos) // unit
        return count if value.nanos >= 0 else -count

    return whole


def _milliseconds(value: Duration) -> int:
    """The milliseconds beside the whole seconds."""
    rest = abs(value.nanos) % SECOND // 10**6
    return rest if value.nanos >= 0 else -rest


# Months, days of the month and of the year from 0 but for getDate; Sunday is day 0 (CEL langdef,
# Timestamps).
_PARTS: dict[str, Callable[[datetime], int]] = {
    "getFullYear": lambda t: t.year,
    "getMonth": lambda t: t.month - 1,
    "getDate": lambda t: t.day,
    "getDayOfMonth": lambda t: t.day - 1,
    "getDayOfWeek": lambda t: t.isoweekday() % 7,
    "getDayOfYear": lambda t: t.timetuple().tm_yday - 1,
    "getHours": lambda t: t.hour,
    "getMinutes": lambda t: t.minute,
    "getSeconds": lambda t: t.second,
}


def _part(read: Callable[[datetime], int]) -> Callable[..., int]:
    return lambda moment, zone=None: read(moment.local(zone))


def _milli(moment: Timestamp, zone: str | None = None) -> int:
    moment.local(zone)
    return moment.nanos % SECOND // 10**6


_GETTERS = {name: _part(read) for name, read in _PARTS.items()} | {"getMilliseconds": _milli}

OVERLOADS: tuple[Overload, ...] = (
    *(member(name, (TIMESTAMP,), INT, call) for name, call in _GETTERS.items()),
    *(member(name, (TIMESTAMP, STRING), INT, call) for name, call in _GETTERS.items()),
    member("getHours", (DURATION,), INT, _truncated(3600 * SECOND)),
    member("getMinutes", (DURATION,), INT, _truncated(60 * SECOND)),
    member("getSeconds", (DURATION,), INT, _truncated(SECOND)),
    member("getMilliseconds", (DURATION,), INT, _milliseconds),
    *(function("timestamp", (t,), TIMESTAMP, to_timestamp) for t in (STRING, TIMESTAMP, INT)),
    *(function("duration", (t,), DURATION, to_duration) for t in (STRING, DURATION)),
    function("+", (TIMESTAMP, DURATION), TIMESTAMP, lambda t, d: shifted(t, d.nanos)),
    function("+", (DURATION, TIMESTAMP), TIMESTAMP, lambda d, t: shifted(t, d.nanos)),
    function("+", (DURATION, DURATION), DURATION, lambda a, b: Duration.of(a.nanos + b.nanos)),
    function("-", (TIMESTAMP, TIMESTAMP), DURATION, since),
    function("-", (TIMESTAMP, DURATION), TIMESTAMP, lambda t, d: shifted(t, -d.nanos)),
    function("-", (DURATION, DURATION), DURATION, lambda a, b: Duration.of(a.nanos - b.nanos)),
    function("-_", (DURATION,), DURATION, lambda d: Duration.of(-d.nanos)),
)

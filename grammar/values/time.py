"""Durations and timestamps in nanoseconds, their functions and operators.

CEL langdef, Durations and Timestamps; RFC 3339. Days and weeks are added to CEL's units.
"""

from __future__ import annotations

import functools
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from fractions import Fraction
from typing import ClassVar
from zoneinfo import ZoneInfo

from grammar.tree.types import DURATION, INT, STRING, TIMESTAMP, Overload, function, member
from grammar.values.errors import EvaluationError
from grammar.values.sizes import PARSED, Size, parsed, quoted

SECOND = 10**9
_UNITS = {"ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": SECOND}
_UNITS |= {"m": 60 * SECOND, "h": 3600 * SECOND, "d": 86_400 * SECOND, "w": 604_800 * SECOND}
_PART = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h|d|w)")
_WHOLE = re.compile(rf"[+-]?(?:{_PART.pattern})+\Z")
_MOST_CHARACTERS = 200
# A moment that never comes, in nanoseconds.
NEVER = 2**63 - 1
# CEL's durations are 64 bits of nanoseconds, as in cel-go: about 292 years either way.
LIMIT = 2**63 - 1


@dataclass(frozen=True, slots=True, order=True)
class Duration:
    """A duration: a length of time, in nanoseconds."""

    nanos: int
    ZERO: ClassVar[Duration]

    @staticmethod
    @functools.lru_cache(maxsize=4096)
    def parse(text: str) -> Duration:
        """A text such as `1h30m`, `-1.5s` or `2d`. Raises EvaluationError, also if out of range."""
        if text in ("0", "+0", "-0"):
            return Duration.ZERO
        if len(text) > _MOST_CHARACTERS or _WHOLE.match(text) is None:
            raise EvaluationError('write a number and a unit: `"90s"`, `"15m"`, `"1h30m"`, `"2d"`')
        parts = (
            Fraction(n + "0" if n.endswith(".") else n) * _UNITS[unit]
            for n, unit in _PART.findall(text)
        )
        total = int(sum(parts, Fraction(0)))
        return Duration.of(-total if text[0] == "-" else total)

    @staticmethod
    def of(nanos: int) -> Duration:
        """The result of an operation; raises EvaluationError out of range."""
        if not -LIMIT - 1 <= nanos <= LIMIT:
            raise EvaluationError("duration out of range")
        return Duration(nanos)

    def __str__(self) -> str:
        """Seconds with as many decimals as needed: `90s`, `1.5s`."""
        whole, rest = divmod(abs(self.nanos), SECOND)
        decimals = f".{rest:09d}".rstrip("0") if rest else ""
        return f"{'-' if self.nanos < 0 else ''}{whole}{decimals}s"


Duration.ZERO = Duration(0)


# ---- timestamps

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# 0001-01-01T00:00:00Z to 9999-12-31T23:59:59.999999999Z.
LEAST = -62_135_596_800 * SECOND
GREATEST = 253_402_300_800 * SECOND - 1
_RFC3339 = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9})\d*)?(?:[Zz]|([+-])([01]\d|2[0-3]):([0-5]\d))\Z",
    re.ASCII,
)
# Nine digits of a second are read; some programs write more.
_MOST_OF_TIME = 64
_OFFSET = re.compile(r"([+-]?)([01]?\d|2[0-3]):([0-5]\d)\Z", re.ASCII)


@dataclass(frozen=True, slots=True, order=True)
class Timestamp:
    """A point in time, in nanoseconds since 1970-01-01T00:00:00Z."""

    nanos: int
    ZERO: ClassVar[Timestamp]

    @staticmethod
    @functools.lru_cache(maxsize=65_536)
    def parse(text: str) -> Timestamp:
        """A text as in RFC 3339. Raises EvaluationError, also if out of range."""
        match = _RFC3339.match(text) if len(text) <= _MOST_OF_TIME else None
        if match is None:
            raise EvaluationError('write it as in RFC 3339: `"2026-01-31T12:00:00Z"`')
        *date, fraction, sign, hours, minutes = match.groups()
        try:
            moment = datetime(*map(int, date), tzinfo=UTC)  # type: ignore[arg-type, misc]
        except ValueError as error:
            raise EvaluationError(f"there is no such day or time: {error}") from None
        offset = (int(hours) * 3600 + int(minutes) * 60) * (-1 if sign == "-" else 1) if sign else 0
        seconds = int((moment - _EPOCH).total_seconds()) - offset
        return Timestamp.of(seconds * SECOND + int((fraction or "").ljust(9, "0")))

    @staticmethod
    def of(nanos: int) -> Timestamp:
        """The result of an operation; raises EvaluationError out of range."""
        if not LEAST <= nanos <= GREATEST:
            raise EvaluationError("timestamp out of range")
        return Timestamp(nanos)

    @staticmethod
    def now() -> Timestamp:
        return Timestamp(time.time_ns())

    def __str__(self) -> str:
        """RFC 3339 in UTC, with as many decimals as needed."""
        seconds, rest = divmod(self.nanos, SECOND)
        decimals = f".{rest:09d}".rstrip("0") if rest else ""
        return (
            f"{(_EPOCH + timedelta(seconds=seconds)).replace(tzinfo=None).isoformat()}{decimals}Z"
        )

    def to_second(self) -> str:
        """RFC 3339 in UTC, without decimals: the whole second that it is in."""
        return str(Timestamp(self.nanos // SECOND * SECOND))

    def local(self, zone: str | None = None) -> datetime:
        """The calendar time in a zone (an IANA name or `+01:30`), to the second.

        Raises EvaluationError for an unknown zone.
        """
        moment = _EPOCH + timedelta(seconds=self.nanos // SECOND)
        try:
            if zone is None:
                return moment
            known = _zone(zone) if len(zone) <= PARSED else None
            if known is None:
                raise EvaluationError(f"{quoted(zone)} is not a time zone")
            return moment.astimezone(known)
        except OverflowError:
            raise EvaluationError("timestamp out of range") from None


# Go's zero time.Time, the value of an absent timestamp.
Timestamp.ZERO = Timestamp(LEAST)


@functools.lru_cache(maxsize=256)
def _zone(name: str) -> tzinfo | None:
    """The zone of a name, UTC without one; None, which is kept too, if there is none."""
    if not name:
        return UTC
    if match := _OFFSET.match(name):
        sign, hours, minutes = match.groups()
        offset = timedelta(hours=int(hours), minutes=int(minutes))
        return timezone(-offset if sign == "-" else offset)
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return None


def shifted(moment: Timestamp, by: int) -> Timestamp:
    """The moment `by` nanoseconds later."""
    return Timestamp.of(moment.nanos + by)


# ---- functions and operators


def to_timestamp(value: object) -> Timestamp:
    match value:
        case Timestamp():
            return value
        case int():
            return Timestamp.of(value * SECOND)
        case _:
            return Timestamp.parse(str(value))


def _truncated(unit: int) -> Callable[[Duration], int]:
    def whole(value: Duration) -> int:
        count = abs(value.nanos) // unit
        return count if value.nanos >= 0 else -count

    return whole


def _milliseconds(value: Duration) -> int:
    """The milliseconds after the whole seconds."""
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


def _located(_: object, zone: object) -> int:
    """The steps of finding a zone: a name that is not a constant may be another one each time."""
    return 20 if isinstance(zone, Size) and zone.constant is not None else 1000


_GETTERS = {name: _part(read) for name, read in _PARTS.items()} | {"getMilliseconds": _milli}

OVERLOADS: tuple[Overload, ...] = (
    *(member(name, (TIMESTAMP,), INT, call) for name, call in _GETTERS.items()),
    *(member(name, (TIMESTAMP, STRING), INT, call, _located) for name, call in _GETTERS.items()),
    member("getHours", (DURATION,), INT, _truncated(3600 * SECOND)),
    member("getMinutes", (DURATION,), INT, _truncated(60 * SECOND)),
    member("getSeconds", (DURATION,), INT, _truncated(SECOND)),
    member("getMilliseconds", (DURATION,), INT, _milliseconds),
    function("timestamp", (STRING,), TIMESTAMP, to_timestamp, parsed),
    *(function("timestamp", (t,), TIMESTAMP, to_timestamp) for t in (TIMESTAMP, INT)),
    function("duration", (STRING,), DURATION, Duration.parse, parsed),
    function("duration", (DURATION,), DURATION, lambda duration: duration),
    function("+", (TIMESTAMP, DURATION), TIMESTAMP, lambda t, d: shifted(t, d.nanos)),
    function("+", (DURATION, TIMESTAMP), TIMESTAMP, lambda d, t: shifted(t, d.nanos)),
    function("+", (DURATION, DURATION), DURATION, lambda a, b: Duration.of(a.nanos + b.nanos)),
    function("-", (TIMESTAMP, TIMESTAMP), DURATION, lambda a, b: Duration.of(a.nanos - b.nanos)),
    function("-", (TIMESTAMP, DURATION), TIMESTAMP, lambda t, d: shifted(t, -d.nanos)),
    function("-", (DURATION, DURATION), DURATION, lambda a, b: Duration.of(a.nanos - b.nanos)),
    function("-_", (DURATION,), DURATION, lambda d: Duration.of(-d.nanos)),
)

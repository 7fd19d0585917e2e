"""Durations in nanoseconds (CEL langdef, Durations), with days and weeks besides."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from grammar.errors import EvaluationError

SECOND = 10**9
_UNITS = {"ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": SECOND}
_UNITS |= {"m": 60 * SECOND, "h": 3600 * SECOND, "d": 86_400 * SECOND, "w": 604_800 * SECOND}
_PART = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h|d|w)")
_WHOLE = re.compile(rf"[+-]?(?:{_PART.pattern})+\Z")
_MOST_CHARACTERS = 200
# CEL's durations are 64 bits of nanoseconds, as in cel-go: about 292 years either way.
LIMIT = 2**63 - 1


@dataclass(frozen=True, slots=True, order=True)
class Duration:
    """A length of time, in nanoseconds."""

    nanos: int
    ZERO: ClassVar[Duration]

    @staticmethod
    def parse(text: str) -> Duration:
        """`1h30m`, `-1.5s`, `2d`. Raises EvaluationError for what is none or is out of range."""
        return _parse(text)

    @staticmethod
    def of(nanos: int) -> Duration:
        """A duration that an operation made; raises EvaluationError out of range."""
        if not -LIMIT - 1 <= nanos <= LIMIT:
            raise EvaluationError("duration out of range")
        return Duration(nanos)

    def __str__(self) -> str:
        """Seconds with as many decimals as it takes: `90s`, `1.5s`."""
        whole, rest = divmod(abs(self.nanos), SECOND)
        decimals = f".{rest:09d}".rstrip("0") if rest else ""
        return f"{'-' if self.nanos < 0 else ''}{whole}{decimals}s"


Duration.ZERO = Duration(0)


@functools.lru_cache(maxsize=4096)
def _parse(text: str) -> Duration:
    if text in ("0", "+0", "-0"):
        return Duration.ZERO
    if len(text) > _MOST_CHARACTERS or _WHOLE.match(text) is None:
        raise EvaluationError('write a number and a unit: `"90s"`, `"15m"`, `"1h30m"`, `"2d"`')
    total = sum(
        (
            Fraction(n + "0" if n.endswith(".") else n) * _UNITS[unit]
            for n, unit in _PART.findall(text)
        ),
        Fraction(0),
    )
    return Duration.of(-int(total) if text[0] == "-" else int(total))

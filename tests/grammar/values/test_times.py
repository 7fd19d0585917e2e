"""Durations and timestamps: exact to the nanosecond, in CEL's ranges."""

from __future__ import annotations

import pytest

from grammar.values.errors import EvaluationError
from tests.grammar.expressions import value

SHOWN = {
    'duration("1h30m")': "5400s",
    'duration("-1.5s")': "-1.5s",
    'duration("1ns")': "0.000000001s",
    'duration(".5s")': "0.5s",
    'duration("1µs")': "0.000001s",
    'duration("0")': "0s",
    'duration("2d")': "172800s",
    'duration("1w1d")': "691200s",
    'duration("1000000s")': "1000000s",
    'duration("-9223372036854775808ns")': "-9223372036.854775808s",
    'timestamp("2009-02-13T23:31:30Z")': "2009-02-13T23:31:30Z",
    'timestamp("2009-02-13T23:31:30.100000001+01:30")': "2009-02-13T22:01:30.100000001Z",
    'timestamp("0001-01-01T00:00:00Z")': "0001-01-01T00:00:00Z",
    "timestamp(1234567890)": "2009-02-13T23:31:30Z",
    "timestamp(-1)": "1969-12-31T23:59:59Z",
    'timestamp(0) + duration("1ns")': "1970-01-01T00:00:00.000000001Z",
    'duration("1m") + timestamp(0)': "1970-01-01T00:01:00Z",
    'timestamp(60) - duration("1m")': "1970-01-01T00:00:00Z",
    "timestamp(60) - timestamp(0)": "60s",
    'duration("1m") - duration("1s")': "59s",
    '[duration("1s"), duration("2s")].sum()': "3s",
}

FAILS = [
    'duration("")',
    'duration("5")',
    'duration("1 s")',
    'duration("1h-1m")',
    'duration("１s")',  # noqa: RUF001 - a digit to `\d`
    'duration("9223372036854775808ns")',
    'duration("200000000000s")',
    '-duration("-9223372036854775808ns")',
    'timestamp("9999-12-31T23:59:59Z") - timestamp("0001-01-01T00:00:00Z")',
    'timestamp("2009-02-30T00:00:00Z")',
    'timestamp("2009-02-13T24:00:00Z")',
    'timestamp("2009-02-13 23:31:30Z")',
    'timestamp("2009-02-13T23:31:30")',
    'timestamp("2009-02-13T23:31:30+25:00")',
    'timestamp("0000-01-01T00:00:00Z")',
    'timestamp("0001-01-01T00:00:00+01:00")',
    'timestamp("9999-12-31T23:59:59.999999999Z") + duration("1ns")',
    "timestamp(253402300800)",
    'timestamp(0).getHours("Nowhere/At_All")',
    'timestamp(0).getHours("+25:00")',
    'timestamp(0).getHours("../../etc/passwd")',
    'duration("1s") - timestamp(0)',
]

MOMENT = 'timestamp("2009-02-13T23:31:30.123456789Z")'

PARTS = {
    "getFullYear()": 2009,
    "getMonth()": 1,
    "getDate()": 13,
    "getDayOfMonth()": 12,
    "getDayOfWeek()": 5,
    "getDayOfYear()": 43,
    "getHours()": 23,
    "getMinutes()": 31,
    "getSeconds()": 30,
    "getMilliseconds()": 123,
    'getDate("Australia/Sydney")': 14,
    'getDayOfWeek("+01:00")': 6,
    'getHours("US/Central")': 17,
    'getMinutes("-02:30")': 1,
    'getHours("02:00")': 1,
    'getHours("UTC")': 23,
}


@pytest.mark.parametrize(("expression", "shown"), SHOWN.items())
def test_shown(expression: str, shown: str) -> None:
    assert value(f"string({expression})") == shown


@pytest.mark.parametrize("expression", FAILS)
def test_what_has_no_result(expression: str) -> None:
    with pytest.raises(EvaluationError):
        value(expression)


@pytest.mark.parametrize(("part", "found"), PARTS.items())
def test_parts_of_a_timestamp(part: str, found: int) -> None:
    assert value(f"{MOMENT}.{part}") == found


@pytest.mark.parametrize(
    "expression",
    [
        'duration("3661.5s").getHours() == 1 && duration("3661.5s").getMinutes() == 61',
        'duration("-90m").getHours() == -1',
        'duration("49h59m59s").getHours() == 49 && duration("-49h59m").getHours() == -49',
        'dyn(duration("59m59.999s")).getHours() == 0 && duration("1h").getHours() == 1',
        'duration("25h1m").getMinutes() == 1501 && duration("25h1s").getSeconds() == 90001',
        "timestamp(0).getHours() == 0 && dyn(timestamp(90000)).getHours() == 1",
        'duration("3661.5s").getSeconds() == 3661 && duration("3661.5s").getMilliseconds() == 500',
        'duration("60s") == duration("1m") && duration("1s") < duration("1001ms")',
        'timestamp(0) == timestamp("1970-01-01T01:00:00+01:00") && timestamp(0) < timestamp(1)',
        'int(timestamp("1969-12-31T23:59:59.5Z")) == -1 && int(duration("1s")) == 1000000000',
        "timestamp(timestamp(7)) == timestamp(7)",
        "timestamp(0) != 0",
    ],
)
def test_compared_and_converted(expression: str) -> None:
    assert value(expression) is True

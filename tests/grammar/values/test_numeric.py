"""Numbers: 64 bits with overflow, IEEE doubles, and conversions as cel-go makes them."""

from __future__ import annotations

import math

import pytest

from grammar.values.errors import EvaluationError
from grammar.values.kinds import kind
from grammar.values.numbers import plain_double, show_double
from tests.grammar.expressions import value

# What Go prints with %g and with strconv's 'f'.
DOUBLES: dict[float, tuple[str, str]] = {
    0.0: ("0", "0"),
    1.0: ("1", "1"),
    100000.0: ("100000", "100000"),
    1e6: ("1e+06", "1000000"),
    123456789.0: ("1.23456789e+08", "123456789"),
    -1e21: ("-1e+21", "-1000000000000000000000"),
    0.0001: ("0.0001", "0.0001"),
    0.00001: ("1e-05", "0.00001"),
    6.02214e23: ("6.02214e+23", "602214000000000000000000"),
    -4.5e-3: ("-0.0045", "-0.0045"),
}

RESULTS: dict[str, object] = {
    "7 / -2": -3,
    "-7 / 2": -3,
    "-7 % 3": -1,
    "7 % -3": 1,
    "--5": 5,
    "1.5 * 2.0": 3.0,
    "-1.0 / 0.0": -math.inf,
    "2.0 * 8.988466e+307": math.inf,
    'int("+5")': 5,
    'int("007")': 7,
    "int(-1.9)": -1,
    "int(9223372036854774784.0)": 9223372036854774784,
    'double("1e-400")': 0.0,
    'double("-Infinity")': -math.inf,
    'double(".5")': 0.5,
    "double(9007199254740993)": 9007199254740992.0,
    'bool("t")': True,
    'bool("False")': False,
    "string(-1)": "-1",
    "string(1e6)": "1e+06",
    "string(0.0 / 0.0)": "NaN",
    "string(1.0 / 0.0)": "+Inf",
    "string(true)": "true",
}

FAILS = [
    "9223372036854775807 + 1",
    "-9223372036854775808 - 1",
    "5000000000 * 5000000000",
    "-(-9223372036854775808)",
    "-9223372036854775808 / -1",
    "-9223372036854775808 % -1",
    "1 / 0",
    "1 % 0",
    "1.0 % 1.0",
    "1 + 1.0",
    "-true",
    "!1",
    "int(9223372036854775807.0)",
    "int(-9223372036854775808.0)",
    "int(0.0 / 0.0)",
    'int("9223372036854775808")',
    'int(" 5")',
    'int("5.0")',
    "int(true)",
    'double("1e400")',
    'double("1_0")',
    'bool("yes")',
    "bool(1)",
    "string(null)",
    "string([1])",
]


@pytest.mark.parametrize(("number", "shown"), DOUBLES.items())
def test_doubles_are_shown_as_go_shows_them(number: float, shown: tuple[str, str]) -> None:
    assert (show_double(number), plain_double(number)) == shown


@pytest.mark.parametrize(("expression", "result"), RESULTS.items())
def test_results(expression: str, result: object) -> None:
    found = value(expression)
    assert (kind(found), found) == (kind(result), result)


@pytest.mark.parametrize("expression", FAILS)
def test_what_has_no_result(expression: str) -> None:
    with pytest.raises(EvaluationError):
        value(expression)


def test_a_text_of_thousands_of_digits_is_no_int() -> None:
    """Python refuses to read one, with an exception of its own."""
    with pytest.raises(EvaluationError):
        value("int(text)", {"text": "1" * 5000})


@pytest.mark.parametrize(
    "expression",
    [
        "1 < 1.5 && 1.5 > 1",
        "!(dyn(9223372036854775808.0) > 9223372036854775807)",
        "false < true",
        r'"\U0001F431" > "\uffff"',
        'type(1) == int && type(1.0) == double && type("") == string && type(type(1)) == type',
        "type(null) == null_type && type([]) == list && type({}) == map && type(true) == bool",
        "type(timestamp(0)) == google.protobuf.Timestamp",
        'type(ip("1.2.3.4")) == net.IP && type(optional.none()) == optional_type',
    ],
)
def test_order_and_types(expression: str) -> None:
    assert value(expression) is True

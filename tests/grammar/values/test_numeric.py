"""Numbers, quantities and times: how they are read, shown, compared and converted."""

from __future__ import annotations

import math

import pytest

from grammar.values.errors import EvaluationError
from grammar.values.kinds import kind
from grammar.values.numbers import plain_double, show_double
from grammar.values.quantity import NANO, Quantity
from tests.differential.test_kubernetes_cel import Here
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


# ---- quantities: read, shown, compared and reckoned with as Kubernetes does, and operators besides


# The right side is what Go's resource.Quantity prints for the left.
CANONICAL = {
    "0": "0",
    "-0": "0",
    "1500": "1500",
    "2000": "2k",
    "1000m": "1",
    "-1500m": "-1500m",
    "1.5": "1500m",
    "1.2345": "1234500u",
    ".5": "500m",
    "5.": "5",
    "+1": "1",
    "0.9n": "1n",
    "-0.1n": "-1n",
    "1E": "1E",
    "1E3": "1e3",
    "12e6": "12e6",
    "1200e4": "12e6",
    "10e-2": "100e-3",
    "1000E": "1e21",
    "100E": "100E",
    "1Ki": "1Ki",
    "1023": "1023",
    "1.5Gi": "1536Mi",
    "0.5Ki": "512",
    "0.1Ki": "102400m",
    "8Ei": "9223372036854775807",
    "-8Ei": "-9223372036854775807",
    "-": "0",
    "+": "0",
    ".": "0",
    "-.": "0",
    "m": "0",
    "Ti": "0",
    ".E": "0",
    "e3": "0",
    "e-9": "0",
    "1e0000003": "1e3",
    "1e-1000": "1e-9",
}

BAD = {
    "200K": "`K` is not a suffix: use n u m k M G T P E, Ki Mi Gi Ti Pi Ei",
    "1 Gi": 'write a number with a suffix: `"500m"`, `"2"`, `"1.5Gi"`',
    "5x": "`x` is not a suffix: use n u m k M G T P E, Ki Mi Gi Ti Pi Ei",
    "": 'write a number with a suffix: `"500m"`, `"2"`, `"1.5Gi"`',
    "1ee3": 'write a number with a suffix: `"500m"`, `"2"`, `"1.5Gi"`',
    "1e": "`e` is not a suffix: use n u m k M G T P E, Ki Mi Gi Ti Pi Ei",
    "e-10": 'write a number with a suffix: `"500m"`, `"2"`, `"1.5Gi"`',
    "-Ei": 'write a number with a suffix: `"500m"`, `"2"`, `"1.5Gi"`',
    "Pi": 'write a number with a suffix: `"500m"`, `"2"`, `"1.5Gi"`',
    "--1": 'write a number with a suffix: `"500m"`, `"2"`, `"1.5Gi"`',
    "1e1e1": 'write a number with a suffix: `"500m"`, `"2"`, `"1.5Gi"`',
    "１": 'write a number with a suffix: `"500m"`, `"2"`, `"1.5Gi"`',  # noqa: RUF001 - a digit to `\d`
    "1" * 5000: 'write a number with a suffix: `"500m"`, `"2"`, `"1.5Gi"`',
    "1e999": "quantity out of range",
}


@pytest.mark.parametrize(("text", "shown"), CANONICAL.items())
def test_shown_as_go_shows_it(text: str, shown: str) -> None:
    read = Quantity.parse(text)
    assert str(read) == shown
    assert Quantity.parse(shown) == read


@pytest.mark.parametrize(("text", "hint"), BAD.items(), ids=range(len(BAD)))
def test_what_is_no_quantity_gets_a_hint(text: str, hint: str) -> None:
    with pytest.raises(EvaluationError) as failure:
        Quantity.parse(text)
    assert str(failure.value) == hint


@pytest.mark.parametrize("text", ["-", "+", ".", "m", "Ki", "e3", ""])
def test_what_somebody_writes_has_a_digit(text: str) -> None:
    """As a constant of a policy, or in a table, where `-` means that there is nothing."""
    with pytest.raises(EvaluationError, match="write a number"):
        Quantity.written(text)


def test_equality_and_order_are_by_amount() -> None:
    assert Quantity.parse("1000m") == Quantity.parse("1") == Quantity(NANO, "binary")
    assert Quantity.parse("1Gi") > Quantity.parse("1G")
    assert len({Quantity.parse("1"), Quantity.parse("1000m")}) == 1


@pytest.mark.parametrize(
    ("expression", "shown"),
    [
        ('quantity("1Gi") + quantity("1G")', "2073741824"),
        ('quantity("0") + quantity("1Gi")', "1Gi"),
        ('quantity("3Gi") - quantity("1Gi")', "2Gi"),
        ('-quantity("500m")', "-500m"),
        ('quantity("500m") * 3', "1500m"),
        ('3 * quantity("500m")', "1500m"),
        ('quantity("1Gi") * 0.5', "512Mi"),
        ('quantity("1") * 0.1', "100m"),
        ('quantity("1") / 3', "333333333n"),
        ('quantity("1Gi") / 2.0', "512Mi"),
        ('quantity("1").add(quantity("500m"))', "1500m"),
        ('quantity("1").add(2)', "3"),
        ('quantity("1").sub(2)', "-1"),
        ("quantity(5)", "5"),
    ],
)
def test_arithmetic_keeps_the_left_kind_of_suffix(expression: str, shown: str) -> None:
    assert str(value(expression)) == shown


@pytest.mark.parametrize(
    "expression",
    [
        'quantity("1Gi") / quantity("512Mi") == 2.0',
        'quantity("1") < quantity("1001m") && quantity("1Ki") >= quantity("1024")',
        'quantity("50k").isLessThan(quantity("50M")) && quantity("2").isGreaterThan(quantity("1"))',
        'quantity("1").compareTo(quantity("2")) == -1',
        'quantity("-1").sign() == -1 && sign(quantity("0")) == 0',
        'quantity("2").isInteger() && quantity("2k").asInteger() == 2000',
        'int(quantity("2")) == 2',
        '!quantity("1500m").isInteger() && quantity("1500m").asApproximateFloat() == 1.5',
        'isQuantity("-") && isQuantity(".") && !isQuantity("") && !isQuantity("1ee3")',
        'isQuantity("1.3Gi") && !isQuantity("1,3Gi") && !isQuantity("200K")',
        'string(quantity("1000m")) == "1" && double(quantity("500m")) == 0.5',
    ],
)
def test_functions(expression: str) -> None:
    assert value(expression) is True


@pytest.mark.parametrize(
    "expression",
    [
        'quantity("1.5").asInteger()',
        'quantity("100E").asInteger()',
        'quantity("1") / quantity("0")',
        'quantity("1") / 0',
        'quantity("1") * (1.0 / 0.0)',
        'quantity("1E") * 1e300',
        'quantity("1") + 1',
        'quantity("1") * quantity("1")',
    ],
)
def test_what_has_no_result_quantity(expression: str) -> None:
    with pytest.raises(EvaluationError):
        value(expression)


@pytest.mark.parametrize("kind", ["quantity", "semver", "duration"])
@pytest.mark.parametrize(("left", "right"), [(1, 2), (2, 2), (2, 1), (10, 9)])
@pytest.mark.parametrize("relation", ["<", "<=", ">", ">=", "==", "!="])
def test_relations_are_the_same_for_operands_that_are_not_known(
    kind: str, left: int, right: int, relation: str
) -> None:
    written = {"quantity": '"{}k"', "semver": '"{}.0.0"', "duration": '"{}h"'}[kind]
    first, second = (f"{kind}({written.format(number)})" for number in (left, right))
    wanted = {
        "<": left < right,
        "<=": left <= right,
        ">": left > right,
        ">=": left >= right,
        "==": left == right,
        "!=": left != right,
    }[relation]
    here = Here({"a": first, "b": second})
    for text in (
        f"a {relation} b",
        f"dyn(a) {relation} b",
        f"a {relation} dyn(b)",
        f"dyn(a) {relation} dyn(b)",
        f"dyn({first}) {relation} dyn({second})",
        f"[dyn(a)].all(x, x {relation} dyn(b))",
    ):
        assert here.evaluate(text) == ("bool", wanted), text


# ---- durations and timestamps: exact to the nanosecond, in CEL's ranges


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

TIMES_FAILS = [
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

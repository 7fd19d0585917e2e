"""Quantities: read, shown, compared and reckoned with as Kubernetes does, and operators besides."""

from __future__ import annotations

import pytest

from grammar.values.errors import EvaluationError
from grammar.values.quantity import NANO, Quantity
from tests.differential.test_kubernetes_cel import Here
from tests.grammar.expressions import value

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
}

BAD = {
    "200K": "`K` is not a suffix: use n u m k M G T P E, Ki Mi Gi Ti Pi Ei",
    "1 Gi": 'write a number with a suffix: `"500m"`, `"2"`, `"1.5Gi"`',
    "5x": "`x` is not a suffix: use n u m k M G T P E, Ki Mi Gi Ti Pi Ei",
    "": 'write a number with a suffix: `"500m"`, `"2"`, `"1.5Gi"`',
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
def test_what_has_no_result(expression: str) -> None:
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

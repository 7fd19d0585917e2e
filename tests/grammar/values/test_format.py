"""`format`: what a constant text refuses before it runs, and what it gives."""

from __future__ import annotations

import pytest

from grammar.tree.types import BOOL, DOUBLE, DYN, INT, STRING, Type, list_of, optional_of
from grammar.values.format import format_text, refused


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("%s %d %f %e %b %o %x %X", [STRING, INT, DOUBLE, INT, BOOL, INT, STRING, INT]),
        ("100%% %s", [list_of(DOUBLE)]),
        ("%d %.2f", [DYN, DYN]),
        ("none", []),
    ],
)
def test_values_that_fit(text: str, kinds: list[Type]) -> None:
    assert refused(text, kinds) is None


@pytest.mark.parametrize(
    ("text", "kinds", "reason", "place"),
    [
        ("%.2f", [list_of(DOUBLE)], "`%.2f` does not accept a list(double)", 0),
        ("%s %d", [STRING, STRING], "`%d` does not accept a string", 1),
        ("%s", [optional_of(INT)], "`%s` does not accept an optional(int)", 0),
        ("%s %s", [STRING], "there is no value for `%s`", None),
        ("%s", [STRING, INT], "no clause of the text shows this value", 1),
        ("%q", [STRING], "`%q` is not a formatting clause", None),
        ("%.99999f", [DOUBLE], "the precision is more than 1,100 digits", None),
    ],
)
def test_values_that_do_not_fit(
    text: str, kinds: list[Type], reason: str, place: int | None
) -> None:
    assert refused(text, kinds) == (reason, place)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (1.0, "1"),
        (1e6, "1e+06"),
        (0.00001, "1e-05"),
        (999999.0, "999999"),
        (float("inf"), "Infinity"),
        ((1e6,), "[1000000]"),
    ],
)
def test_a_double_is_shown_as_its_string(value: object, shown: str) -> None:
    assert format_text("%s", (value,)) == shown

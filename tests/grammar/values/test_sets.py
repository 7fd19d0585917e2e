"""Sets: lists compared without order and number."""

from __future__ import annotations

import pytest

from grammar.values.errors import StepLimitError
from tests.grammar.expressions import value


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("sets.contains([], [])", True),
        ("sets.contains([], [1])", False),
        ("sets.contains([1, 2, 3, 4], [2, 3])", True),
        ("sets.contains([1, 2.0, 3], [1.0, 2, 3])", True),
        ("sets.equivalent([], [])", True),
        ("sets.equivalent([1], [1, 1])", True),
        ("sets.equivalent([1], [1, 2])", False),
        ("sets.equivalent([1, 2, 3], [3, 2.0, 1])", True),
        ("sets.intersects([1], [])", False),
        ("sets.intersects([1], [1, 2])", True),
        ("sets.intersects([[1], [2, 3]], [[1, 2], [2, 3.0]])", True),
    ],
)
def test_cases_of_cel_go(text: str, wanted: bool) -> None:
    assert value(text) is wanted


def test_large_sets_take_steps() -> None:
    with pytest.raises(StepLimitError):
        value("sets.equivalent(lists.range(2000), lists.range(2000).reverse())")

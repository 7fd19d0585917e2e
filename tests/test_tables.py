"""Tables of cases: what their text means, and which texts are none."""

from __future__ import annotations

import pytest

from tests.support.books import integers, marked, optional, table


def cases(mark: pytest.MarkDecorator) -> dict[str, tuple[object, ...]]:
    _names, found = mark.args
    return {each.id: each.values for each in found}


def test_a_row_is_a_case() -> None:
    mark = table(
        """
        case              | text         | number | numbers | maybe
        # a heading
        a sentence, whole | a || b       | 3      | 0 2     | 1
        an empty cell     |              | -1     |         |
        a row of two lines
                          | a long text  | 0      | 1       | 2
        """,
        number=int,
        numbers=integers,
        maybe=optional(int),
    )
    assert mark.args[0] == ["text", "number", "numbers", "maybe"]
    assert cases(mark) == {
        "a sentence, whole": ("a || b", 3, [0, 2], 1),
        "an empty cell": ("", -1, [], None),
        "a row of two lines": ("a long text", 0, [1], 2),
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("case | a\none | 1 | 2", "this row has 3 cells, not 2: .*one"),
        ("case | a\none | 1\none | 2", "two rows have the same case"),
        ("name | a\none | 1", "the columns are .*name"),
        ("case | b\none | 1", "the readers of .*a"),
    ],
)
def test_what_is_no_table_is_an_error(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        table(text, a=int)


def test_marks_are_taken_out_of_a_text() -> None:
    assert marked("a «b» c «d»") == ("a b c d", ["b", "d"])
    assert marked("a || b") == ("a || b", [])

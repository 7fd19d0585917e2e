"""The table of failures in docs/operations.md: equal to what the tests of its cells find."""

from pathlib import Path

from tests.support.failures import MATRIX, table

PAGE = Path(__file__).parents[1] / "docs" / "operations.md"
BEGIN, END = "<!-- failures: as in tests/support/failures.py -->\n", "\n<!-- end of failures -->"


def test_the_table_is_that_of_the_tests() -> None:
    shown = PAGE.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]
    assert shown == table(MATRIX)

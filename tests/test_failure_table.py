"""The table of failures in docs/operations/failures.md: equal to what the tests of it find."""

from tests.support.books import book
from tests.support.failures import MATRIX, table

BEGIN, END = "<!-- failures: as in tests/support/failures.py -->\n", "\n<!-- end of failures -->"


def test_the_table_is_that_of_the_tests() -> None:
    shown = book("operations").partition(BEGIN)[2].partition(END)[0]
    assert shown == table(MATRIX)

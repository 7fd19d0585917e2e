"""Offsets and positions, in the units of each encoding."""

import pytest
from lsprotocol.types import Position

from cli.language_server.server import Positions

TEXT = "a☃🐪b\r\nc\rd\n"


@pytest.mark.parametrize(
    ("encoding", "column"), [("utf-8", 1 + 3 + 4), ("utf-16", 1 + 1 + 2), ("utf-32", 3)]
)
def test_columns_count_the_units_of_the_encoding(encoding: str, column: int) -> None:
    positions = Positions(TEXT, encoding)
    assert positions.position(TEXT.index("b")) == Position(0, column)
    assert positions.offset(Position(0, column)) == TEXT.index("b")


def test_lines_end_as_editors_say() -> None:
    positions = Positions(TEXT, "utf-16")
    for offset, letter in enumerate(TEXT):
        if letter not in "\r\n":
            assert positions.offset(positions.position(offset)) == offset
    assert positions.position(TEXT.index("d")) == Position(2, 0)
    assert positions.position(len(TEXT)) == Position(3, 0)


def test_a_position_past_an_end_is_the_end() -> None:
    positions = Positions(TEXT, "utf-16")
    assert positions.offset(Position(0, 99)) == TEXT.index("\r\n")
    assert positions.offset(Position(99, 0)) == len(TEXT)

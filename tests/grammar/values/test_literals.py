"""Literals: the values that their texts stand for."""

from __future__ import annotations

import pytest

from grammar.syntax.expression_builder import parse_int, unquote

STRINGS = {
    '""': "",
    "'a\"b'": 'a"b',
    '"a\'b"': "a'b",
    r'"\a\b\f\n\r\t\v\\\?\"\'\`"': "\a\b\f\n\r\t\v\\?\"'`",
    r"'\x41\X42\u0043\U00000044\105'": "ABCDE",
    r"'\377'": "ÿ",
    r"r'\n'": r"\n",
    r'R"\\"': r"\\",
    "'''a'b\nc'''": "a'b\nc",
    r'"""\""""': '"',
    r"r'''\'''": "\\",
    r"'\U0001f431'": "🐱",
}


@pytest.mark.parametrize(("token", "text"), STRINGS.items())
def test_strings(token: str, text: str) -> None:
    assert unquote(token) == text


@pytest.mark.parametrize(
    ("token", "message"),
    [
        (r"'\q'", r"`\q` is not an escape sequence"),
        (r"'\8'", r"`\8` is not an escape sequence"),
        (r"'\400'", r"`\4` is not an escape sequence"),
        (r"'\x4'", r"`\x` is not an escape sequence"),
        (r"'\ud800'", r"`\ud800` is not a character"),
        (r"'\U00110000'", r"`\U00110000` is not a character"),
    ],
)
def test_what_is_no_escape(token: str, message: str) -> None:
    with pytest.raises(ValueError, match=r"^`") as failure:
        unquote(token)
    assert str(failure.value) == message


def test_numbers() -> None:
    """The range of an int is told by the parser, which knows its sign."""
    assert (parse_int("007"), parse_int("0xFF"), parse_int("0")) == (7, 255, 0)
    assert parse_int("9223372036854775808") == 2**63
    assert parse_int("0" * 5000 + "7") == 7
    assert parse_int("1" * 5000) > 2**63

"""Texts as they are shown: in one line, without what cannot be printed, and cut at a length."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grammar.messages.texts import cut, escaped, escaped_json, escaped_values, excerpt, shown
from tests.support.rows import rows


@rows(
    ("text", "wanted"),
    {
        "a plain text": ("needs 1Gi to spare", "needs 1Gi to spare"),
        "any letters": ("größer als 1 Gi: 😀", "größer als 1 Gi: 😀"),
        "line breaks": ("a\r\nb\tc", r"a\r\nb\tc"),
        "control characters": ("\x1b[31m\x00\x7f\x9b", r"\x1b[31m\x00\x7f\x9b"),
        "bidi controls": ("a\u202eb\u2066c\u200f", r"a\u202eb\u2066c\u200f"),
        "separators of Unicode": ("a\u2028b\u2029\x85", r"a\u2028b\u2029\x85"),
        "half of a pair": ("\ud800", r"\ud800"),
        "tags": ("\U000e0041", r"\U000e0041"),
    },
)
def test_what_cannot_be_printed_is_escaped(text: str, wanted: str) -> None:
    assert escaped(text) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("abcd", "abcd"), ("abcde", "abc…"), ("a\n\n", "a\\n…"), ("", ""), ("ab\n", "ab\\n")],
)
def test_a_long_text_is_cut(text: str, wanted: str) -> None:
    assert shown(text, 4) == wanted


def test_even_one_character_says_that_something_is_left_out() -> None:
    assert (cut("ab", 1), cut("a", 1)) == ("…", "a")


@given(st.text(st.characters()), st.integers(1, 300))
def test_every_text_is_one_short_line(text: str, most: int) -> None:
    found = shown(text, most)
    assert len(found) <= most
    assert found.isprintable()
    assert found == shown(text, most)
    assert found.endswith("…") or found == escaped(text)


def test_an_excerpt_is_one_line_that_can_be_printed() -> None:
    assert excerpt("a\n b\x1b[31m\u202e\t c", 40) == r"a b\x1b[31m\u202e c"
    assert excerpt("a\n" * 30, 5) == "a a …"


@given(st.text())
def test_json_keeps_its_meaning(text: str) -> None:
    written = escaped_json(json.dumps({"a": text}, ensure_ascii=False))
    assert written.isprintable()
    assert json.loads(written) == {"a": text}


def test_every_text_of_a_value_is_escaped() -> None:
    found = escaped_values({"a\x1b": ["b\u202e\n", 1, None, {"c": True}]})
    assert found == {r"a\x1b": ["b\\u202e\n", 1, None, {"c": True}]}

"""The tokens of unfinished texts."""

import pytest

from policies.editor.tokens import tokens


@pytest.mark.parametrize(
    "text",
    ['a.b["c d"] // e', '"""x\ny', "'it\\'s' + r'\\'", "1.5Gi % 2u", "a.?b[?c] && !d\n# e", '"\\'],
)
def test_joined_tokens_are_the_text(text: str) -> None:
    assert "".join(piece.text for piece in tokens(text)) == text


@pytest.mark.parametrize(
    ("text", "is_open"),
    [('"a', True), ('"a"', False), ('"', True), ('""', False), ('"a\\"', True), ('"a\\\\"', False)],
)
def test_a_string_without_an_end_is_open(text: str, is_open: bool) -> None:
    assert tokens(text)[-1].is_open == is_open

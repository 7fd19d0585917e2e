"""What a text is taken for, when it may go on, and which colours it has."""

import pytest

from cli.repl.conversation import reading, unfinished
from cli.repl.tokens import coloured_lines, tokens


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", "nothing"),
        ("  # a comment\n// another", "nothing"),
        (":help", "command"),
        ("node.ready", "expression"),
        ("weight > 3", "expression"),
        ("filter", "expression"),
        ("let a = 1", "rules"),
        ('let a = 1 filter "f" { require a == 1 }', "rules"),
        ("policy p { }", "file"),
        ("policy p", "unfinished"),
        ('filter "f" {\n\n', "unfinished"),
        ("1 +", "unfinished"),
        ("size(", "unfinished"),
        ('"""one\ntwo', "unfinished"),
        ("let a = 1 2", "rules"),
        ("1 2", "expression"),
        ('"open', "expression"),
        ("policy p { filter }", "file"),
        ("(" * 200, "expression"),
    ],
)
def test_a_text_is_taken_for_what_it_is_or_looks_like(text: str, kind: str) -> None:
    assert reading(text) == kind


@pytest.mark.parametrize(
    ("text", "goes_on"),
    [(":type node.", True), (":type", False), (":type 1 2", False), (":node (", False)],
)
def test_an_expression_behind_a_command_may_go_on(text: str, goes_on: bool) -> None:
    assert unfinished(text) == goes_on


@pytest.mark.parametrize(
    "text",
    ['a.b["c d"] // e', '"""x\ny', "'it\\'s' + r'\\'", "1.5Gi % 2u", "a.?b[?c] && !d\n# e", '"\\'],
)
def test_pieces_together_are_the_text(text: str) -> None:
    assert "".join(piece.text for piece in tokens(text)) == text


@pytest.mark.parametrize(
    ("text", "is_open"),
    [('"a', True), ('"a"', False), ('"', True), ('""', False), ('"a\\"', True), ('"a\\\\"', False)],
)
def test_a_string_without_an_end_is_open(text: str, is_open: bool) -> None:
    assert tokens(text)[-1].is_open == is_open


def test_colours_tell_words_of_clauses_from_names_like_them() -> None:
    (first, second) = coloured_lines('filter "f" { require\nnode.node > 1 # x')
    assert first == [
        ("word", "filter"),
        ("", " "),
        ("string", '"f"'),
        ("", " "),
        ("", "{"),
        ("", " "),
        ("word", "require"),
        ("", ""),
    ]
    assert [piece for piece in second if piece[0]] == [
        ("variable", "node"),
        ("number", "1"),
        ("comment", "# x"),
    ]
    assert coloured_lines(":why n-1")[0][0] == ("command", ":why")

"""The meaning of a text, whether it continues, and errors with carets in place."""

import pytest

from cli.repl.conversation import ReplSession, answer, reading, unfinished
from tests.cli.repl.conftest import Say


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", "nothing"),
        ("  # a comment\n// another", "nothing"),
        (":help", "command"),
        ("help", "command"),
        (" ? ", "command"),
        ("help + 1", "expression"),
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
def test_a_text_has_one_kind(text: str, kind: str) -> None:
    assert reading(text) == kind


@pytest.mark.parametrize(
    ("text", "goes_on"), [("node.", True), ("1 2", False), (":node (", False), ("", False)]
)
def test_a_command_does_not_continue(text: str, goes_on: bool) -> None:
    assert unfinished(text) == goes_on


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            "1 + node.nme",
            """\
error[P0102]: Node has no field `nme`
 --> expression:1:10
  |
1 | 1 + node.nme
  |          ^^^ unknown field
  = help: a similar name exists: `name`
""",
        ),
        (
            'let a = 1\nfilter "f" {\n  require node.redy\n}',
            """\
error[P0102]: Node has no field `redy`
 --> session:3:16
  |
3 |   require node.redy
  |                ^^^^ unknown field
  = help: a similar name exists: `ready`
""",
        ),
        (
            "pod.name",
            """\
error[P0111]: `pod` is not available in this expression
 --> expression:1:1
  |
1 | pod.name
  | ^^^^^^^^
  = help: choose one with `:pod NAMESPACE/NAME`
""",
        ),
        (
            '[1].map(x, {"a": x}["b"])',
            """\
error: there is no key `b`
 --> expression:1:12
  |
1 | [1].map(x, {"a": x}["b"])
  |            ^^^^^^^^^^^^^
""",
        ),
    ],
    ids=["expression", "clause", "no pod", "evaluation"],
)
def test_mistakes_are_shown_in_place(say: Say, text: str, shown: str) -> None:
    said = say(text)
    assert (said.out, said.err, said.failed) == ("", shown, True)


@pytest.mark.parametrize("text", ['test "t" { pod "p" }', "policy p {\n  weight 3\n}"])
def test_policies_and_tests_are_loaded(say: Say, text: str) -> None:
    assert reading(text) == "file"
    assert say(text).err == (
        "error: policies and tests cannot be typed\n"
        "  = help: write it into a file of the session, or type its clauses\n"
    )


@pytest.mark.parametrize("word", ["help", "?"])
def test_help_needs_no_colon(say: Say, word: str) -> None:
    assert say(word).out == say(":help").out


@pytest.mark.parametrize("word", ["exit", "quit"])
def test_the_words_of_other_programs_end_the_session(session: ReplSession, word: str) -> None:
    answer(session, word)
    assert session.has_ended


def test_quit_gives_the_last_answer(session: ReplSession) -> None:
    answer(session, "1")
    assert not session.has_ended
    assert answer(session, ":quit")
    assert session.has_ended

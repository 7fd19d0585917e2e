"""The terminal: colours and escapes of diagnostics, and standard input."""

from __future__ import annotations

import io
import sys

import pytest

from cli.main import main
from cli.render import Finding, render, wants_colour
from grammar.messages.diagnostics import Diagnostic
from grammar.tree.source import Source, Span


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def finding() -> Finding:
    source = Source("a,b:c.policy", "let x = 1\nlet y = 2\n")
    span = Span(4, 5)
    return Diagnostic("P0001", "warning", "100% wrong", span, "this", "line 1\nline 2"), source


def test_colour_is_for_terminals_that_want_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """See no-color.org; an empty NO_COLOR is none."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert wants_colour(Terminal())
    assert not wants_colour(io.StringIO())
    monkeypatch.setenv("NO_COLOR", "")
    assert wants_colour(Terminal())
    monkeypatch.setenv("NO_COLOR", "1")
    assert not wants_colour(Terminal())
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert not wants_colour(Terminal())


@pytest.mark.parametrize("before", [0, 200_000])
def test_of_a_long_line_the_part_with_the_mistake_is_shown(before: int) -> None:
    source = Source("a.policy", f"{'a' * before} here {'b' * 200_000}")
    found = Diagnostic("P0001", "error", "wrong", Span(before + 1, before + 5))
    (text, _) = render([(found, source)], "human")
    line, carets = text.splitlines()[3:5]
    assert len(line) < 1000
    assert line.endswith("b…")
    assert line[carets.index("^") : carets.rindex("^") + 1] == "here"


def test_colour_adds_nothing_else(finding: Finding) -> None:
    """Without its escapes a coloured text is the plain one."""
    coloured = "\n".join(render([finding], "human", colour=True))
    assert "\x1b[33mwarning[P0001]\x1b[0m" in coloured
    plain = coloured
    for code in ("0", "1", "31", "33", "34", "36"):
        plain = plain.replace(f"\x1b[{code}m", "")
    assert plain == "\n".join(render([finding], "human"))


def test_annotation_escapes_what_would_end_it(finding: Finding) -> None:
    place = "file=a%2Cb%3Ac.policy,line=1,endLine=1,col=5,endColumn=6"
    message = "100%25 wrong (line 1%0Aline 2)"
    expected = [f"::warning {place},title=P0001::{message}"]
    assert list(render([finding], "github")) == expected


def test_annotation_of_several_lines_has_no_columns() -> None:
    """They would be ignored."""
    source = Source("a.policy", "let x = 1\nlet y = 2\n")
    diagnostic = Diagnostic("P0001", "error", "wrong", Span(0, 15))
    assert list(render([(diagnostic, source)], "github")) == [
        "::error file=a.policy,line=1,endLine=2,title=P0001::wrong"
    ]


# ---- standard input that is no text: one error, whichever command reads it


@pytest.mark.parametrize(
    "command", ["check -", "fmt -", "doctor -", "scheduler-config --from -", "repl"]
)
def test_input_that_is_not_utf8_is_one_error(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    latin = io.BytesIO("kind: café\n".encode("latin-1"))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(latin, encoding="utf-8"))
    assert main(command.split()) == 2
    said = "error: standard input is not UTF-8 text\n  = help: save it as UTF-8\n"
    assert capsys.readouterr().err == said

"""Standard input that is no text: one error, whichever command reads it."""

from __future__ import annotations

import io
import sys

import pytest

from cli.main import main


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

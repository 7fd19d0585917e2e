"""The page about the REPL: its session gives the shown output, and every command is listed."""

import io
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.main import main
from cli.repl.conversation import COMMANDS, ReplSession, answer, prompt
from tests.cli.shop import snapshot

DOCS = Path(__file__).parents[1] / "docs"
PAGE = (DOCS / "repl.md").read_text(encoding="utf-8")
_FENCE = re.compile(r"(?ms)^```console\n(.*?)^```$")
_START = "$ placet repl --cluster cluster.yaml --policies shop.policy\n"
_PROMPT = re.compile(r"^(\S+(?: @ \S+)?> )(.*)$")


@pytest.fixture(autouse=True)
def examples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "110")
    monkeypatch.chdir(DOCS / "examples" / "explain")


def shown() -> Iterator[tuple[str, str, str]]:
    """Yield the prompt, the line and the answer of every line of the page's session."""
    fences = [fence.removeprefix(_START) for fence in _FENCE.findall(PAGE)]
    prompt = line = answer = ""
    for row in "".join(fence for fence in fences if not fence.startswith("$")).splitlines():
        if found := _PROMPT.match(row):
            if line:
                yield prompt, line, answer
            prompt, line, answer = found[1], found[2], ""
        else:
            answer += f"{row}\n"
    yield prompt, line, answer


def test_the_session_is_as_the_page_shows_it(capsys: pytest.CaptureFixture[str]) -> None:
    origin = snapshot("cluster.yaml")
    session = ReplSession([Path("shop.policy")], origin)
    session.reload()
    for before, line, after in shown():
        assert prompt(session) == before
        answer(session, line)
        out, err = capsys.readouterr()
        assert out + err == after, line


def test_the_pipe_prints_what_the_page_shows(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (piped,) = (fence for fence in _FENCE.findall(PAGE) if fence.startswith("$ echo"))
    command, _, answer = piped.partition("\n")
    (_, _, line, *_), (_, *arguments) = (shlex.split(part) for part in command.split(" | "))
    monkeypatch.setattr(sys, "stdin", io.StringIO(line))
    assert main(arguments) == 0
    assert capsys.readouterr().out == answer


def test_the_table_of_commands_is_that_of_help() -> None:
    rows = re.findall(r"(?m)^\| `(:[^`]*)` \| (.*) \|$", PAGE)
    assert rows == [(command.form, command.summary) for command in COMMANDS.values()]

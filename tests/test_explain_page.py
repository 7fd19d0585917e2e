"""The page about explain: every command prints the output below it."""

import re
import shlex
from pathlib import Path

import pytest

from tests.cli.conftest import Placet, placet

__all__ = ["placet"]

DOCS = Path(__file__).parents[1] / "docs"
_FENCE = re.compile(r"(?ms)^```console\n\$ (placet [^\n]+)\n(.*?)^```$")
EXAMPLES = _FENCE.findall((DOCS / "explain.md").read_text(encoding="utf-8"))


@pytest.mark.parametrize(("command", "shown"), EXAMPLES, ids=[c for c, _ in EXAMPLES])
def test_a_command_prints_what_the_page_shows(
    placet: Placet, monkeypatch: pytest.MonkeyPatch, command: str, shown: str
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(DOCS / "examples" / "explain")
    done = placet(*shlex.split(command)[1:])
    assert (done.out + done.err).rstrip() == shown.rstrip()


def test_the_page_has_examples_of_every_command() -> None:
    shown = {command.split()[1] for command, _ in EXAMPLES}
    assert shown == {"analyze", "eval", "explain", "schema"}

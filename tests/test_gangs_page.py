"""The page about gangs: every command prints the output below it, and its files are in use."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.cli.conftest import Placet, placet

__all__ = ["placet"]

DOCS = Path(__file__).parents[1] / "docs"
FILES = DOCS / "examples" / "gangs"
PAGE = (DOCS / "gangs.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"(?ms)^```console\n\$ (placet [^\n]+)\n(.*?)^```$", PAGE)


@pytest.mark.parametrize(("command", "shown"), EXAMPLES, ids=[c for c, _ in EXAMPLES])
def test_a_command_prints_what_the_page_shows(
    placet: Placet, monkeypatch: pytest.MonkeyPatch, command: str, shown: str
) -> None:
    monkeypatch.setenv("COLUMNS", "110")
    monkeypatch.chdir(FILES)
    assert placet(*shlex.split(command)[1:]).out.rstrip() == shown.rstrip()


def test_the_files_of_the_page_are_those_of_the_examples(placet: Placet) -> None:
    policy, test = re.findall(r"(?ms)^```\n((?:policy|test) .*?)^```$", PAGE)
    assert (FILES / "training.policy").read_text(encoding="utf-8") == policy
    assert test in (FILES / "training_test.policy").read_text(encoding="utf-8")
    assert placet("test", str(FILES)).code == 0
    assert {command.split()[1] for command, _ in EXAMPLES} == {"explain", "simulate"}

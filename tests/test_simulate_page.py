"""The page about simulate: every command prints the output below it."""

import re
import shlex
import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import Placet, placet
from tests.support import openb

__all__ = ["placet"]

DOCS = Path(__file__).parents[1] / "docs"
PAGE = (DOCS / "simulate.md").read_text(encoding="utf-8")
_FENCE = re.compile(r"(?ms)^```console\n\$ (placet [^\n]+)\n(.*?)^```$")
EXAMPLES = _FENCE.findall(PAGE)
SMALL = [example for example in EXAMPLES if "pack.policy" not in example[0]]
TRACED = [example for example in EXAMPLES if "pack.policy" in example[0]]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the page's files."""
    shutil.copytree(DOCS / "examples" / "simulate", tmp_path, dirs_exist_ok=True)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("command", "shown"), SMALL, ids=[c for c, _ in SMALL])
def test_a_command_prints_what_the_page_shows(placet: Placet, command: str, shown: str) -> None:
    done = placet(*shlex.split(command)[1:])
    assert done.out.rstrip() == shown.rstrip()


@pytest.mark.bench  # the whole trace, twice: too long for every run
@openb.with_trace
def test_the_trace_gives_the_tables_of_the_page(placet: Placet, folder: Path) -> None:
    ((command, shown),) = TRACED
    openb.write(openb.TRACE / openb.NODES, openb.TRACE / openb.PODS, folder)
    done = placet(*shlex.split(command)[1:])
    assert done.out.rstrip() == shown.rstrip()


def test_the_page_shows_the_policies_that_it_compares() -> None:
    pack = DOCS / "examples" / "simulate" / "pack.policy"
    assert f"```\n{pack.read_text(encoding='utf-8')}```\n" in PAGE

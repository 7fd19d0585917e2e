"""The pages for those who come from elsewhere: every command prints the output below it."""

import re
import shlex
from pathlib import Path

import pytest

from tests.cli.conftest import Placet, placet

__all__ = ["placet"]

DOCS = Path(__file__).parents[1] / "docs"
EXAMPLES = DOCS / "examples" / "elsewhere"
PAGES = ("choosing.md", "extension-points.md", "coming-from-extenders.md", "troubleshooting.md")
_FENCE = re.compile(r"(?ms)^```console\n\$ (placet [^\n]+)\n(.*?)^```$")
SHOWN = [
    (page, *shown)
    for page in PAGES
    for shown in _FENCE.findall((DOCS / page).read_text(encoding="utf-8"))
]


@pytest.mark.parametrize(
    ("page", "command", "shown"), SHOWN, ids=[f"{page} {command}" for page, command, _ in SHOWN]
)
def test_a_command_prints_what_the_page_shows(
    placet: Placet, monkeypatch: pytest.MonkeyPatch, page: str, command: str, shown: str
) -> None:
    assert (DOCS / page).exists()
    monkeypatch.setenv("COLUMNS", "110")
    monkeypatch.chdir(EXAMPLES)
    done = placet(*shlex.split(command)[1:])
    assert (done.out + done.err).rstrip() == shown.rstrip()


def test_every_example_is_on_a_page() -> None:
    commands = " ".join(command for _, command, _ in SHOWN)
    assert [file.name for file in EXAMPLES.iterdir() if file.name not in commands] == []


def test_the_readme_leads_to_every_page() -> None:
    readme = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    assert [page for page in PAGES if f"(docs/{page})" not in readme] == []

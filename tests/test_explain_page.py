"""The page about explain: every command prints the output below it."""

import asyncio
import re
import shlex
from pathlib import Path

import pytest

from tests.cli.conftest import Placet, placet
from tests.cli.live import live_example

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


_LIVE = re.compile(r"(?ms)^```console\n\$ kubectl (placet [^\n]+)\n(.*?)^```$")
LIVE = _LIVE.findall((DOCS / "explain.md").read_text(encoding="utf-8"))
# The time of a running cluster is that of the command.
_NOW = re.compile(r"(?<= at )\d{4}-\S+")
SAID = "0/3 nodes are available: 3 Insufficient cpu."


@pytest.mark.parametrize(("command", "shown"), LIVE, ids=[c for c, _ in LIVE])
async def test_a_running_cluster_is_shown_as_on_the_page(
    placet: Placet, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: str, shown: str
) -> None:
    monkeypatch.setenv("COLUMNS", "140")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    async with live_example(tmp_path, DOCS / "examples" / "explain", "policy.yaml", SAID):
        done = await asyncio.to_thread(placet, *shlex.split(command)[1:])
    assert _NOW.sub("…", done.out).rstrip() == _NOW.sub("…", shown).rstrip()


def test_the_page_has_examples_of_every_command() -> None:
    shown = {command.split()[1] for command, _ in EXAMPLES}
    assert shown == {"analyze", "eval", "explain", "schema"}

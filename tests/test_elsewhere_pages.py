"""The pages for those who come from elsewhere: every command prints the output below it."""

from __future__ import annotations

import asyncio
import re
import shlex
from pathlib import Path

import pytest

from engine.decision.journal import Journal
from tests.cli.conftest import Placet, placet
from tests.cli.live import live_example
from tests.support.kubeconfig import kubeconfig
from tests.support.view_server import Parts, running

__all__ = ["placet"]

DOCS = Path(__file__).parents[1] / "docs"
EXAMPLES = DOCS / "examples" / "elsewhere"
PAGES = ("choosing.md", "extension-points.md", "coming-from-extenders.md", "troubleshooting.md")
WITH_TESTS = ("coming-from-tas.md", "coming-from-trimaran.md", "coming-from-topolvm.md")
_FENCE = re.compile(r"(?ms)^```console\n\$ (kubectl placet [^\n]+|placet [^\n]+)\n(.*?)^```$")
SHOWN = [
    (page, *shown)
    for page in PAGES
    for shown in _FENCE.findall((DOCS / page).read_text(encoding="utf-8"))
]
SAID = (
    "0/3 nodes are available: 1 policy shop: spot nodes are not for web pods, 2 Insufficient cpu."
)


@pytest.mark.parametrize(
    ("page", "command", "shown"), SHOWN, ids=[f"{page} {command}" for page, command, _ in SHOWN]
)
async def test_a_command_prints_what_the_page_shows(
    placet: Placet,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    page: str,
    command: str,
    shown: str,
) -> None:
    assert (DOCS / page).exists()
    monkeypatch.setenv("COLUMNS", "110")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    monkeypatch.chdir(EXAMPLES)
    words = shlex.split(command.removeprefix("kubectl "))[1:]
    if command.startswith("kubectl"):
        # The first line on standard error names the context.
        async with live_example(tmp_path, EXAMPLES, "shop.yaml", SAID):
            printed = (await asyncio.to_thread(placet, *words)).out
    elif words[0] == "decisions":
        with running(Parts(Journal())) as found:
            kubeconfig(tmp_path / "config", found.api_url, {"token": "t"})
            done = await asyncio.to_thread(placet, *words)
            printed = done.out + done.err
    else:
        done = await asyncio.to_thread(placet, *words)
        printed = done.out + done.err
    assert printed.rstrip() == shown.rstrip()


def test_every_example_is_on_a_page() -> None:
    commands = " ".join(command for _, command, _ in SHOWN)
    # tests/e2e applies them.
    live = {"shop.yaml", "fast.yaml"}
    names = {file.name for file in EXAMPLES.iterdir()}
    assert [name for name in names - live if name not in commands] == []


@pytest.mark.parametrize("page", WITH_TESTS)
async def test_policies_of_a_page_pass_their_tests(
    placet: Placet, tmp_path: Path, page: str
) -> None:
    """Each fence is a file, with its tests."""
    texts = re.findall(r"(?ms)^```placet\n(.*?)^```$", (DOCS / page).read_text(encoding="utf-8"))
    for number, text in enumerate(texts):
        file = tmp_path / f"{number}.policy"
        file.write_text(text, encoding="utf-8")
        done = await asyncio.to_thread(placet, "test", str(file))
        assert done.code == 0, done.out
        assert "1 passed" in done.out
    assert texts


def test_percentages_of_small_workloads() -> None:
    """How many of N pods go on the selected nodes with 40 %, there and here."""
    page = (DOCS / "coming-from-extenders.md").read_text(encoding="utf-8")
    rows = re.findall(r"(?m)^\| (\d+) \| (\d+) \| (\d+) \| (\d+) \|$", page)
    shares = [(n, 40 * n // 100, -(-40 * n // 100)) for n in range(1, 11)]
    expected = [(n, down, n - down, n - up) for n, down, up in shares]
    assert [tuple(map(int, row)) for row in rows] == expected

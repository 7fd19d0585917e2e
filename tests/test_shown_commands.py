"""Shown commands: every command of a page prints the output below it.

Other tests play the pages that are followed from the first line to the last one, such as the
tutorial, and those that need running servers.
"""

from __future__ import annotations

import asyncio
import re
import shlex
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from engine.decision.journal import Journal
from tests.cli.conftest import Placet, placet
from tests.cli.live import live_example
from tests.support import openb
from tests.support.kubeconfig import kubeconfig
from tests.support.view_server import Parts, running

__all__ = ["placet"]

DOCS = Path(__file__).parents[1] / "docs"
EXAMPLES = DOCS / "examples"
_FENCE = re.compile(r"(?ms)^```console\n\$ (kubectl placet [^\n]+|placet [^\n]+)\n(.*?)^```$")
# The time of a running cluster is that of the command.
_NOW = re.compile(r"(?<= at )\d{4}-\S+")
# The whole trace, twice: too long for every run.
_OF_TRACE = "pack.policy"


@dataclass(frozen=True, slots=True)
class World:
    """The folder in which a page's commands run, and the cluster that kubectl's plugin asks."""

    folder: str
    columns: int = 110
    # Its policy, and what kube-scheduler says of its pending pod.
    policy: str = ""
    said: str = ""


ELSEWHERE = World(
    "elsewhere",
    policy="shop.yaml",
    said="0/3 nodes are available: 1 policy shop: spot nodes are not for web pods, 2 Insufficient"
    " cpu.",
)
SCARCE = "0/3 nodes are available: 3 Insufficient cpu."
PAGES: Mapping[str, World] = {
    "choosing.md": ELSEWHERE,
    "coming-from.md": ELSEWHERE,
    "explain.md": World("explain", 100, "policy.yaml", SCARCE),
    "extension-points.md": ELSEWHERE,
    "gangs.md": World("gangs"),
    "gitops.md": ELSEWHERE,
    "kind.md": World(
        "kind",
        policy="policy.yaml",
        said="0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 policy web-on-spot:"
        " web runs on spot nodes only.",
    ),
    "simulate.md": World("simulate", 100),
    "troubleshooting.md": ELSEWHERE,
}


def text(page: str) -> str:
    return (DOCS / page).read_text(encoding="utf-8")


ALL = [(page, *shown) for page in PAGES for shown in _FENCE.findall(text(page))]
SHOWN = [each for each in ALL if _OF_TRACE not in each[1]]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the examples, and a kubeconfig `config` that a test may write."""
    shutil.copytree(EXAMPLES, tmp_path, dirs_exist_ok=True)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    return tmp_path


@pytest.mark.parametrize(("page", "command", "shown"), SHOWN, ids=[f"{p} {c}" for p, c, _ in SHOWN])
async def test_a_command_prints_what_the_page_shows(
    placet: Placet,
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
    page: str,
    command: str,
    shown: str,
) -> None:
    world = PAGES[page]
    is_live = command.startswith("kubectl")
    monkeypatch.setenv("COLUMNS", str(140 if is_live and page == "explain.md" else world.columns))
    monkeypatch.chdir(folder / world.folder)
    words = shlex.split(command.removeprefix("kubectl "))[1:]
    if is_live:
        # The first line on standard error names the context.
        async with live_example(folder, EXAMPLES / world.folder, world.policy, world.said):
            printed = (await asyncio.to_thread(placet, *words)).out
    elif words[0] == "decisions":
        with running(Parts(Journal())) as found:
            kubeconfig(folder / "config", found.api_url, {"token": "t"})
            done = await asyncio.to_thread(placet, *words)
            printed = done.out + done.err
    else:
        done = await asyncio.to_thread(placet, *words)
        printed = done.out + done.err
    assert _NOW.sub("…", printed).rstrip() == _NOW.sub("…", shown).rstrip()


@pytest.mark.bench
@openb.with_trace
def test_the_trace_gives_the_tables_of_the_page(
    placet: Placet, monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    ((page, command, shown),) = (each for each in ALL if each not in SHOWN)
    monkeypatch.setenv("COLUMNS", str(PAGES[page].columns))
    monkeypatch.chdir(folder / PAGES[page].folder)
    openb.write(openb.TRACE / openb.NODES, openb.TRACE / openb.PODS, Path.cwd())
    assert placet(*shlex.split(command)[1:]).out.rstrip() == shown.rstrip()


@pytest.mark.parametrize(
    ("page", "commands"),
    [
        ("explain.md", {"eval", "explain", "schema"}),
        ("gangs.md", {"explain", "simulate"}),
    ],
)
def test_the_page_has_examples_of_every_command(page: str, commands: set[str]) -> None:
    shown = {
        command.split()[1] for of, command, _ in SHOWN if of == page and "kubectl" not in command
    }
    assert shown == commands


def test_every_example_is_on_a_page() -> None:
    commands = " ".join(command for _, command, _ in SHOWN)
    # tests/e2e applies them.
    live = {"shop.yaml", "fast.yaml"}
    names = {file.name for file in (EXAMPLES / "elsewhere").iterdir()}
    assert [name for name in names - live if name not in commands] == []


def test_the_page_about_simulate_shows_the_policies_that_it_compares() -> None:
    pack = (EXAMPLES / "simulate" / _OF_TRACE).read_text(encoding="utf-8")
    assert f"```\n{pack}```\n" in text("simulate.md")


def test_the_files_of_the_page_about_gangs_are_those_of_the_examples(placet: Placet) -> None:
    files = EXAMPLES / "gangs"
    found = re.findall(r"(?ms)^```\n((?:policy|test) .*?)^```$", text("gangs.md"))
    policy, test, workloads = found
    assert (EXAMPLES / "workloads" / "workloads.policy").read_text(encoding="utf-8") == workloads
    assert (files / "training.policy").read_text(encoding="utf-8") == policy
    assert test in (files / "training_test.policy").read_text(encoding="utf-8")
    assert placet("test", str(files)).code == 0


def test_policies_of_other_systems_pass_their_tests(placet: Placet) -> None:
    """Each file of the folder is linked by the page, and is a policy of its own."""
    files = sorted((EXAMPLES / "coming-from").iterdir())
    assert len(files) == 5
    for file in files:
        assert f"](examples/coming-from/{file.name})" in text("coming-from.md")
        done = placet("test" if "test " in file.read_text("utf-8") else "check", str(file))
        assert done.code == 0, done.out
        assert "1 passed" in done.out or "test " not in file.read_text("utf-8")


def test_percentages_of_small_workloads() -> None:
    """How many of N pods go on the selected nodes with 40 %, there and here."""
    rows = re.findall(r"(?m)^\| (\d+) \| (\d+) \| (\d+) \| (\d+) \|$", text("policy-api.md"))
    shares = [(n, 40 * n // 100, -(-40 * n // 100)) for n in range(1, 11)]
    expected = [(n, down, n - down, n - up) for n, down, up in shares]
    assert [tuple(map(int, row)) for row in rows] == expected

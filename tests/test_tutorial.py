"""The tutorial: its files are written, its commands run in order and print what it shows."""

import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from cli.commands import COMMANDS
from tests.cli.conftest import Placet, placet
from tests.cli.test_serve import Server, serving

__all__ = ["placet"]

DOCS = Path(__file__).parents[1] / "docs"
PAGE = (DOCS / "tutorial.md").read_text(encoding="utf-8")
EXAMPLES = DOCS / "examples" / "tutorial"
ADDRESS = "http://127.0.0.1:12345"
VIEW = "http://127.0.0.1:12346"
# A file with its name above it, or a command with its output.
_STEP = re.compile(r"(?ms)^`(\w+\.policy)`\n\n```\n(.*?)^```$|^```console\n\$ (.*?)\n(.*?)^```$")
# Values that differ in each run.
_TIMES = re.compile(r"(?<=in )\d+\.\d\ds|(?<=asked about at )\S+|^.* µs a pod\n", re.MULTILINE)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that the page tells its reader to copy."""
    for file in (*EXAMPLES.glob("*.yaml"), *EXAMPLES.glob("*.json")):
        shutil.copy(file, tmp_path)
    monkeypatch.setenv("COLUMNS", "110")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def servers() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def steps() -> Iterator[tuple[str, str]]:
    """Yield a file's name and text, or a command after `$ ` and its output."""
    for name, text, command, output in _STEP.findall(PAGE):
        yield (name, text) if name else (f"$ {command}", output)


@pytest.mark.process
@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl to follow the page with")
def test_the_tutorial_can_be_followed(placet: Placet, folder: Path, servers: ExitStack) -> None:
    server: Server | None = None
    for first, second in steps():
        if not first.startswith("$ "):
            (folder / first).write_text(second, encoding="utf-8")
        elif first.endswith(" &"):
            words = shlex.split(first.removeprefix("$ placet serve ").removesuffix(" &"))
            server = servers.enter_context(serving(folder, *words))
        elif first == "$ kill %1":
            assert server is not None
            servers.close()
        else:
            here = server.url if server is not None else ADDRESS
            command = first.removeprefix("$ ").replace(ADDRESS, here)
            command = command.replace(VIEW, server.view if server is not None else VIEW)
            said = run(placet, command).replace(here, ADDRESS)
            assert _TIMES.sub("", said).rstrip() == _TIMES.sub("", second).rstrip(), first


def run(placet: Placet, command: str) -> str:
    """The output of a command of the page: curl, placet, or placet behind a pipe."""
    piped, _, last = command.rpartition(" | ")
    words = shlex.split(last)
    if words[0] == "curl":
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout
    done = placet(*words[1:], stdin=shlex.split(piped)[1] if piped else "")
    return done.out + done.err


def test_what_runs_until_ctrl_c_is_alone_in_its_block() -> None:
    """Pasted lines after it would be lost."""
    (block,) = (b for b in re.findall(r"(?ms)^```sh\n(.*?)^```$", PAGE) if "make demo" in b)
    assert block == "make demo\n"


def test_set_up_says_that_it_takes_a_while() -> None:
    """Before the first command, which is silent for a minute."""
    makefile = (DOCS.parent / "Makefile").read_text(encoding="utf-8")
    recipe = makefile.partition("\n.venv/stamp:")[2].partition("\n")[2]
    assert recipe.startswith('\t@echo "setting up')


def test_the_files_beside_the_tutorial_are_what_it_ends_with() -> None:
    last = {name: text for name, text in steps() if not name.startswith("$ ")}
    assert last == {f.name: f.read_text(encoding="utf-8") for f in EXAMPLES.glob("*.policy")}


def test_the_policies_of_the_tutorial_are_laid_out_as_fmt_would(placet: Placet) -> None:
    done = placet("fmt", "--check", str(EXAMPLES))
    assert (done.code, done.out) == (0, "")


def test_the_tutorial_leads_past_the_commands_that_a_newcomer_needs() -> None:
    shown = set(re.findall(r"\bplacet ([a-z-]+)", " ".join(c for c, _ in steps())))
    wanted = "eval schema repl check explain test simulate serve decisions scheduler-config".split()
    assert shown == set(wanted) <= set(COMMANDS)

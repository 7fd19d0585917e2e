"""`placet completion`: its scripts, asked by the shells that are here what they would complete."""

import asyncio
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cli.main import COMMANDS
from tests.cli.conftest import Placet
from tests.cli.live import live_shop

# The folder of `placet`, which the scripts ask.
PROGRAMS = Path(sys.executable).parent
LINES = [
    ("placet ex", {"explain"}),
    ("kubectl-placet ex", {"explain"}),
    ("placet explain --dec", {"--decision"}),
    ("placet check --output g", {"github"}),
    ("placet check a", {"a.policy"}),
    ("placet check --strict a.policy b", {"b.policy"}),
    ("placet explain shop/web-1 --cluster c", {"cluster.json"}),
    ("placet scheduler-config --ca c", {"cluster.json"}),
    ("placet serve --data-folder p", {"policies"}),
    ("placet completion f", {"fish"}),
]


@pytest.fixture(autouse=True)
def files(folder: Path) -> None:
    for name in ("a.policy", "b.policy", "cluster.json", "plain.txt"):
        (folder / name).touch()
    (folder / "policies").mkdir()


def shell(program: str, script: str, folder: Path) -> str:
    """What a shell prints that reads no files of its user's."""
    if shutil.which(program) is None:
        pytest.skip(f"there is no {program}")
    flags = {"bash": ["--norc"], "zsh": ["-f"], "fish": ["--no-config"]}[program]
    done = subprocess.run(
        [program, *flags, "-c", script],
        cwd=folder,
        env={**os.environ, "PATH": f"{PROGRAMS}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.process
@pytest.mark.parametrize(("line", "completed"), LINES, ids=[line for line, _ in LINES])
def test_bash_completes(placet: Placet, folder: Path, line: str, completed: set[str]) -> None:
    words = shlex.split(line)
    registered = f"complete -p {words[0]} | grep -o -- '-F [a-z_]*'"
    ask = f"""
        COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}
        complete_with=$({registered}); ${{complete_with#-F }} {words[0]} {words[-1]} {words[-2]}
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    out = shell("bash", placet("completion", "bash").out + ask, folder)
    assert set(out.split()) == completed


@pytest.mark.process
def test_bash_knows_every_command(placet: Placet, folder: Path) -> None:
    ask = "COMP_WORDS=(placet ''); COMP_CWORD=1; _placet placet '' placet; "
    ask += 'printf "%s\\n" "${COMPREPLY[@]}"'
    out = shell("bash", placet("completion", "bash").out + ask, folder)
    assert out.split() == [*COMMANDS]


@pytest.mark.process
@pytest.mark.parametrize(("line", "completed"), LINES, ids=[line for line, _ in LINES])
def test_fish_completes(placet: Placet, folder: Path, line: str, completed: set[str]) -> None:
    script = placet("completion", "fish").out + f"complete -C {shlex.quote(line)}\n"
    out = shell("fish", script, folder)
    assert {row.partition("\t")[0].rstrip("/") for row in out.splitlines()} == completed


@pytest.mark.process
def test_zsh_takes_the_script(placet: Placet, folder: Path) -> None:
    (folder / "script").write_text(placet("completion", "zsh").out, encoding="utf-8")
    ask = 'autoload -U compinit; compinit -D -u; eval "$(cat script)"; '
    ask += "print $_comps[placet] $_comps[kubectl-placet]"
    assert shell("zsh", ask, folder).split() == ["_placet", "_placet"]


def test_a_shell_that_is_not_known_is_wrong_usage(placet: Placet) -> None:
    done = placet("completion", "tcsh")
    assert (done.code, done.out) == (2, "")
    assert "invalid choice: 'tcsh'" in done.err


KUBECTL = [
    ("ex", {"explain"}, 4),
    ("--v", {"--version"}, 4),
    ("explain --dec", {"--decision"}, 4),
    ("explain --output=j", {"--output=json"}, 4),
    ("explain -o j", {"json"}, 4),
    ("check --output g", {"github"}, 4),
    ("check a", set(), 0),
    ("check --strict a.policy b", set(), 0),
    ("serve --policies a.policy b", set(), 0),
    ("explain shop/web-1 --cluster c", set(), 0),
    ("serve --data-folder p", set(), 16),
    ("completion f", {"fish"}, 4),
    ("completion fish x", set(), 4),
    ("explian x", set(), 4),
]


def answered(out: str) -> tuple[set[str], int]:
    """The candidates without their descriptions, and the number in the last line."""
    *rows, directive = out.splitlines()
    assert directive.startswith(":")
    return {row.partition("\t")[0] for row in rows}, int(directive[1:])


@pytest.mark.parametrize(
    ("line", "completed", "directive"), KUBECTL, ids=[line for line, *_ in KUBECTL]
)
def test_kubectl_is_told_candidates_and_what_to_do_beside(
    placet: Placet, line: str, completed: set[str], directive: int
) -> None:
    done = placet("completion", "--words", *shlex.split(line))
    assert (done.code, done.err) == (0, "")
    assert answered(done.out) == (completed, directive)


@pytest.mark.parametrize("words", [[""], []], ids=["empty word", "no word"])
def test_kubectl_is_told_every_command(placet: Placet, words: list[str]) -> None:
    done = placet("completion", "--words", *words)
    assert answered(done.out) == ({*COMMANDS}, 4)


NAMES = [
    ("placet explain we", {"web-1", "web-2"}),
    ("placet explain -n far we", {"web-1"}),
    ("placet explain -A far/d", {"far/db-0"}),
    ("placet explain web-1 n-", {"n-1", "n-2", "n-3", "n-4"}),
    ("placet explain --context t", {"test"}),
    ("placet eval --node n-", {"n-1", "n-2", "n-3", "n-4"}),
]


@pytest.mark.parametrize(("line", "completed"), NAMES, ids=[line for line, _ in NAMES])
async def test_names_are_those_of_the_cluster(
    placet: Placet, folder: Path, monkeypatch: pytest.MonkeyPatch, line: str, completed: set[str]
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(folder / "config"))
    words = shlex.split(line)[1:]
    async with live_shop(folder):
        done = await asyncio.to_thread(placet, "completion", "--words", *words)
    assert answered(done.out) == (completed, 4)


def test_what_cannot_be_read_completes_to_nothing(
    placet: Placet, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(folder / "absent"))
    for line in (["explain", ""], ["explain", "--context", ""]):
        done = placet("completion", "--words", *line)
        assert (done.code, done.out) == (0, ":4\n")

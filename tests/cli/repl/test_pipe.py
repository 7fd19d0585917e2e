"""`placet repl` in a pipe: no prompts, answers as they come, and an exit code for scripts."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli import shop
from tests.cli.conftest import Placet

ROOT = Path(__file__).parents[3]


def piped(folder: Path, text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    shop.write(folder)
    return subprocess.run(
        [sys.executable, "-m", "cli", "repl", *arguments],
        input=text,
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={"PYTHONPATH": str(ROOT), "HOME": str(folder), "TERM": "dumb"},
        timeout=60,
    )


@pytest.mark.process
def test_an_expression_prints_its_values_and_nothing_else(tmp_path: Path) -> None:
    done = piped(tmp_path, "node.free.cpu\n", "--cluster", "cluster.json")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "node  value : quantity\nn-1   4\nn-2   1\nn-3   4\nn-4   3\n"
    assert not (tmp_path / ".local").exists()


def test_an_unfinished_line_continues(placet: Placet) -> None:
    lines = 'filter "f" {\n\n  require node.ready\n}\n1 +\n2\n\n# done\n:policy\n4'
    done = placet("repl", stdin=lines)
    assert done.out == (
        'added filter "f"\n3 : int\n'
        'cluster policy session {\n  filter "f" { require node.ready }\n}\n4 : int\n'
    )
    assert (done.code, done.err) == (0, "")


def test_a_line_that_fails_does_not_stop_the_others(placet: Placet) -> None:
    done = placet("repl", stdin="1 +* 2\n3\n")
    assert (done.code, done.out) == (1, "3 : int\n")
    assert done.err.startswith("error[P0001]: `*` is not allowed here\n --> expression:1:4\n")


def test_a_text_without_an_end_is_an_error_at_the_end_of_input(placet: Placet) -> None:
    done = placet("repl", stdin="(1 + 2\n3\n")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("error[P0001]: ")


def test_lines_after_quit_are_not_read(placet: Placet) -> None:
    done = placet("repl", stdin="1\n:quit\n2\n")
    assert (done.code, done.out) == (0, "1 : int\n")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["nowhere.policy"], "error: `nowhere.policy` does not exist\n"),
        (["bad.policy"], "error[P0102]: Node has no field `x`\n"),
        (["--cluster", "nowhere.json"], "error: cannot read `nowhere.json`"),
        (["--cluster", "bad.policy"], "error: `bad.policy` is not a cluster file"),
        (["--kubeconfig", "nowhere"], "error: there is no kubeconfig `nowhere`"),
    ],
    ids=["no policy", "mistakes", "no snapshot", "not a snapshot", "no kubeconfig"],
)
def test_an_unreadable_file_is_an_error_before_the_first_line(
    placet: Placet, folder: Path, arguments: list[str], error: str
) -> None:
    (folder / "bad.policy").write_text('cluster policy a { filter "a" { require node.x } }')
    done = placet("repl", *arguments, stdin="1\n")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(error)

"""The standard streams of `placet`: closed, full, or in another encoding; and an early Ctrl-C."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[2]
# Sends SIGINT to itself as a module begins to be imported, as Ctrl-C could.
INTERRUPTED = """
import os, signal, sys
module = sys.argv.pop(1)
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == module:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupting())
from cli.__main__ import main
sys.exit(main())
"""
FULL = "cannot write to standard output: no space left on device"
CLOSED = "cannot write to standard output: it is closed"
OF_ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


def shell(line: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs a line of a shell in which `$placet` is the command."""
    known = {"placet": f"{sys.executable} -m cli", "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        ["/bin/bash", "-c", line],
        capture_output=True,
        encoding="utf-8",
        env=os.environ | known | environment,
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize("arguments", ["--help", "crds", "check ."])
@pytest.mark.parametrize(("to", "why"), [(">/dev/full", FULL), (">&-", CLOSED)])
@pytest.mark.usefixtures("policy")
def test_output_that_cannot_be_written_is_one_clear_error(
    arguments: str, to: str, why: str
) -> None:
    done = shell(f"$placet {arguments} {to}")
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {why}\n  = help: ")
    assert done.stderr.count("\n") == 2


@pytest.mark.parametrize("to", ["2>/dev/full", "2>&-"])
@pytest.mark.usefixtures("policy")
def test_messages_that_nobody_can_read_change_nothing_else(to: str) -> None:
    assert shell(f"$placet frob {to}").returncode == 2
    done = shell(f"$placet check -o plain . {to}")
    assert done.returncode == 1
    assert "error[P0140]" in done.stdout


def test_nothing_can_be_written_anywhere() -> None:
    assert shell("$placet crds >&- 2>&- <&-").returncode == 2


@pytest.mark.parametrize("arguments", ["--help", "crds"])
def test_a_reader_that_has_enough_is_no_error(arguments: str) -> None:
    done = shell(f"$placet {arguments} | head -c 1; exit ${{PIPESTATUS[0]}}")
    assert (done.returncode, done.stderr) == (0, "")


def test_every_locale_writes_and_reads_the_same(folder: Path) -> None:
    """Texts, arguments and names of files beyond ASCII, and a name that is not UTF-8."""
    (folder / "é.policy").write_text('policy a { let x = "é"\n', encoding="utf-8")
    Path(os.fsdecode(b"\xff.policy")).write_text("policy b {\n", encoding="utf-8")
    line = "$placet check é.policy .; $placet eval \"'é'\"; echo 'let é' | $placet fmt -"
    usual = shell(line)
    assert "é" in usual.stdout
    assert "Traceback" not in usual.stderr
    of_streams = {"PYTHONIOENCODING": "ascii"}
    for environment in (OF_ASCII, of_streams, OF_ASCII | of_streams):
        done = shell(line, **environment)
        assert (done.stdout, done.stderr) == (usual.stdout, usual.stderr), environment


@pytest.mark.parametrize("module", ["cli.main", "cli.commands", "cli.commands.serve", "numpy"])
def test_ctrl_c_during_the_start_ends_without_a_word(module: str) -> None:
    """As another program that is interrupted: shells show 130."""
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, module, "serve", "--demo"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


@pytest.fixture
def policy(folder: Path) -> None:
    (folder / "a.policy").write_text("policy a {\n", encoding="utf-8")

"""Runs commands in this process, as `placet` would."""

import io
import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import pytest

from cli.main import main
from tests.support.pseudo_terminal import default_ports_taken


@dataclass(frozen=True)
class Outcome:
    """How a command ended."""

    code: int
    out: str
    err: str


Placet = Callable[..., Outcome]


@pytest.fixture(autouse=True)
def without_kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test asks the cluster of whoever runs the tests."""
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "no-kubeconfig"))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in, so that paths in output are short ones."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def placet(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Placet:
    """Run a command; `stdin` is what it may read. A server must not need the default ports."""

    def run(*arguments: str, stdin: str = "") -> Outcome:
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        ports = default_ports_taken() if arguments[:1] == ("serve",) else nullcontext()
        try:
            with ports:
                code = main(arguments)
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        return Outcome(code, *capsys.readouterr())

    return run

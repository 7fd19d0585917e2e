"""A session about the shop's cluster, and its answers."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from cli.repl.conversation import ReplSession, answer
from tests.cli import shop
from tests.cli.conftest import folder, placet

__all__ = ["folder", "load", "placet", "say", "session", "web"]


def load(session: ReplSession, *files: str) -> None:
    """Gives the session these policy files."""
    session.files = [Path(file) for file in files]
    session.reload()


@dataclass(frozen=True)
class Said:
    """The text on standard output and standard error, and whether the line failed."""

    out: str
    err: str
    failed: bool


Say = Callable[[str], Said]


@pytest.fixture
def session(folder: Path, monkeypatch: pytest.MonkeyPatch) -> ReplSession:
    """Four nodes and four pods; no policies, no pod and no node chosen."""
    monkeypatch.setenv("COLUMNS", "96")
    shop.write(folder)
    made = ReplSession((), shop.snapshot("cluster.json"))
    made.reload()
    return made


@pytest.fixture
def say(session: ReplSession, capsys: pytest.CaptureFixture[str]) -> Say:
    def said(text: str) -> Said:
        ok = answer(session, text)
        return Said(*capsys.readouterr(), not ok)

    return said


@pytest.fixture
def web(session: ReplSession, say: Say) -> Say:
    """The shop's policies are loaded, and its pending pod is chosen."""
    load(session, "shop.policy")
    say(":pod shop/web-1")
    return say

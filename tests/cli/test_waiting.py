"""The line about a server that does not answer: on a terminal, after two seconds, until the end."""

import io
import os
import socket
import sys
import time
from pathlib import Path

import pytest

from cli.streams import PassingLine
from tests.support.kubeconfig import kubeconfig
from tests.support.pseudo_terminal import CTRL_C, terminal

ROOT = Path(__file__).parents[2]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(monkeypatch: pytest.MonkeyPatch, seconds: float) -> Terminal:
    """What is on a terminal that is not dumb; lines come after so many seconds."""
    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("cli.streams._PATIENCE_SECONDS", seconds)
    return stream


def test_what_is_short_has_no_line(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = shown(monkeypatch, 60.0)
    with PassingLine("waiting"):
        pass
    assert not stream.getvalue()


def test_the_line_goes_with_what_it_is_about(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has one row, whatever the text is."""
    stream = shown(monkeypatch, 0.01)
    monkeypatch.setenv("COLUMNS", "20")
    deadline = time.monotonic() + 10
    with PassingLine("waiting for\x1b[0m a long time") as line:
        while "waiting" not in stream.getvalue() and time.monotonic() < deadline:
            time.sleep(0.01)
        line.show("pods: 1,000 …")
    assert stream.getvalue().split("\r") == [
        "",
        "waiting for\\x1b[0m…\x1b[K",
        "pods: 1,000 …\x1b[K",
        "\x1b[K",
    ]


@pytest.mark.parametrize(("is_terminal", "kind"), [(False, "xterm"), (True, "dumb")])
def test_elsewhere_there_is_no_line(
    monkeypatch: pytest.MonkeyPatch, kind: str, *, is_terminal: bool
) -> None:
    stream = Terminal() if is_terminal else io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setenv("TERM", kind)
    with PassingLine("waiting") as line:
        line.show("pods: 1,000 …")
    assert not stream.getvalue()


@pytest.mark.process
@pytest.mark.parametrize(
    ("command", "seconds"),
    [
        ("status --url {0}", 10),
        ("decisions --url {0}", 10),
        ("audit --url {0}", 10),
        ("drift --kubeconfig config", 30),
        ("doctor --kubeconfig config", 60),
        ("explain shop/a --kubeconfig config", 60),
        ("doctor --probe --url {} scheduler.yaml", 7),
    ],
)
def test_every_command_says_whom_it_waits_for(tmp_path: Path, command: str, seconds: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        kubeconfig(tmp_path / "config", url, {"token": "t"})
        (tmp_path / "scheduler.yaml").write_text(SCHEDULER.format(url), encoding="utf-8")
        words = [sys.executable, "-m", "cli", *command.format(url).split()]
        environment = os.environ | {"PYTHONPATH": str(ROOT), "TERM": "xterm"}
        with terminal(words, tmp_path, environment) as shown:
            shown.expect(rf"waiting for {url} \({seconds} s at most\)")
            shown.type(CTRL_C)
            assert shown.ends() == 130
            assert shown.raw.endswith(b"\r\x1b[K")


@pytest.mark.process
def test_a_check_says_what_it_waits_for(tmp_path: Path) -> None:
    """A pipe that is named is read, and may have no writer yet."""
    os.mkfifo(tmp_path / "a.policy")
    words = [sys.executable, "-m", "cli", "check", "a.policy"]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "TERM": "xterm"}
    with terminal(words, tmp_path, environment) as shown:
        shown.expect("reading a.policy")
        (tmp_path / "a.policy").write_text("cluster policy a {}", encoding="utf-8")
        shown.expect("1 policy in 1 file: no problems found")
        assert shown.ends() == 0


SCHEDULER = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
extenders:
- {{urlPrefix: "{0}", filterVerb: filter, httpTimeout: 7s, nodeCacheCapable: true}}
"""

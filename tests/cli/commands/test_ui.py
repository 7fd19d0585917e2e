"""`placet ui`: whose page is shown, at which address, and who may see it."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urljoin

import pytest

from engine.decision.journal import Journal
from tests.cli.conftest import Placet
from tests.support.kubeconfig import kubeconfig
from tests.support.view_server import ForwardingApi, Parts, running

_ADDRESS = re.compile(
    r"the view of replica (\S+): (http://127\.0\.0\.1:\d+/ui/)(?:\?replicas=(\S+))?"
)


@contextmanager
def showing(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A running `placet ui --no-browser`, which Ctrl-C ends."""
    command = [sys.executable, "-m", "cli", "ui", "--no-browser", *arguments]
    with subprocess.Popen(command, text=True, stdout=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == 130


def fetched(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=30) as response:  # noqa: S310 - on loopback
        content: bytes = response.read()
        return content


@pytest.mark.process
def test_the_page_of_a_replica_is_at_a_port_of_this_machine(tmp_path: Path) -> None:
    with running(Parts(Journal()), Parts(Journal(), "placet-1")) as found:
        file = kubeconfig(tmp_path / "kubeconfig", found.api_url, {"token": "t"})
        with showing("--kubeconfig", str(file)) as process:
            assert process.stdout is not None
            first, second = process.stdout.readline(), process.stdout.readline()
            match = _ADDRESS.match(first)
            assert match
            assert match[1] == "placet-0"
            assert second == "choose another on the page, or by --replica: placet-1\n"
            names = dict(each.split(":") for each in match[3].split(","))
            assert [*names] == ["placet-0", "placet-1"]
            other = f"http://127.0.0.1:{names['placet-1']}/api/v1/status"
            assert b'"replica":"placet-1"' in fetched(other)
            assert b"<title>Placet</title>" in fetched(match[2])
            assert b'"replica":"placet-0"' in fetched(urljoin(match[2], "../api/v1/status"))


@pytest.mark.process
def test_a_replica_is_chosen(tmp_path: Path) -> None:
    with running(Parts(Journal()), Parts(Journal(), "placet-1")) as found:
        file = kubeconfig(tmp_path / "kubeconfig", found.api_url, {"token": "t"})
        with showing("--kubeconfig", str(file), "--replica", "placet-1") as process:
            assert process.stdout is not None
            assert process.stdout.readline().startswith("the view of replica placet-1: ")
            assert process.stdout.readline() == "Ctrl-C ends it\n"


def test_a_server_on_this_machine_needs_no_forwarding(placet: Placet) -> None:
    with running(Parts(Journal())) as found:
        url = found.urls[0]
        shown = placet("ui", "--no-browser", "--url", url)
    assert shown.out == f"the view of replica placet-0: {url}/ui/\n"


def test_who_may_not_forward_a_port_sees_nothing(placet: Placet, tmp_path: Path) -> None:
    api = ForwardingApi({}, forbids=True)
    with running(Parts(Journal()), api=api) as found:
        file = kubeconfig(tmp_path / "kubeconfig", found.api_url, {"token": "t"})
        shown = placet("ui", "--no-browser", "--kubeconfig", str(file))
    assert shown.code == 2
    assert "you may not forward a port of pod `placet-0`" in shown.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--url", "http://127.0.0.1:1", "--local-port", "8080"], "has no effect with --url"),
        (["--local-port", "0"], "`0` is not a port"),
    ],
)
def test_misuse_is_an_error(placet: Placet, arguments: list[str], message: str) -> None:
    shown = placet("ui", "--no-browser", *arguments)
    assert shown.code == 2
    assert message in shown.err

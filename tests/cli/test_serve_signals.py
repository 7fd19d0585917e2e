"""`placet serve` as a process: its signals, its standard streams, and who reads its log."""

import fcntl
import json
import os
import re
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack, closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_serve import (
    BARE,
    BY_NAME,
    NODES,
    ROOT,
    SECONDS,
    Server,
    disk,
    post,
    serving,
    until,
)
from tests.cli.test_serve_checks import REVIEW
from tests.cli.test_serve_end import ASIDE, get
from tests.support.builders import pod
from tests.support.pseudo_terminal import default_ports_taken, hung_mount, terminal

pytestmark = pytest.mark.process

ANY_PORT = ("--listen", "127.0.0.1:0", "--lameduck", "0s")


def is_logged(server: Server, text: str) -> bool:
    return text in server.err.read_text("utf-8")


def test_a_terminal_that_is_closed_ends_the_server(folder: Path) -> None:
    """In its own way, as Ctrl-C does."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = (sys.executable, "-m", "cli", "serve", "--demo", *ANY_PORT)
    with default_ports_taken(), terminal(command, folder, environment) as shown:
        shown.expect("Ctrl-C stops it")
        shown.send(signal.SIGHUP)
        assert shown.ends() == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_start_can_be_ended(folder: Path, number: signal.Signals) -> None:
    """Here while it waits for a cluster that does not answer."""
    log = folder / "log"
    command = [sys.executable, "-m", "cli", "serve", "--tls-secret", "a/b", "--tls-name", "c"]
    (folder / "kubeconfig").write_text(KUBECONFIG, encoding="utf-8")
    with log.open("wb") as err:
        process = subprocess.Popen(
            [*command, "--kubeconfig", "kubeconfig", *ANY_PORT],
            cwd=folder,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            stderr=err,
        )
    try:
        with default_ports_taken():
            until(lambda: "watching the cluster" in log.read_text("utf-8"))
            process.send_signal(number)
            assert process.wait(SECONDS) == 130
    finally:
        process.kill()
    told = log.read_text("utf-8")
    assert told.endswith("stopped before it served\n")
    assert "Traceback" not in told


# Nobody listens there.
KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: a
contexts: [{name: a, context: {cluster: a, user: a}}]
clusters: [{name: a, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: a, user: {}}]
"""


@pytest.mark.parametrize("to", [">/dev/full", ">&-", ">&- <&-"])
def test_an_output_that_takes_nothing_stops_no_server(folder: Path, to: str) -> None:
    command = f"exec {sys.executable} -m cli serve --demo --listen 127.0.0.1:0 --lameduck 0s {to}"
    log = folder / "log"
    with log.open("wb") as err, default_ports_taken():
        process = subprocess.Popen(
            ["/bin/bash", "-c", command], env=os.environ | {"PYTHONPATH": str(ROOT)}, stderr=err
        )
        try:
            until(lambda: "the introduction to the demo is lost" in log.read_text("utf-8"))
            [url] = re.findall(r"INFO    listening on (\S+)", log.read_text("utf-8"))
            assert get(url, "/livez")[0] == 200
            process.terminate()
            assert process.wait(SECONDS) == 0
        finally:
            process.kill()


def test_a_pipe_and_a_hung_mount_keep_it_from_nothing(folder: Path) -> None:
    """Edits are taken up, and SIGTERM ends it, which the context sends."""
    policies = folder / "policies"
    (policies / "hung").mkdir(parents=True)
    (policies / "a.policy").write_text(disk("ssd"), encoding="utf-8")
    asked = {"Pod": pod("a"), "Nodes": {"items": NODES}, "NodeNames": None}
    with ExitStack() as stack:
        server = stack.enter_context(serving(folder, "--policies", policies, "--no-cluster"))
        stack.enter_context(hung_mount(policies / "hung"))
        os.mkfifo(policies / "b.policy")
        until(lambda: is_logged(server, "does not answer"))
        assert is_logged(server, "is not a regular file")
        (policies / "a.policy").write_text(disk("hdd"), encoding="utf-8")
        until(lambda: names_of(server.ask(asked)) == ["n2"])
        server.process.terminate()
        assert server.process.wait(SECONDS) == 0


def names_of(answer: dict[str, Any]) -> list[str]:
    return [each["metadata"]["name"] for each in answer["Nodes"]["items"]]


def test_few_file_descriptors_are_enough(folder: Path) -> None:
    """Clients cannot use them up: others are answered, and what is imported late can be."""
    begin = f"ulimit -n 200; exec {sys.executable} -m cli serve {' '.join(BARE)}"
    log = folder / "log"
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with log.open("wb") as err, default_ports_taken(), ExitStack() as stack:
        process = subprocess.Popen(
            ["/bin/bash", "-c", f"{begin} {' '.join(ANY_PORT)}"],
            cwd=folder,
            env=environment,
            stderr=err,
        )
        stack.callback(process.kill)
        until(lambda: "listening on" in log.read_text("utf-8"))
        told = log.read_text("utf-8")
        assert "may open 200 files, which is enough for 72 connections instead of 400" in told
        [port] = re.findall(r"listening on http://127.0.0.1:(\d+)", told)
        for _ in range(250):
            stack.enter_context(socket.create_connection(("127.0.0.1", int(port))))
        other = HTTPConnection(
            "127.0.0.1", int(port), timeout=SECONDS, source_address=("127.0.0.2", 0)
        )
        with closing(other):
            for path in ("/livez", "/metrics", "/readyz"):
                other.request("GET", path)
                answer = other.getresponse()
                assert (answer.read() is not None, answer.status) == (True, 200)

            def is_allowed() -> bool:
                other.request("POST", "/admission/validate", REVIEW)
                allowed: bool = json.loads(other.getresponse().read())["response"]["allowed"]
                return allowed

            # A review that comes too late, on a busy machine, is to be asked for again.
            until(is_allowed)
        process.terminate()
        assert process.wait(SECONDS) == 0
    assert "cannot accept" not in log.read_text("utf-8")
    assert " failed" not in log.read_text("utf-8")


def test_a_log_that_nobody_reads_stops_nothing(folder: Path) -> None:
    """Nor one whose reader is gone."""
    command = [sys.executable, "-m", "cli", "serve", "--demo", "-v", *ANY_PORT, *ASIDE]
    process = subprocess.Popen(
        command, cwd=folder, env=os.environ | {"PYTHONPATH": str(ROOT)}, stderr=subprocess.PIPE
    )
    assert process.stderr is not None
    try:
        with default_ports_taken():
            fcntl.fcntl(process.stderr, fcntl.F_SETPIPE_SZ, 4096)
            told = ""
            while "listening on" not in told:
                told += process.stderr.readline().decode()
        [url] = re.findall(r"listening on (\S+)", told)
        [aside] = re.findall(r"health and metrics on (\S+)", told)
        for is_read in (True, False):
            for _ in range(100):
                assert post(f"{url}/filter", json.dumps(BY_NAME))
            assert [get(each, "/livez")[0] for each in (url, aside)] == [200, 200]
            if is_read:
                process.stderr.close()
        process.terminate()
        assert process.wait(SECONDS) == 0
    finally:
        process.kill()

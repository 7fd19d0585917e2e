"""`placet serve` as a process: what it prints, answers, takes up, and how it ends."""

import http.client
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest

from policies.loader import INTERVAL_SECONDS
from tests.cli.conftest import Placet
from tests.support.builders import Object, kubectl_list, node, pod
from tests.support.certificates import Keyring
from tests.support.pseudo_terminal import default_ports_taken

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[2]
SECONDS = 60.0
NO_VIEW = ("--view-port", "none")
# A server without policies, in the folder of a test: it starts sooner than the demo.
BARE = ("--no-cluster", "--policies", ".")


@dataclass(frozen=True)
class Server:
    """A running server, and the files that it writes to."""

    process: subprocess.Popen[bytes]
    out: Path
    err: Path

    @property
    def url(self) -> str:
        found = re.search(r"listening on (https?://\S+?)\"?}?\n", self.err.read_text("utf-8"))
        return found[1] if found else ""

    @property
    def view(self) -> str:
        """The URL of its view, which listens before the server does."""
        found = re.search(r"view on (http://\S+?)\"?}?\n", self.err.read_text("utf-8"))
        return found[1] if found else ""

    def ask(self, body: Object, verb: str = "filter") -> Any:
        return post(f"{self.url}/{verb}", json.dumps(body))


def post(url: str, body: str) -> Any:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=SECONDS)
    try:
        connection.request("POST", parts.path, body.encode())
        response = connection.getresponse()
        assert response.status == 200
        return json.loads(response.read())
    finally:
        connection.close()


def until(holds: Callable[[], bool], seconds: float = SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@contextmanager
def serving(folder: Path, *arguments: str | Path) -> Iterator[Server]:
    """Start `placet serve` on a free port; afterwards it has ended well after SIGTERM."""
    out, err = folder / "out", folder / "err"
    how = ["--listen", "127.0.0.1:0", "--lameduck", "0s"]
    command = [sys.executable, "-m", "cli", "serve", *how, *arguments]
    # A test may have packages of its own.
    paths = (os.environ.get("PYTHONPATH", ""), str(ROOT))
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    with out.open("wb") as to, err.open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=to, stderr=log)
    server = Server(process, out, err)
    try:
        with default_ports_taken():
            until(lambda: bool(server.url) or process.poll() is not None)
        assert server.url, err.read_text("utf-8")
        yield server
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            assert process.wait(SECONDS) == 0
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def disk(kind: str) -> str:
    return f'cluster policy a {{ filter "disk" {{ require node.labels["disk"] == "{kind}" }} }}'


@pytest.fixture
def policies(folder: Path) -> Path:
    path = folder / "a.policy"
    path.write_text(disk("ssd"), encoding="utf-8")
    return path


NODES = [node("n1", labels={"disk": "ssd"}), node("n2", labels={"disk": "hdd"})]
BY_NAME = {"Pod": pod("a"), "Nodes": None, "NodeNames": ["n1", "n2"]}


def test_demo_prints_a_line_that_works_when_pasted(folder: Path) -> None:
    with serving(folder, "--demo") as server:
        until(lambda: server.out.read_text("utf-8").count(".policy\n") > 1)
        printed = server.out.read_text("utf-8")
        assert printed.startswith("Placet decides about a demo cluster of 12 nodes and 42 pods. ")
        (applied, whole, used), *_ = re.findall(
            r"(?m)^(\d+) of its (\d+) policies apply to pods; (\d+) more only", printed
        )
        assert int(applied) + int(used) == int(whole)
        assert f" {whole} policies enforced" in server.err.read_text("utf-8")
        (line,) = re.findall(r"^curl .*", printed, re.MULTILINE)
        program, silent, url, data, body = shlex.split(line)
        assert (program, silent, data) == ("curl", "-s", "-d")
        assert url == f"{server.url}/api/scheduler/filter"
        # On a busy machine a server begins with policies that wait for their check.
        until(lambda: post(url, body)["Error"] == "")
        answer = post(url, body)
        failed = answer["FailedAndUnresolvableNodes"]
        assert set(json.loads(body)["NodeNames"]) == {*answer["NodeNames"], *failed}


def test_edits_of_policies_and_snapshot_are_taken_up(folder: Path, policies: Path) -> None:
    """Within a second; a broken edit changes nothing and is in the log."""
    assert 3 * INTERVAL_SECONDS < 1, "a change counts at the second look"
    snapshot = folder / "cluster.json"
    snapshot.write_text(json.dumps(kubectl_list(NODES)), encoding="utf-8")
    with serving(folder, "--policies", policies, "--cluster", snapshot) as server:
        assert server.ask(BY_NAME)["NodeNames"] == ["n1"]

        policies.write_text(disk("hdd"), encoding="utf-8")
        until(lambda: server.ask(BY_NAME)["NodeNames"] == ["n2"])

        policies.write_text(disk("ssd")[:-1], encoding="utf-8")
        until(lambda: "the last valid version stays enforced" in server.err.read_text("utf-8"))
        assert server.ask(BY_NAME)["NodeNames"] == ["n2"]

        both = [node(name, labels={"disk": "hdd"}) for name in ("n1", "n2")]
        snapshot.write_text(json.dumps(kubectl_list(both)), encoding="utf-8")
        until(lambda: server.ask(BY_NAME)["NodeNames"] == ["n1", "n2"])


def test_without_a_cluster_names_get_an_error(folder: Path, policies: Path) -> None:
    """Never a rejection; whole nodes are decided about."""
    with serving(folder, "--policies", policies, "--no-cluster") as server:
        answer = server.ask(BY_NAME)
        assert answer["Error"].startswith("placet: no cluster view")
        assert not answer["FailedNodes"]
        assert not answer["FailedAndUnresolvableNodes"]
        assert server.ask(BY_NAME, "prioritize") == []
        answer = server.ask({"Pod": pod("a"), "Nodes": {"items": NODES}, "NodeNames": None})
        assert answer["Error"] == ""
        assert [n["metadata"]["name"] for n in answer["Nodes"]["items"]] == ["n1"]


def test_log_is_json_on_demand(folder: Path, policies: Path) -> None:
    """With the fields of a call beside its message."""
    with serving(folder, "--policies", policies, "--no-cluster", "--log-format=json") as server:
        server.ask(BY_NAME)
    assert "without TLS" not in server.err.read_text("utf-8"), "only this machine can ask"
    entries = [json.loads(line) for line in server.err.read_text("utf-8").splitlines()]
    assert [e["message"] for e in entries if e["level"] == "info"][-1] == "stopped"
    (call,) = [entry for entry in entries if "verb" in entry]
    assert (call["verb"], call["outcome"], call["offered"]) == ("filter", "not_synced", 2)


@pytest.mark.usefixtures("policies")
def test_port_that_is_taken_is_one_clear_error(placet: Placet) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        done = placet(
            "serve", "--policies", "a.policy", "--no-cluster", "--listen", where, *NO_VIEW
        )
    assert (done.code, done.out) == (2, "")
    assert done.err.splitlines()[-2:] == [
        f"error: cannot listen on `{where}`: the port is in use",
        "  = help: name another with --listen HOST:PORT, or stop the program that uses it",
    ]


@pytest.mark.usefixtures("policies")
def test_a_view_whose_port_is_taken_ends_no_server(folder: Path) -> None:
    """`/readyz` names it, and the view is tried again."""
    with ExitStack() as stack:
        taken = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        port = str(taken.getsockname()[1])
        flags = ("--policies", "a.policy", "--no-cluster", "--view-port", port)
        server = stack.enter_context(serving(folder, *flags))
        with urlopen(f"http://{urlsplit(server.url).netloc}/readyz") as answer:
            text = answer.read().decode()
        why = f"cannot listen on `127.0.0.1:{port}`: the port is in use"
        hint = "name another with --view-port PORT, or stop the program that uses it"
        assert text == f"ok\nwarn: task/view: {why} ({hint})"
        taken.close()
        until(lambda: "view on http" in server.err.read_text("utf-8"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--no-cluster", "there are no policies"),
        ("--policies missing.policy", "`missing.policy` does not exist"),
        ("--demo --cluster c.json", "--demo and --cluster each name a cluster"),
        ("--demo --bind", "--bind has no effect with --demo: no cluster is watched"),
        ("--no-cluster --bind", "--bind has no effect with --no-cluster: no cluster is watched"),
        (
            "--demo --scheduler-name a",
            "--scheduler-name has no effect with --demo: no cluster is watched",
        ),
        ("--demo --standby", "--standby has no effect with --demo: no cluster is watched"),
        ("--demo --repair=on", "--repair has no effect with --demo: no cluster is watched"),
        ("--demo --policy-first a", "--policy-first has no effect with --demo: no cluster is"),
        (
            "--demo --bind-timeout 9s",
            "--bind-timeout has no effect with --demo: no cluster",
        ),
        ("--demo --bind-timeout 0s", "argument --bind-timeout: `0s` must be greater than 0"),
        ("--demo --permit-timeout 9", "argument --permit-timeout: `9` is not a duration"),
        ("--demo --listen nowhere", "argument --listen: `nowhere` is not an address and a port"),
        ("--demo --listen :99999", "`99999` is not a port"),
        ("--demo --http-timeout 5", "argument --http-timeout: `5` is not a duration"),
        ("--demo --http-timeout 0s", "argument --http-timeout: `0s` must be greater than 0"),
        ("--demo --body-limit big", "argument --body-limit: `big` is not a size"),
        ("--demo --body-limit 0", "argument --body-limit: `0` must be greater than 0"),
        (
            "--demo --max-in-flight 0",
            "argument --max-in-flight: `0` is not a whole number from 1 to",
        ),
        ("--demo --lameduck=-1s", "argument --lameduck: `-1s` must not be negative"),
        ("--demo --lameduck soon", "argument --lameduck: `soon` is not a duration"),
        ("--demo --health-listen 1", "argument --health-listen: `1` is not an address and a port"),
        ("--demo --data-folder missing", "cannot read `missing`: no such file or directory"),
        ("--demo --data-folder latin.policy", "`latin.policy` is not a folder"),
        ("--demo --data-ca missing", "cannot read `missing`: no such file or directory"),
        ("--demo --data-ca latin.policy", "`latin.policy` contains no certificate"),
        ("--demo --data-token missing", "cannot read `missing`: no such file or directory"),
        ("--demo --data-token latin.policy", "`latin.policy` is not UTF-8 text"),
        ("--demo --data-token empty", "`empty` contains no token"),
        ("--demo --data-headers latin.policy", "`latin.policy`: line 1 is no header that may be"),
        ("--demo --frozen-label a/b/c", "argument --frozen-label: `a/b/c` cannot be the key of"),
        ("--demo --frozen-annotation -a", "argument --frozen-annotation: expected one argument"),
        ("--demo --frozen-annotation=-a", "argument --frozen-annotation: `-a` cannot be the key"),
    ],
)
def test_wrong_arguments_are_clear_errors(
    placet: Placet, folder: Path, arguments: str, message: str
) -> None:
    (folder / "latin.policy").write_bytes(b"\xe9")
    (folder / "empty").touch()
    done = placet("serve", *arguments.split())
    assert (done.code, done.out) == (2, "")
    assert f"error: {message}" in done.err
    assert "Traceback" not in done.err


@pytest.mark.usefixtures("policies")
def test_all_pods_wait_for_files_that_cannot_be_read(folder: Path) -> None:
    """Until they are mended or gone. Readiness fails, and names them."""
    (folder / "latin.policy").write_bytes(b"\xe9")
    (folder / "link.policy").symlink_to("nowhere")
    os.mkfifo(folder / "pipe.policy")
    named = ("--policies", ".", "latin.policy", "pipe.policy")
    asked = {"Pod": pod("a"), "Nodes": {"items": NODES}, "NodeNames": None}
    with serving(folder, *named, "--no-cluster", *NO_VIEW) as server:
        said = server.ask(asked)["Error"]
        with pytest.raises(HTTPError) as caught:
            urlopen(f"http://{urlsplit(server.url).netloc}/readyz")
        text = caught.value.read().decode()
        for name in ("latin", "link", "pipe"):
            (folder / f"{name}.policy").unlink()
        until(lambda: not server.ask(asked)["Error"])
        assert [n["metadata"]["name"] for n in server.ask(asked)["Nodes"]["items"]] == ["n1"]
    assert "latin.policy" in said
    assert caught.value.code == HTTPStatus.SERVICE_UNAVAILABLE
    assert (
        "[-]policies failed: `latin.policy` is not UTF-8 text at byte 0, "
        "`link.policy` is a link to nothing, cannot read `pipe.policy`: it is not a regular file; "
        "3 policies are not in force as written: "
    ) in text


@pytest.mark.usefixtures("policies")
def test_cluster_that_is_none_is_a_clear_error(placet: Placet) -> None:
    done = placet("serve", "--policies", "a.policy", "--cluster", "c.yaml")
    assert done.code == 2
    assert "error: cannot read `c.yaml`: no such file or directory\n" in done.err
    assert "kubectl get nodes,pods,replicasets -A -o yaml > c.yaml" in done.err


def test_what_sources_get_is_taken_if_it_is_there(folder: Path, policies: Path) -> None:
    """And a server goes on without it: it is asked for again at each use."""
    Keyring(folder).write_client_ca()
    token = folder / "token"
    token.write_text("t\n", encoding="utf-8")
    data = ("--data-folder", folder, "--data-ca", folder / "ca.crt", "--data-token", token)
    with serving(folder, "--policies", policies, "--no-cluster", *data) as server:
        token.unlink()
        assert server.ask(BY_NAME)["Error"].startswith("placet: no cluster view")


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        (("10.0.0.1:9100",), "no key of its 1 row is a node, as in `10.0.0.1:9100`; 2 nodes"),
        (("n1",), ""),
    ],
)
def test_rows_are_judged_by_the_nodes_of_a_snapshot(
    folder: Path, keys: tuple[str, ...], said: str
) -> None:
    """As by those of a running cluster: of no use, or how many nodes have none."""
    (folder / "data").mkdir()
    rows = "".join(f"{key},0.5\n" for key in keys)
    (folder / "data" / "load.csv").write_text(f"node,value\n{rows}", encoding="utf-8")
    table = 'data "load" { from file "load.csv" by "node" columns { value: double } }'
    clause = 'filter "hot" { require data.load[node.name].value < 0.9 }'
    (folder / "a.policy").write_text(f"cluster policy a {{ {table} {clause} }}", encoding="utf-8")
    (folder / "c.json").write_text(json.dumps(kubectl_list(NODES)), encoding="utf-8")
    named = ("--policies", "a.policy", "--cluster", "c.json", "--data-folder", "data")
    with serving(folder, *named) as server:
        base = server.url.partition("/api/")[0]

        def told(path: str, text: str) -> bool:
            with urlopen(f"{base}{path}", timeout=SECONDS) as answer:  # noqa: S310 - a local server
                return text in answer.read().decode()

        if said:
            until(lambda: told("/readyz?verbose", f"warn: data/load: {said}"))
        until(lambda: told("/metrics", 'placet_data_lacking_nodes{source="load (file)"} '))
        lacking = float(2 if said else 1)
        assert told("/metrics", f'placet_data_lacking_nodes{{source="load (file)"}} {lacking}')


def test_it_warns_once_at_its_start_if_it_answers_anybody(folder: Path, policies: Path) -> None:
    with serving(folder, "--no-cluster", "--policies", policies, "--listen", ":0") as server:
        until(lambda: "without TLS" in server.err.read_text("utf-8"))
        assert server.err.read_text("utf-8").count("set --tls-cert, --tls-key and --client-ca") == 1

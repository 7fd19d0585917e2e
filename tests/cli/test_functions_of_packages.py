"""Functions that a package adds, in the places that run for long: the server, its page, editors.

Commands are in `tests/grammar/meaning/test_added_functions.py`.
"""

from __future__ import annotations

import http.client
import json
import os
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from lsprotocol import types
from pytest_lsp import client_capabilities
from pytest_lsp.client import make_test_lsp_client

from tests.cli.language_server.test_session import Editor
from tests.cli.test_serve import SECONDS, Server, serving, until
from tests.support.builders import kubectl_list, node, pod, raw

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[2]
PACKAGE = '''
import time

from grammar.meaning.added_functions import function

@function("acme.rackOf(string) string", steps=20)
def rack_of(name):
    """The rack in the name of a node."""
    return name.partition("-")[0]


@function("acme.fails(string) bool")
def fails(name):
    raise KeyError(name)


@function("acme.slow(string) bool")
def slow(name):
    time.sleep(0.2)
    return True
'''
POINTS = """[placet.functions]
rackOf = acme_functions:rack_of
fails = acme_functions:fails
slow = acme_functions:slow
"""
POLICY = """\
cluster policy racks {
  filter "rack" {
    require acme.rackOf(node.name) == "r1"
    message "another rack"
  }
}
cluster policy broken {
  for pods where pod.namespace == "broken"
  filter "fails" { require acme.fails(node.name) }
}
cluster policy lame {
  for pods where pod.namespace == "lame"
  filter "slow" { require acme.slow(node.name) }
}
"""
NODES = ("r1-a", "r2-b", "r1-c")


@pytest.fixture
def packages(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of installed packages, which every process that is started sees."""
    folder = tmp_path_factory.mktemp("packages")
    information = folder / "acme-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(POINTS)
    (folder / "acme_functions.py").write_text(PACKAGE)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(folder), str(ROOT))))


@pytest.fixture
def asked(packages: None, folder: Path) -> list[str | Path]:
    """The arguments of a server with a cluster of three nodes in two racks."""
    del packages  # it is asked for what it does
    (folder / "racks.policy").write_text(POLICY, encoding="utf-8")
    cluster = folder / "cluster.json"
    cluster.write_bytes(raw(kubectl_list(map(node, NODES))))
    return ["--policies", folder / "racks.policy", "--cluster", cluster]


def reasons(server: Server, namespace: str) -> dict[str, str]:
    answer = server.ask({"Pod": pod("web-1", namespace), "NodeNames": list(NODES)})
    assert not answer["Error"]
    return {**answer["FailedNodes"], **answer["FailedAndUnresolvableNodes"]}


def draft(url: str, path: str, body: object) -> Any:
    """The answer of the view to a draft."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=SECONDS)
    try:
        headers = {"Content-Type": "application/json"}
        connection.request("POST", path, json.dumps(body).encode(), headers)
        response = connection.getresponse()
        text = response.read()
        assert response.status == 200, text
        return json.loads(text)
    finally:
        connection.close()


def test_the_server_and_its_page_know_the_functions(folder: Path, asked: list[str | Path]) -> None:
    with serving(folder, *asked) as server:
        until(lambda: bool(server.view))
        assert reasons(server, "shop") == {"r2-b": "another rack"}
        checked = draft(server.view, "/api/v1/check", {"text": POLICY})
        assert checked["diagnostics"] == []
        wrong = draft(server.view, "/api/v1/check", {"text": POLICY.replace("rackOf", "rackOff")})
        assert "rackOf" in json.dumps(wrong["diagnostics"])
        text = 'cluster policy a { filter "r" { require acme.ra'
        offered = draft(server.view, "/api/v1/complete", {"text": text, "offset": len(text)})
        assert [each["text"] for each in offered["candidates"]] == ["rackOf("]
        assert "The rack in the name of a node." in json.dumps(offered)


def test_a_function_that_raises_rejects_and_is_named(folder: Path, asked: list[str | Path]) -> None:
    with serving(folder, *asked) as server:
        assert "r1-a" in reasons(server, "broken")
        assert reasons(server, "shop") == {"r2-b": "another rack"}
    assert "`acme.fails` failed: KeyError" in server.err.read_text("utf-8")


def test_a_slow_function_is_slow_once(folder: Path, asked: list[str | Path]) -> None:
    """Then it is closed for a minute, so nobody else's pod waits for it."""
    with serving(folder, *asked) as server:
        reasons(server, "lame")
        began = time.monotonic()
        assert reasons(server, "lame")["r1-c"] == "policy lame: slow"
        for _ in range(5):
            assert "r1-a" not in reasons(server, "shop")
        assert time.monotonic() - began < 5.0
    assert "`acme.slow` took 0.2" in server.err.read_text("utf-8")


@pytest.mark.usefixtures("packages")
async def test_editors_know_the_functions(folder: Path) -> None:
    client = make_test_lsp_client()
    await client.start_io(sys.executable, "-m", "cli", "lsp", cwd=ROOT)
    capabilities = client_capabilities("neovim@0.7.0")
    await client.initialize_session(types.InitializeParams(capabilities=capabilities))
    editor = Editor(client, folder)
    try:
        assert await editor.write("racks.policy", POLICY) == []
        found = await editor.write("racks.policy", POLICY.replace("rackOf", "rackOff"))
        assert "acme.rackOf" in "".join(each.message for each in found)
        place = types.Position(2, POLICY.splitlines()[2].index("rackOf") + 1)
        await editor.write("racks.policy", POLICY)
        asked = types.HoverParams(editor.text("racks.policy"), place)
        hover = await client.text_document_hover_async(asked)
        assert hover is not None
        assert "acme.rackOf(string): string" in str(hover.contents)
        assert "The rack in the name of a node." in str(hover.contents)
    finally:
        await client.shutdown_session()
        await client.stop()  # type: ignore[no-untyped-call]

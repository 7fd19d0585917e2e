"""The cluster itself as what a session is about, from a server over HTTP."""

import asyncio
from pathlib import Path

import pytest

from cli.command import CommandError
from cli.live import ClusterOrigin
from cli.repl.conversation import take
from cli.repl.session import Session
from tests.support.builders import Object, controller, node, pod
from tests.support.fake_api_server import Answer, FakeApiServer, fake_api_server
from tests.support.kubeconfig import kubeconfig

NODES, PODS, REPLICA_SETS = "/api/v1/nodes", "/api/v1/pods", "/apis/apps/v1/replicasets"


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy of whoever runs the tests is not for loopback."""
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setenv("no_proxy", "*")


def put(server: FakeApiServer, path: str, item: Object) -> None:
    """As items of a list are: they do not say what they are."""
    fields = {k: v for k, v in item.items() if k not in ("kind", "apiVersion")}
    server.put(path, item["metadata"]["name"], **fields)


async def opened(server: FakeApiServer, folder: Path) -> Session:
    session = Session()
    live = ClusterOrigin(kubeconfig(folder / "kubeconfig", server.url, {"token": "static"}))
    await asyncio.to_thread(session.open, live)
    return session


async def test_what_rules_read_is_listed_once_and_what_is_forbidden_is_left_out(
    tmp_path: Path,
) -> None:
    web = controller("ReplicaSet", "web", "shop", replicas=3)
    async with fake_api_server() as server:
        put(server, NODES, node("n-1", "a"))
        put(server, PODS, pod("web-1", "shop", owner=web))
        put(server, REPLICA_SETS, web)
        session = await opened(server, tmp_path)
        asked = [request.path for request in server.requests]
    assert len(asked) == len(set(asked))
    take(session, ":pod web-1")
    assert take(session, "node.zone").told == ('"a" : string',)
    assert take(session, "pod.workload.replicas").told == ("3 : int",)
    assert str(take(session, ":cluster").told[0]).startswith("1 node and 1 pod at ")


async def test_long_lists_come_in_pages(tmp_path: Path) -> None:
    async with fake_api_server() as server:
        for number in range(501):
            put(server, NODES, node(f"n-{number:03}"))
        put(server, PODS, pod("web-1"))
        session = await opened(server, tmp_path)
        assert "page" in server.kinds()
    assert len(session.node_names) == 501


async def test_a_saved_test_needs_a_file(tmp_path: Path) -> None:
    async with fake_api_server() as server:
        put(server, NODES, node("n-1"))
        put(server, PODS, pod("web-1"))
        session = await opened(server, tmp_path)
    take(session, ":pod web-1")
    assert take(session, ":save-test a_test.policy").failed
    assert not (tmp_path / "a_test.policy").exists()


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (Answer(403, b'{"kind": "Status", "message": "nodes is forbidden"}'), "nodes is forbidden"),
        (Answer(200, b"<html>"), "the API server's answer is not a list"),
    ],
    ids=["forbidden", "no list"],
)
async def test_a_server_that_refuses_is_one_sentence(
    tmp_path: Path, answer: Answer, error: str
) -> None:
    async with fake_api_server() as server:
        server.answers.append(answer)
        with pytest.raises(CommandError, match=error) as raised:
            await opened(server, tmp_path)
    assert raised.value.hint.startswith("see that `kubectl get nodes,pods -A` works")

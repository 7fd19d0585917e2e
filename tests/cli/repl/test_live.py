"""A session about a running cluster: an API server over HTTP."""

import argparse
import asyncio
from functools import partial
from pathlib import Path

import pytest

from cli.command import CommandError
from cli.repl.conversation import ReplSession, answer
from cli.sources import source_of
from tests.support.builders import Object, controller, node, pod
from tests.support.fake_api_server import Answer, FakeApiServer, fake_api_server
from tests.support.kubeconfig import kubeconfig

NODES, PODS, REPLICA_SETS = "/api/v1/nodes", "/api/v1/pods", "/apis/apps/v1/replicasets"


def put(server: FakeApiServer, path: str, item: Object) -> None:
    """Adds an object without kind and version, as items of a list are."""
    fields = {k: v for k, v in item.items() if k not in ("kind", "apiVersion")}
    server.put(path, item["metadata"]["name"], **fields)


async def opened(server: FakeApiServer, folder: Path) -> ReplSession:
    file = kubeconfig(folder / "kubeconfig", server.url, {"token": "static"})
    args = argparse.Namespace(kubeconfig=file, context=None, cluster=None, policies=[])
    session = ReplSession((), partial(source_of, args))
    await asyncio.to_thread(session.reload)
    return session


async def test_each_resource_is_listed_once_and_forbidden_ones_are_skipped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    web = controller("ReplicaSet", "web", "shop", replicas=3)
    async with fake_api_server() as server:
        put(server, NODES, node("n-1", "a"))
        put(server, PODS, pod("web-1", "shop", owner=web))
        put(server, REPLICA_SETS, web)
        session = await opened(server, tmp_path)
        asked = [request.path for request in server.requests]
        await asyncio.to_thread(answer, session, ":pod web-1")
        capsys.readouterr()
        for line in ("node.zone", "pod.workload.replicas"):
            assert await asyncio.to_thread(answer, session, line)
    assert len(asked) == len(set(asked))
    zone, replicas = capsys.readouterr().out.splitlines()
    assert (zone, replicas) == ('"a" : string', "3 : int")
    assert (len(session.node_names), session.pod is not None) == (1, True)


async def test_long_lists_come_in_pages(tmp_path: Path) -> None:
    async with fake_api_server() as server:
        for number in range(501):
            put(server, NODES, node(f"n-{number:03}"))
        put(server, PODS, pod("web-1"))
        session = await opened(server, tmp_path)
        assert "page" in server.kinds()
    assert len(session.node_names) == 501


@pytest.mark.parametrize(
    ("refusal", "error"),
    [
        (Answer(403, b'{"kind": "Status"}'), "you may not list nodes"),
        (Answer(200, b"<html>"), "the API server's answer is not a list"),
    ],
    ids=["forbidden", "no list"],
)
async def test_a_server_error_is_one_sentence(tmp_path: Path, refusal: Answer, error: str) -> None:
    async with fake_api_server() as server:
        server.answers.append(refusal)
        with pytest.raises(CommandError, match=error) as raised:
            await opened(server, tmp_path)
    assert raised.value.hint

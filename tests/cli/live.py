"""A cluster behind an API server over HTTP, for the tests of commands that ask it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli import shop
from tests.cli.conftest import Outcome, Placet
from tests.recorder.api_server import PATHS
from tests.support.builders import Object
from tests.support.fake_api_server import FakeApiServer, fake_api_server
from tests.support.kubeconfig import kubeconfig

EVENTS = "/api/v1/namespaces/shop/events"


@pytest.fixture
def environment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wide terminal, and the kubeconfig of the cluster that a test starts."""
    monkeypatch.setenv("KUBECONFIG", str(folder / "config"))
    monkeypatch.setenv("COLUMNS", "140")


async def asked(placet: Placet, *arguments: str, stdin: str = "") -> Outcome:
    """Run a command beside the API server of this event loop."""
    return await asyncio.to_thread(placet, *arguments, stdin=stdin)


def policy(name: str, rules: str, namespace: str = "shop", **spec: Any) -> Object:
    """A PlacementPolicy of all pods of its namespace."""
    return {
        "apiVersion": "placement-policy.scheduling.x-k8s.io/v1",
        "kind": "PlacementPolicy",
        "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}", "generation": 2},
        "spec": {"podSelector": {}, "rules": rules, **spec},
    }


HEADROOM = policy(
    "headroom",
    'filter "headroom" { require node.free["memory"] - pod.requests["memory"] >= "1Gi"\n'
    '  message "needs 1Gi to spare" }\n'
    'limit "one per node" { per node at most 1 strict message "one is there" }',
)


def put(server: FakeApiServer, item: Object) -> None:
    """An object without kind and version, as items of a list are; a pod also in its namespace."""
    fields = {k: v for k, v in item.items() if k not in ("kind", "apiVersion")}
    metadata = item["metadata"]
    paths = [PATHS[item["kind"]]]
    if item["kind"] in ("Pod", "PlacementPolicy") and "namespace" in metadata:
        front, _, name = paths[0].rpartition("/")
        paths.append(f"{front}/namespaces/{metadata['namespace']}/{name}")
    key = f"{metadata['namespace']}/{metadata['name']}" if "namespace" in metadata else ""
    for path in paths:
        server.put(path, key or metadata["name"], **fields)


def put_event(server: FakeApiServer, pod: str, message: str) -> None:
    """kube-scheduler's event about a pod of the namespace shop."""
    server.put(
        EVENTS,
        f"shop/{pod}.1",
        metadata={"name": f"{pod}.1", "namespace": "shop"},
        involvedObject={"kind": "Pod", "namespace": "shop", "name": pod},
        reason="FailedScheduling",
        message=message,
        lastTimestamp="2026-11-21T10:05:00Z",
        count=3,
    )


@asynccontextmanager
async def live_shop(folder: Path, *more: Object) -> AsyncIterator[FakeApiServer]:
    """The shop's cluster with policy objects, and a kubeconfig `config` of the namespace shop."""
    async with live_cluster(folder, *shop.cluster(), *(more or (HEADROOM,))) as server:
        yield server


@asynccontextmanager
async def live_cluster(folder: Path, *items: Object) -> AsyncIterator[FakeApiServer]:
    """A cluster of these objects, and a kubeconfig `config` of the namespace shop."""
    async with fake_api_server() as server:
        for path in (*PATHS.values(), EVENTS):
            server.open(path)
        for item in items:
            put(server, item)
        kubeconfig(folder / "config", server.url, {"token": "static"}, namespace="shop")
        yield server


@asynccontextmanager
async def live_example(folder: Path, example: Path, policy: str, said: str) -> AsyncIterator[None]:
    """The cluster and a policy of an example; kube-scheduler has said so of the pod web-1."""
    text = (example / "cluster.yaml").read_text(encoding="utf-8")
    items = yaml.safe_load(text)["items"]
    waiting = next(item for item in items if item["metadata"]["name"] == "web-1")
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    waiting["status"]["conditions"] = [{**condition, "message": said}]
    applied = yaml.safe_load((example / policy).read_text(encoding="utf-8"))
    async with live_cluster(folder, *items, applied) as server:
        put_event(server, "web-1", said)
        yield

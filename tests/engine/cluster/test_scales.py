"""Scales: how many pods workloads of other kinds want, by an API server that knows their kinds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from engine.cache.cache import Cache
from engine.cluster.client import connect
from engine.cluster.scales import Scales
from engine.errors import ApiError
from engine.objects.peer import decode_controller
from tests.support.builders import controller, pod, raw
from tests.support.engines import peer_of
from tests.support.fake_api_server import FakeApiServer
from tests.support.fake_clock import until
from tests.support.kubeconfig import kubeconfig

ARGO, KRUISE = "argoproj.io/v1alpha1", "apps.kruise.io/v1alpha1"
# The kind of an owner, its API version, and how it is called there.
KINDS = [("Rollout", ARGO, "rollouts"), ("CloneSet", KRUISE, "clonesets")]


def owned(name: str, kind: str = "CloneSet", version: str = KRUISE, owner: str = "web") -> Any:
    made = pod(name, "shop")
    reference = {
        "apiVersion": version,
        "kind": kind,
        "name": owner,
        "uid": owner,
        "controller": True,
    }
    made["metadata"]["ownerReferences"] = [reference]
    return made


@pytest.fixture
async def scales(server: FakeApiServer, tmp_path: Path) -> AsyncIterator[tuple[Scales, Cache]]:
    server.single.folders |= {"/apis/ray.io"}
    for kind, version, plural in KINDS:
        server.single.folders.add(f"/apis/{version.partition('/')[0]}")
        resources = [{"name": plural, "kind": kind}, {"name": f"{plural}/scale", "kind": "Scale"}]
        server.single.objects[f"/apis/{version}"] = {"resources": resources}
    server.single.objects["/apis/ray.io/v1"] = {"resources": [{"name": "r", "kind": "RayCluster"}]}
    cache = Cache()
    file = kubeconfig(tmp_path / "kubeconfig", server.url, {"token": "static"})
    async with connect(file, None, version="1") as api:
        yield Scales(api, cache), cache


def wants(server: FakeApiServer, version: str, name: str, replicas: int) -> None:
    path = f"/apis/{version}/namespaces/shop/{name}/scale"
    server.single.folders.add(path.removesuffix("/scale"))
    metadata = {"uid": name.partition("/")[2]}
    server.single.objects[path] = {
        "kind": "Scale",
        "metadata": metadata,
        "spec": {"replicas": replicas},
    }


async def test_a_scale_is_asked_once_for_each_number_of_pods(
    server: FakeApiServer, scales: tuple[Scales, Cache]
) -> None:
    asking, cache = scales
    wants(server, KRUISE, "clonesets/web", 3)
    for number in range(2):
        cache.put_pod(peer_of(owned(f"web-{number}")))
    assert await asking.take() == ""
    root = cache.snapshot().workloads["web"]
    assert (root.title, root.replicas) == ("CloneSet/web", 3)
    asked = len(server.requests)
    wants(server, KRUISE, "clonesets/web", 5)
    await asking.take()
    assert len(server.requests) == asked
    cache.put_pod(peer_of(owned("web-2")))
    await asking.take()
    assert cache.snapshot().workloads["web"].replicas == 5
    for number in range(3):
        cache.remove_pod(f"shop/web-{number}")
    await asking.take()
    assert cache.workload("web") is None


async def test_the_owner_of_a_replica_set_is_asked(
    server: FakeApiServer, scales: tuple[Scales, Cache]
) -> None:
    asking, cache = scales
    wants(server, ARGO, "rollouts/web", 4)
    template = controller("ReplicaSet", "web-1", "shop", replicas=2)
    owner = {"apiVersion": ARGO, "kind": "Rollout", "name": "web", "uid": "web", "controller": True}
    template["metadata"]["ownerReferences"] = [owner]
    cache.put_controller(decode_controller("ReplicaSet", raw(template)))
    cache.put_pod(peer_of(pod("web-1-a", "shop", owner=template)))
    await asking.take()
    root = cache.snapshot().workloads[template["metadata"]["uid"]]
    assert (root.title, root.replicas) == ("Rollout/web", 4)
    peer = cache.pod("shop/web-1-a")
    assert peer is not None
    assert peer.workload is not None
    assert peer.workload.title == "Rollout/web"


@pytest.mark.parametrize(
    ("kind", "version", "said"),
    [
        ("RayCluster", "ray.io/v1", ""),
        ("Widget", "example.com/v1", ""),
        ("Widget", "../../api/v1", ""),
        ("CloneSet", KRUISE, "cannot read how many pods CloneSet/web in `shop` wants: "),
    ],
)
async def test_what_nobody_says_is_unknown(
    server: FakeApiServer, scales: tuple[Scales, Cache], kind: str, version: str, said: str
) -> None:
    asking, cache = scales
    wants(server, KRUISE, "clonesets/web", 3)
    denial = 'User "placet" cannot get resource "clonesets/scale" in API group "apps.kruise.io"'
    path = f"/apis/{KRUISE}/namespaces/shop/clonesets/web/scale"
    server.single.denied[f"GET {path}"] = ApiError(403, "Forbidden", denial)
    cache.put_pod(peer_of(owned("web-1", kind, version)))
    assert (await asking.take()).startswith(said)
    assert bool(await asking.take()) == bool(said)
    assert cache.workload("web") is None


async def test_a_failure_keeps_no_other_owner_from_being_asked_and_is_asked_about_again(
    server: FakeApiServer, scales: tuple[Scales, Cache]
) -> None:
    asking, cache = scales
    paths = [f"GET /apis/{KRUISE}/namespaces/shop/clonesets/{name}/scale" for name in ("a", "b")]
    denial = 'User "placet" cannot get resource "clonesets/scale" in API group "apps.kruise.io"'
    server.single.denied[paths[0]] = ApiError(500, "InternalError", "it broke")
    server.single.denied[paths[1]] = ApiError(403, "Forbidden", denial)
    for name in ("a", "b", "c"):
        wants(server, KRUISE, f"clonesets/{name}", 3)
        cache.put_pod(peer_of(owned(name, owner=name)))
    assert "it broke" in await asking.take()
    assert await asking.take()
    assert [cache.workload(name) is not None for name in ("a", "b", "c")] == [False, False, True]
    asked = len(server.requests)
    await asking.take()
    assert len(server.requests) == asked + 1, "of a kind that fails, one is asked in each turn"
    server.single.denied.clear()
    assert await asking.take() == ""
    assert all(cache.workload(name) is not None for name in ("a", "b"))


async def test_what_is_watched_is_not_asked(
    server: FakeApiServer, scales: tuple[Scales, Cache]
) -> None:
    asking, cache = scales
    cache.put_pod(peer_of(owned("web-1", "StatefulSet", "apps/v1")))
    await asking.take()
    assert server.requests == []


async def test_a_pod_that_names_the_owner_of_others_changes_nothing(
    server: FakeApiServer, scales: tuple[Scales, Cache]
) -> None:
    """The object of this name says that it is another one."""
    asking, cache = scales
    wants(server, KRUISE, "clonesets/mine", 50)
    forged = owned("forged", owner="mine")
    forged["metadata"]["ownerReferences"][0]["uid"] = "web"
    cache.put_pod(peer_of(forged))
    assert await asking.take() == ""
    assert cache.workload("web") is None


@pytest.mark.fake_clock
async def test_a_few_owners_are_asked_at_once_and_none_of_a_kind_that_is_down(
    server: FakeApiServer, scales: tuple[Scales, Cache]
) -> None:
    """What is found out about a kind is found out once, by the first owner of the kind."""
    asking, cache = scales
    names = [f"s{number}" for number in range(500)]
    for name in names:
        wants(server, KRUISE, f"clonesets/{name}", 3)
        cache.put_pod(peer_of(owned(name, owner=name)))
    wants(server, ARGO, "rollouts/web", 4)
    cache.put_pod(peer_of(owned("web-1", "Rollout", ARGO)))

    def asked(word: str = "/scale") -> int:
        return sum(request.path.endswith(word) for request in server.requests)

    first = f"GET /apis/{KRUISE}/namespaces/shop/clonesets/s0/scale"
    server.single.denied[first] = ApiError(500, "InternalError", "it broke")
    assert "it broke" in await asking.take()
    assert [name for name in names if cache.workload(name) is not None] == []
    assert cache.workload("web") is not None
    assert asked() == 2
    server.single.denied.clear()
    server.requests.clear()
    server.held = "0/scale"
    async with asyncio.TaskGroup() as tasks:
        second = tasks.create_task(asking.take())
        await until(lambda: asked("0/scale") >= 8)
        await asyncio.sleep(0.1)
        assert asked("0/scale") == 8
        server.go_on.set()
    assert second.result() == ""
    assert all(cache.workload(name) is not None for name in names)
    paths = [request.path for request in server.requests]
    assert len(paths) == len({*paths}) == 500
    assert asked(KRUISE) == 0, "the kind is known"


async def test_a_kind_is_looked_for_once(
    server: FakeApiServer, scales: tuple[Scales, Cache]
) -> None:
    asking, cache = scales
    for number in range(20):
        wants(server, KRUISE, f"clonesets/s{number}", 3)
        cache.put_pod(peer_of(owned(f"s{number}", owner=f"s{number}")))
    await asking.take()
    paths = [request.path for request in server.requests]
    assert len(paths) == len({*paths}) == 21
    server.single.denied[f"GET /apis/{ARGO}"] = ApiError(403, "Forbidden", "not you")
    for number in range(20):
        cache.put_pod(peer_of(owned(f"r{number}", "Rollout", ARGO, owner=f"r{number}")))
    assert "not you" in await asking.take()
    assert len(server.requests) == 22

"""Informers: what is watched, from the start to the end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from engine.cache.informers import (
    BUDGETS,
    CONTROLLERS,
    GROUPS,
    NAMESPACES,
    NODES,
    PODS,
    POLICIES,
    QUOTAS,
    Informers,
    Needs,
)
from engine.cache.list_watch import bodies
from engine.cache.reflector import Timing
from engine.objects.peer import Peer
from engine.objects.pod_group import COSCHEDULING, GROUP_VERSIONS, KUBERNETES, GroupName, PodGroup
from engine.objects.resources import PodRequests
from tests.support import builders
from tests.support.engines import CODEC
from tests.support.fake_api_server import FakeApiServer, fake_api_server
from tests.support.fake_clock import until
from tests.support.kubeconfig import client_of


def begun(_name: str, work: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
    """The work as a task."""

    async def run() -> None:
        await work()

    return asyncio.create_task(run())


async def test_nothing_is_watched_after_the_end(tmp_path: Path) -> None:
    """Policies may still be read when a server ends, and they say what is to be watched."""
    started: list[str] = []

    def start(name: str, work: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
        started.append(name)
        return begun(name, work)

    async with fake_api_server() as server, client_of(server.url, tmp_path) as client:
        informers = Informers(client, CODEC, Timing(), start)
        informers.start(Needs())
        assert "reflector/nodes" in started
        started.clear()
        await informers.stop()
        informers.start(Needs())
        assert started == []
        assert list(informers.informers) == []


def put(server: FakeApiServer, name: str, on: str, app: str) -> None:
    """Make or change a pod of the server."""
    found = builders.pod(name, "shop", on=on, labels={"app": app})
    server.put(PODS.path, f"shop/{name}", spec=found["spec"], metadata=found["metadata"])


@pytest.mark.fake_clock
@pytest.mark.parametrize("streams", [True, False], ids=["stream", "pages"])
async def test_a_list_for_a_new_leader_has_the_newest_states(
    tmp_path: Path, *, streams: bool
) -> None:
    """Its watch has swallowed bindings, a label and a deletion, and shows nothing any more."""
    async with fake_api_server() as server, client_of(server.url, tmp_path) as client:
        server.streams = streams
        server.open(NODES.path)
        for number in range(4):
            put(server, f"web-{number}", "", "web")
        informers = Informers(client, CODEC, Timing(), begun)
        changes: list[tuple[str, str]] = []

        def changed(_: Peer | None, new: Peer | None, __: int) -> None:
            if new is not None:
                changes.append((new.name, new.nodeName))

        informers.cache.add_event_handler(changed)
        informers.start(Needs())
        await informers.synced()
        await until(lambda: server.watches(PODS.path) == 1)
        server.dropped = 4
        put(server, "web-0", "n1", "web")
        put(server, "web-1", "n2", "web")
        put(server, "web-2", "", "shop")
        server.delete(PODS.path, "shop/web-3")
        changes.clear()

        await informers.list_pods_anew()

        pods = {pod.name: (pod.nodeName, pod.labels["app"]) for pod in informers.cache.every()}
        assert pods == {"web-0": ("n1", "web"), "web-1": ("n2", "web"), "web-2": ("", "shop")}
        assert changes == [("web-0", "n1"), ("web-1", "n2"), ("web-2", "")]
        assert {pod.name for pod in informers.snapshot().pending.values()} == {"web-2"}
        await informers.stop()


@pytest.mark.fake_clock
async def test_disruption_budgets_are_known_while_they_may_be_watched(tmp_path: Path) -> None:
    """Nothing waits for them: without them the API server decides alone."""
    spec = {"selector": {"matchLabels": {"app": "web"}}}
    async with fake_api_server() as server, client_of(server.url, tmp_path) as client:
        for resource in (NODES, PODS, NAMESPACES, *CONTROLLERS.values()):
            server.open(resource.path)
        server.forbidden.add(BUDGETS.path)
        server.put(BUDGETS.path, "shop/web", spec=spec, status={"disruptionsAllowed": 2})
        informers = Informers(client, CODEC, Timing(), begun)
        informers.start(Needs(repairs=True))
        await informers.synced()
        assert informers.snapshot().budgets is None
        watched = next(i for i in informers.informers if i.resource is BUDGETS)
        await until(lambda: bool(watched.reflector.failure))
        assert "cannot watch poddisruptionbudgets" in watched.reflector.failure

        server.forbidden.clear()
        await until(lambda: informers.snapshot().budgets is not None)
        found = informers.snapshot().budgets
        assert found is not None
        assert [(each.name, each.allowed) for each in found["shop"]] == [("web", 2)]
        server.put(BUDGETS.path, "shop/web", spec=spec, status={"disruptionsAllowed": 0})
        await until(lambda: (informers.snapshot().budgets or {})["shop"][0].allowed == 0)
        server.delete(BUDGETS.path, "shop/web")
        await until(lambda: informers.snapshot().budgets == {})

        server.forbidden.add(BUDGETS.path)
        server.close_watches(BUDGETS.path)
        await until(lambda: informers.snapshot().budgets is None)
        await informers.stop()


@pytest.mark.fake_clock
async def test_quotas_are_known_as_far_as_they_may_be_watched(tmp_path: Path) -> None:
    """Nothing waits for them."""
    status = {"hard": {"pods": "4"}, "used": {"pods": "4"}}
    async with fake_api_server() as server, client_of(server.url, tmp_path) as client:
        server.open(NODES.path)
        server.open(PODS.path)
        server.forbidden.add(QUOTAS.path)
        server.put(QUOTAS.path, "ml/team", status=status)
        informers = Informers(client, CODEC, Timing(), begun)
        informers.start(Needs(quotas=True))
        await informers.synced()
        known = informers.cache.quotas
        assert known == {}
        server.forbidden.clear()
        await until(lambda: [*known] == ["ml/team"])
        assert known["ml/team"].lacks(PodRequests(), {}) == "4 of 4 pods"
        server.put(QUOTAS.path, "ml/team", status=status | {"used": {"pods": "3"}})
        await until(lambda: known["ml/team"].lacks(PodRequests(), {}) == "")
        server.delete(QUOTAS.path, "ml/team")
        await until(lambda: known == {})
        await informers.stop()


@pytest.mark.fake_clock
async def test_disruption_budgets_that_are_not_watched_are_not_known(tmp_path: Path) -> None:
    async with fake_api_server() as server, client_of(server.url, tmp_path) as client:
        server.open(NODES.path)
        server.open(PODS.path)
        informers = Informers(client, CODEC, Timing(), begun)
        informers.start(Needs())
        await informers.synced()
        assert informers.snapshot().budgets is None
        await informers.stop()


@pytest.mark.fake_clock
@pytest.mark.parametrize("where", ["ml", "other"])
async def test_pod_groups_without_room_come_when_they_are_asked_about(
    tmp_path: Path, where: str
) -> None:
    """What a namespace keeps takes nothing from another one."""
    path, name = GROUPS[COSCHEDULING].path, "g99" if where == "ml" else "zz"
    async with fake_api_server() as server, client_of(server.url, tmp_path) as client:
        server.open(NODES.path)
        server.open(PODS.path)
        for each in POLICIES:
            server.open(each.path)
        informers = Informers(client, CODEC, Timing(absent=1.0), begun)
        cache = informers.cache
        cache.accounts.keep("ml", "table", cache.accounts.room("ml", "table") - 10_000)
        for number in range(100):
            server.put(path, f"ml/g{number:02}", spec={"minMember": 4})
        informers.start(Needs(groups=True))
        await until(lambda: (cache.lacks_room("ml"), len(cache.groups)) == (True, 10))
        asked = GroupName(COSCHEDULING, name)
        if where == "ml":
            one = path.replace("/podgroups", "/namespaces/ml/podgroups")
            server.put(one, f"ml/{name}", spec={"minMember": 4})
            assert cache.group("ml", asked) is None
            cache.accounts.drop("table")
            assert not cache.lacks_room("ml")
        else:
            server.put(path, f"other/{name}", spec={"minMember": 4})
        await until(lambda: cache.group(where, asked) == PodGroup(name, 4))
        assert len(cache.groups) == 11
        await informers.stop()


@pytest.mark.fake_clock
async def test_pod_groups_of_each_api_that_is_served(tmp_path: Path) -> None:
    """One API may be served later than the other, or not at all; nothing waits for them."""
    kubernetes, coscheduling = (GroupName(api, "bert") for api in GROUPS)
    own, other = (GROUPS[api].path for api in GROUPS)
    async with fake_api_server() as server, client_of(server.url, tmp_path) as client:
        server.open(NODES.path)
        server.open(PODS.path)
        server.put(other, "ml/bert", spec={"minMember": 4})
        informers = Informers(client, CODEC, Timing(absent=1.0), begun)
        informers.start(Needs(groups=True))
        await informers.synced()
        await until(lambda: informers.cache.group("ml", coscheduling) == PodGroup("bert", 4))
        assert informers.cache.group("ml", kubernetes) is None
        server.put(own, "ml/bert", spec={"schedulingPolicy": {"gang": {"minCount": 3}}})
        await until(lambda: informers.cache.group("ml", kubernetes) == PodGroup("bert", 3))
        server.put(other, "ml/bert", spec={"minMember": 5})
        await until(lambda: informers.cache.group("ml", coscheduling) == PodGroup("bert", 5))
        server.delete(other, "ml/bert")
        await until(lambda: informers.cache.group("ml", coscheduling) is None)
        await informers.stop()


@pytest.mark.fake_clock
@pytest.mark.parametrize("version", GROUP_VERSIONS[KUBERNETES])
async def test_pod_groups_are_read_in_the_version_that_is_served(
    version: str, tmp_path: Path
) -> None:
    path = f"/apis/{KUBERNETES}/{version}/podgroups"
    async with fake_api_server() as server, client_of(server.url, tmp_path) as client:
        server.open(NODES.path)
        server.open(PODS.path)
        server.put(path, "ml/bert", spec={"schedulingPolicy": {"gang": {"minCount": 3}}})
        informers = Informers(client, CODEC, Timing(absent=1.0), begun)
        informers.start(Needs(groups=True))
        await informers.synced()
        name = GroupName(KUBERNETES, "bert")
        await until(lambda: informers.cache.group("ml", name) == PodGroup("bert", 3))
        server.put(path, "ml/bert", spec={"schedulingPolicy": {"gang": {"minCount": 4}}})
        await until(lambda: informers.cache.group("ml", name) == PodGroup("bert", 4))
        (informer,) = (i for i in informers.informers if i.resource.name == "podgroups")
        listed = [body async for body in bodies(client, informer.resource, 500, 10.0)]
        assert b'"minCount": 4' in b"".join(listed)
        await informers.stop()


@pytest.mark.fake_clock
async def test_failed_pods_are_known_when_rules_read_them_and_stay_so(tmp_path: Path) -> None:
    async with fake_api_server() as server, client_of(server.url, tmp_path) as client:
        server.open(NODES.path)
        owner = {"kind": "Job", "name": "j", "uid": "uid-j", "controller": True}
        for name, phase in (("one", "Failed"), ("two", "Running")):
            spec = builders.pod(name, "shop", on="n")["spec"]
            status = {"phase": phase}
            server.put(
                PODS.path, f"shop/{name}", spec=spec, status=status,
                metadata={"ownerReferences": [owner], "name": name, "uid": f"uid-{name}"},
            )  # fmt: skip
        informers = Informers(client, CODEC, Timing(), begun)
        informers.start(Needs())
        await informers.synced()
        assert "failedpods" not in {each.resource.name for each in informers.informers}
        informers.start(Needs(failures=True))
        await informers.synced()

        def failed() -> list[str]:
            known = informers.snapshot().failures.get("uid-j", ())
            return sorted(each.name for each in known)

        assert failed() == ["one"]
        server.put(
            PODS.path, "shop/two", spec=spec, status={"phase": "Failed"},
            metadata={"ownerReferences": [owner], "name": "two", "uid": "uid-two"},
        )  # fmt: skip
        await until(lambda: failed() == ["one", "two"])
        server.delete(PODS.path, "shop/one")
        server.delete(PODS.path, "shop/two")
        await until(
            lambda: not any(len(i.store) for i in informers.informers if i.resource is PODS)
        )
        assert failed() == ["one", "two"]
        await informers.stop()

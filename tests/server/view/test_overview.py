"""The overview over HTTP: nodes, pods that wait and why, bounds, and edits of policies."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from aiohttp import ClientSession

from engine.cache.cache import Cache
from engine.cache.node_table import Snapshot
from engine.decision.journal import Journal
from engine.decision.recent_answers import AfterDecision
from engine.errors import NotSyncedError
from server.runtime.file_cluster import leave_uncollected
from tests.support.builders import Object, node, pod, raw
from tests.support.engines import Known, cache_of, engine_over, peer_of
from tests.support.view_server import Cluster, Parts, view_of

POLICIES = """
policy web {
  for pods where pod.labels["app"] == "web"
  limit "zone" {
    pods where peer.labels["app"] == "web"
    per node.labels["topology.kubernetes.io/zone"]
    at most 3
    strict
  }
  limit "cpu" {
    sum peer.requests["cpu"] of pods where peer.labels["app"] == "web"
    per node
    at most "1500m"
    strict
  }
}
policy apart {
  for pods where pod.labels["app"] == "db"
  spread "zones" { over node.labels["topology.kubernetes.io/zone"] skew at most 2 strict }
}
"""
ZONE = "topology.kubernetes.io/zone"
NODES = [
    node("a1", "a", cpu="4", labels={"pool": "x"}),
    node("a2", "a", cpu="4", labels={"pool": "y"}, unschedulable=True),
    node("b1", "b", cpu="4", ready=False),
]
WEB, DB = {"app": "web"}, {"app": "db"}
PLACED = [
    pod("web-1", "shop", cpu="1", labels=WEB, on="a1"),
    pod("web-2", "shop", cpu="500m", labels=WEB, on="a1"),
    pod("web-3", "shop", cpu="500m", labels=WEB, on="a2"),
]
TOLD = "0/3 nodes are available: 3 Insufficient cpu."
WAITING = [
    pod("big", "shop", cpu="64", created="2026-11-21T08:00:00Z"),
    pod("silent", "shop", cpu="1", created="2026-11-21T09:00:00Z"),
]
WAITING[0]["status"]["conditions"] = [
    {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": TOLD}
]


@dataclass
class Asked:
    session: ClientSession
    cluster: Cluster

    async def get(self, path: str) -> Any:
        async with self.session.get(f"/api/v1/{path}") as response:
            assert response.status == 200, await response.text()
            return json.loads(await response.text())


@asynccontextmanager
async def asking(
    policies: str = POLICIES, pods: list[Object] | None = None
) -> AsyncIterator[Asked]:
    journal, every = Journal(), [*PLACED, *WAITING] if pods is None else pods
    cache = cache_of(NODES, every)
    engine = engine_over(policies, cache, after=AfterDecision(journal=journal))
    known = {f"shop/{each['metadata']['name']}": raw(each) for each in every}
    cluster = Cluster(policies, engine, known, state=Known(cache))
    async with view_of(Parts(journal, cluster=cluster)) as url, ClientSession(url) as session:
        yield Asked(session, cluster)


async def test_nodes_have_their_load_and_their_group() -> None:
    async with asking() as view:
        found = await view.get("overview")
        nodes = found["nodes"]
        assert (found["pods"], found["waiting"]) == (3, 2)
        assert nodes["names"] == ["a1", "a2", "b1"]
        assert [nodes["groups"][g] for g in nodes["group"]] == ["a", "a", "b"]
        assert (nodes["label"], nodes["labels"]) == (ZONE, [ZONE, "pool"])
        assert nodes["cpu"] == [37, 12, 0]
        assert nodes["pods"] == [2, 1, 0]
        assert nodes["state"] == [0, 1, 2]
        assert nodes["cards"] is None
        pools = (await view.get("overview?label=pool"))["nodes"]
        assert (pools["groups"], pools["group"]) == (["x", "y"], [0, 1, -1])


async def test_pods_that_wait_have_the_cause_of_their_explanation() -> None:
    """Also of a pod about which kube-scheduler has said nothing."""
    async with asking() as view:
        found = await view.get("waiting")
        assert [(w["pod"], w["pods"], w["asked"]) for w in found["waiting"]] == [
            ("shop/big", 1, True),
            ("shop/silent", 1, False),
        ]
        for each in found["waiting"]:
            explained = await view.get(f"explain/{each['pod']}")
            assert each["cause"] == explained["cause"]
        assert "Insufficient cpu" in found["waiting"][0]["cause"]["text"]
        assert found["waiting"][1]["cause"]["kind"] == "not asked yet"
        assert (found["more"], found["complete"]) == (0, True)


async def test_pods_of_one_workload_wait_together() -> None:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "rs-1"}
    many = [pod(f"w{n}", "shop", created=f"2026-11-21T0{n}:00:00Z") for n in range(1, 6)]
    for each in many:
        each["metadata"]["ownerReferences"] = [owner | {"controller": True}]
    async with asking(pods=many[::-1]) as view:
        (found,) = (await view.get("waiting"))["waiting"]
        assert (found["pod"], found["pods"]) == ("shop/w1", 5)


async def test_bounds_have_what_counts_for_filter() -> None:
    """A pod that is there counts, too, and only bounds from above are told."""
    async with asking() as view:
        bounds = (await view.get("fills"))["bounds"]
        assert [(b["policy"], b["clause"]) for b in bounds] == [("web", "zone"), ("web", "cpu")]
        assert bounds[0]["groups"] == [
            {"name": "a", "used": 3, "most": 3},
            {"name": "b", "used": 0, "most": 3},
        ]
        assert bounds[1]["groups"] == [
            {"name": "a1", "used": 1.5, "most": 1.5},
            {"name": "a2", "used": 0.5, "most": 1.5},
            {"name": "b1", "used": 0, "most": 1.5},
        ]


async def test_a_spread_is_full_where_its_skew_is_reached() -> None:
    pods = [pod(f"db-{n}", "shop", labels=DB, on="a1") for n in range(2)]
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "sts-1"}
    for each in pods:
        each["metadata"]["ownerReferences"] = [owner | {"controller": True}]
    async with asking(pods=pods) as view:
        (bound,) = (await view.get("fills"))["bounds"]
        assert (bound["clause"], bound["of"]) == ("zones", "StatefulSet/db")
        assert bound["groups"] == [
            {"name": "a", "used": 2, "most": 2},
            {"name": "b", "used": 0, "most": 2},
        ]


async def test_an_answer_lists_the_first_pods_that_a_clause_counts() -> None:
    """Nearest misses have them for each node, and all are read while decisions wait."""
    there = [pod(f"web-{n:03}", "shop", labels=WEB, on="a1") for n in range(150)]
    async with asking(pods=[*there, pod("new", "shop", labels=WEB)]) as view:
        found = await view.get("explain/shop/new?node=a2")
        (miss,) = (each for each in found["nearest"] if each["node"] == "a2")
        of_node = [each for each in found["node"]["clauses"] if not each["holds"]]
        for (zone,) in (miss["rejectedBy"], of_node):
            assert zone["counts"]["text"].startswith("150 in this node's domain")
            assert [each["name"] for each in zone["counts"]["pods"]] == [
                f"shop/web-{n:03}" for n in range(100)
            ]
            assert zone["counts"]["more"] == 50


TOGETHER = """policy web {
  for pods where "app" in pod.labels
  share "x" { pods where "app" in peer.labels on nodes where node.labels["pool"] == "x"
    at least 20% strict }
  share "a" { pods where "app" in peer.labels on nodes where node.zone == "a"
    at most 50% strict }
}"""


async def test_shares_that_are_judged_together_have_their_own_groups() -> None:
    async with asking(TOGETHER) as view:
        (bound,) = (await view.get("fills"))["bounds"]
        assert (bound["clause"], bound["groups"]) == (
            "a",
            [{"name": "its nodes", "used": 3, "most": 1}],
        )


CARDS = """policy gpu {
  for pods where "milli" in pod.labels
  cards "gpu" {
    on node 2 of {"milli": 1000}
    take {"milli": int(pod.labels["milli"])}
  }
}"""


async def test_cards_fill_up_like_bounds() -> None:
    pods = [pod("train", "shop", on="a1", labels={"milli": "600"})]
    async with asking(CARDS, pods) as view:
        (bound,) = (await view.get("fills"))["bounds"]
        assert (bound["policy"], bound["clause"], bound["of"]) == ("gpu", "gpu", "milli")
        assert bound["groups"] == [
            {"name": "all nodes", "used": 600, "most": 6000},
            {"name": "a1", "used": 600, "most": 2000},
            {"name": "a2", "used": 0, "most": 2000},
            {"name": "b1", "used": 0, "most": 2000},
        ]
        assert (await view.get("overview"))["nodes"]["cards"] == [30, 0, 0]


class _Unknown:
    """A cluster that is not known yet."""

    pods = Cache()

    def snapshot(self) -> Snapshot:
        raise NotSyncedError("pods are not synced")


async def test_a_cluster_that_is_not_known_is_said_to_be() -> None:
    cluster = Cluster(state=_Unknown())
    async with view_of(Parts(Journal(), cluster=cluster)) as url, ClientSession(url) as session:
        for path in ("overview", "waiting", "fills"):
            async with session.get(f"/api/v1/{path}") as response:
                assert (response.status, await response.text()) == (503, "pods are not synced\n")


async def test_policies_are_listed_while_the_cluster_is_not_known() -> None:
    cluster = Cluster(POLICIES, state=_Unknown())
    async with view_of(Parts(Journal(), cluster=cluster)) as url, ClientSession(url) as session:
        async with session.get("/api/v1/policies") as response:
            found = (await response.json())["policies"]
        assert [(each["address"], each["selected"]) for each in found] == [
            ("apart", None),
            ("web", None),
        ]
        async with session.get("/api/v1/policies/web") as response:
            assert (await response.json())["listed"] == []


def object_of(rules: str, manager: str, at: str) -> bytes:
    written = [
        {"manager": "kube-old", "time": "2026-11-01T00:00:00Z"},
        {"manager": manager, "time": at},
        {"manager": "placet", "time": "2026-11-30T00:00:00Z", "subresource": "status"},
    ]
    return msgspec.json.encode(
        {
            "apiVersion": "placement-policy.scheduling.x-k8s.io/v1",
            "kind": "PlacementPolicy",
            "metadata": {
                "name": "share",
                "namespace": "shop",
                "uid": "u",
                "managedFields": written,
            },
            "spec": {"podSelector": {}, "rules": rules},
        }
    )


async def test_edits_say_who_and_when() -> None:
    name = "placementpolicies/shop/share"
    cluster = Cluster(
        "", bodies={name: object_of("filter { require true }", "kubectl", "2026-11-21T09:00:00Z")}
    )
    async with view_of(Parts(Journal(), cluster=cluster)) as url, ClientSession(url) as session:
        (edit,) = (await Asked(session, cluster).get("overview"))["edits"]
        assert edit == {
            "address": "shop/share",
            "at": "2026-11-21T09:00:00Z",
            "by": "kubectl",
            "action": "edited",
        }


# ---- of many


async def _held(ends: asyncio.Event) -> float:
    """The longest step of the loop so far, by the time of its thread, until the end."""
    longest = 0.0
    while not ends.is_set():
        before = time.thread_time()
        await asyncio.sleep(0)
        longest = max(longest, time.thread_time() - before)
    return longest


@pytest.mark.thorough
async def test_a_large_cluster_is_answered_in_steps() -> None:
    """5,000 nodes and 50,000 pods: in 300 ms, and no step of the loop is above 20 ms."""
    nodes = [
        node(f"n{i}", f"z{i % 6}", cpu="96", labels={"pool": f"p{i % 9}", "rack": f"r{i}"})
        for i in range(5_000)
    ]
    cache = cache_of(nodes)
    for number in range(50_000):
        each = pod(f"w{number}", f"ns{number % 40}", cpu="1", labels=WEB, on=f"n{number % 5000}")
        cache.put_pod(peer_of(each))
    late = [pod(f"late{number}", "ns1", cpu="200") for number in range(300)]
    for each in late:
        cache.put_pod(peer_of(each), body=raw(each))
    engine, journal = engine_over(POLICIES, cache), Journal()
    known = {f"ns1/{each['metadata']['name']}": raw(each) for each in late}
    cluster = Cluster(POLICIES, engine, known, state=Known(cache))
    # The table of the snapshot is made for decisions, whoever looks.
    cache.snapshot()
    # As a server does.
    leave_uncollected()
    # Of three views: the machine has other work, which shows in the time of a thread, too.
    found = [await _asked_by_many(Parts(journal, cluster=cluster)) for _ in range(3)]
    assert min(seconds for seconds, _ in found) < 0.3
    assert min(longest for _, longest in found) < 0.02


async def _asked_by_many(parts: Parts) -> tuple[float, float]:
    """The seconds until the first answer, and of the longest step of the loop."""
    ends = asyncio.Event()
    async with view_of(parts) as url, ClientSession(url) as session:
        view = Asked(session, parts.cluster)
        # The first request of a client, and of a server, takes longer, whatever it asks.
        await view.get("status")
        watching = asyncio.create_task(_held(ends))
        await asyncio.sleep(0)
        began = time.perf_counter()
        found = await view.get("overview")
        seconds = time.perf_counter() - began
        readers = await asyncio.gather(*(view.get("overview") for _ in range(10)))
        waiting = await view.get("waiting")
        ends.set()
        longest = await watching
    assert (len(found["nodes"]["names"]), found["pods"], found["waiting"]) == (5_000, 50_000, 300)
    assert all(len(each["nodes"]["names"]) == 5_000 for each in readers)
    assert waiting["waiting"][0]["cause"] is not None
    return seconds, longest

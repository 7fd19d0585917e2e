"""The view: decisions with their reasons, the stream, the status, and who gets an answer."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import struct
from collections.abc import AsyncIterator
from dataclasses import dataclass
from socket import SO_LINGER, SOL_SOCKET
from typing import Any

import msgspec
import pytest
from aiohttp import ClientSession
from prometheus_client import CollectorRegistry

from engine.decision.journal import Journal
from engine.decision.recent_answers import AfterDecision
from engine.decision.registry import Registry
from engine.engine import Engine
from engine.errors import EngineError
from grammar.messages.texts import escaped_values
from grammar.values.time import Timestamp
from server.call import CallRecord
from server.metrics.metrics import Metrics
from server.view.history import within
from server.view.page import json_of
from tests.support.builders import node, pod, raw
from tests.support.engines import engine_of
from tests.support.view_server import Parts, view_of

POLICY = """
policy web {
  for pods where pod.labels["app"] == "web"
  filter "fast" {
    require node.labels["disk"] == "ssd"
    message "wants a fast disk"
  }
  filter "cool" { require int(node.labels["degrees"]) < 30 }
  score "coolest" weight 1 { value 30 - int(node.labels["degrees"]) range 0 .. 30 }
}
policy all { for pods where pod.name != "" score "any" weight 1 { value 1 } }
"""
NODES = [
    node("n1", labels={"disk": "ssd", "degrees": "3"}),
    node("n2", labels={"disk": "hdd", "degrees": "3"}),
    node("n3", labels={"disk": "ssd", "degrees": "many"}),
    node("n4", labels={"disk": "hdd", "degrees": "3"}),
    node("n5", labels={"disk": "ssd", "degrees": "27"}),
]
NAMES = ["n5", "n4", "n3", "n2", "n1"]
WEB = raw(pod("web-1", "shop", labels={"app": "web"}))
AT = Timestamp.parse("2026-11-21T12:00:00.123456789Z")
OWNED = {
    "ownerReferences": [
        {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "name": "w",
            "uid": "s",
            "controller": True,
        }
    ]
}


@dataclass(frozen=True)
class Asked:
    """A view, and the journal that it shows."""

    parts: Parts
    session: ClientSession

    async def get(self, path: str, **headers: str) -> tuple[int, Any]:
        """Status and content, which is JSON or text."""
        async with self.session.get(path, headers=headers) as response:
            text = await response.text()
            return response.status, json.loads(text) if response.status == 200 else text


@pytest.fixture
async def view(journal: Journal) -> AsyncIterator[Asked]:
    parts = Parts(journal)
    async with view_of(parts) as url, ClientSession(url) as session:
        yield Asked(parts, session)


@pytest.fixture
def engine(journal: Journal) -> Engine:
    return engine_of(POLICY, NODES, after=AfterDecision(journal=journal))


@pytest.fixture
def journal() -> Journal:
    return Journal(now=lambda: AT)


async def test_a_decision_has_its_reasons(view: Asked, engine: Engine) -> None:
    engine.filter(WEB, NAMES, None, math.inf)
    engine.prioritize(WEB, ["n5", "n1"], None, math.inf)
    _, detail = await view.get("/api/v1/decisions/shop/web-1")
    assert {k: detail[k] for k in ("replica", "pod", "at", "nodes", "passing", "problem")} == {
        "replica": "placet-0",
        "pod": "shop/web-1",
        "at": "2026-11-21T12:00:00Z",
        "nodes": 5,
        "passing": 2,
        "problem": None,
    }
    digests = {p.address: p.digest for p in engine.registry.programs}
    assert [(p["address"], p["applies"], p["digest"]) for p in detail["policies"]] == [
        ("web", "governs", digests["web"]),
        ("all", "gives way", digests["all"]),
    ]
    assert not detail["policiesChanged"]
    passing, first, second = detail["groups"]
    assert (passing["rejectedBy"], passing["names"]) == ([], ["n1", "n5"])
    text = "web: fast: wants a fast disk"
    assert first == {
        "rejectedBy": [{"policy": "web", "clause": "fast", "text": text}],
        "nodes": 2,
        "names": ["n2", "n4"],
        "heldBack": "",
    }
    (cool,) = second["rejectedBy"]
    assert (cool["clause"], second["names"]) == ("cool", ["n3"])
    assert "many" in cool["text"]
    assert detail["scores"] == [{"node": "n1", "score": 9}, {"node": "n5", "score": 1}]


async def test_the_list_has_the_newest_first(view: Asked, engine: Engine) -> None:
    path = "/api/v1/decisions"
    assert await view.get(path) == (
        200,
        {"replica": "placet-0", "decisions": [], "more": False, "number": 0},
    )
    engine.filter(WEB, NAMES, None, math.inf)
    engine.filter(raw(pod("report", "ads")), NAMES, None, math.inf)
    _, answer = await view.get(path)
    first, second = answer["decisions"]
    assert second.pop("seconds") > 0.0
    assert second == {
        "number": 1,
        "pod": "shop/web-1",
        "at": "2026-11-21T12:00:00Z",
        "nodes": 5,
        "passing": 2,
        "governing": "web",
        "problem": None,
        "scoredSeconds": None,
        "heldBack": 0,
    }
    assert (first["pod"], first["passing"], first["number"]) == ("ads/report", 5, 2)
    _, answer = await view.get(f"{path}?limit=1")
    assert (len(answer["decisions"]), answer["more"]) == (1, True)
    _, answer = await view.get(f"{path}?namespace=shop")
    assert [each["pod"] for each in answer["decisions"]] == ["shop/web-1"]


@pytest.mark.parametrize("limit", ["0", "1001", "-1", "x", "9" * 30, "²"])
async def test_a_listing_is_bounded(view: Asked, limit: str) -> None:
    answer = await view.get(f"/api/v1/decisions?limit={limit}")
    assert answer == (400, "limit is a number from 1 to 1000\n")


async def test_changed_policies_are_reported(view: Asked, engine: Engine) -> None:
    engine.filter(WEB, NAMES, None, math.inf)
    engine.adopt(Registry())
    _, detail = await view.get("/api/v1/decisions/shop/web-1")
    assert (detail["generation"], detail["policiesChanged"]) == (1, True)


async def test_after_an_error_no_node_passes(view: Asked, engine: Engine) -> None:
    with pytest.raises(EngineError):
        engine.filter(WEB, NAMES, None, -math.inf)
    _, detail = await view.get("/api/v1/decisions/shop/web-1")
    assert detail["problem"] == "the decision took longer than the request may"
    assert (detail["nodes"], detail["passing"], detail["groups"]) == (5, 0, [])


@pytest.mark.parametrize("path", ["shop/web-2", "web-1/shop"])
async def test_an_unknown_pod_is_not_found(view: Asked, engine: Engine, path: str) -> None:
    engine.filter(WEB, NAMES, None, math.inf)
    answer = await view.get(f"/api/v1/decisions/{path}")
    assert answer == (404, f"there is no recent decision about {path}\n")


async def test_strict_clauses_have_what_they_counted(view: Asked, journal: Journal) -> None:
    """Domains by their values, nodes by their names, and a share by its two sides."""
    text = """
    policy web {
      for pods where pod.labels["app"] == "web"
      spread "zones" { over node.labels["degrees"] skew at most 9 strict }
      limit "one" { per node at most 5 strict }
      share "ssd" {
        at most 80% of pods where peer.labels["app"] == "web"
        on nodes where node.labels["disk"] == "ssd" strict
      }
    }
    """
    there = [pod(f"w{i}", "shop", labels={"app": "web"}, on=n) for i, n in enumerate(("n1", "n2"))]
    owned = [{**each, "metadata": {**each["metadata"], **OWNED}} for each in there]
    engine = engine_of(text, NODES, owned, after=AfterDecision(journal=journal))
    asked = pod("web-1", "shop", labels={"app": "web"})
    engine.filter(raw({**asked, "metadata": {**asked["metadata"], **OWNED}}), NAMES, None, math.inf)
    _, detail = await view.get("/api/v1/decisions/shop/web-1")
    counts = {
        each["clause"]: {group["name"]: group["pods"] for group in each["groups"]}
        for each in detail["counts"]
    }
    assert counts == {
        "zones": {"3": 2},
        "one": {"n1": 1, "n2": 1},
        "ssd": {"its nodes": 1, "other nodes": 1},
    }


# ---- following


async def test_who_follows_asks_for_what_was_decided_since(view: Asked, engine: Engine) -> None:
    for number in range(4):
        engine.filter(raw(pod(f"p{number}", "ads")), NAMES, None, math.inf)
    # Another decision about the same pod takes its place.
    engine.filter(raw(pod("p3", "ads")), NAMES, None, math.inf)
    found = {}
    for after in (0, 2, 5, 9):
        _, listing = await view.get(f"/api/v1/decisions?after={after}&limit=2")
        assert listing["number"] == 5
        found[after] = ([each["number"] for each in listing["decisions"]], listing["more"])
    # A number that is not reached yet is that of another start.
    assert found == {0: ([5, 3], True), 2: ([5, 3], False), 5: ([], False), 9: ([5, 3], True)}
    answer = await view.get("/api/v1/decisions?after=-1")
    assert answer == (400, "after is a number from 0 to 1000000000000000\n")


@pytest.mark.fake_clock
async def test_a_client_that_goes_away_is_no_fault(
    journal: Journal, caplog: pytest.LogCaptureFixture
) -> None:
    """Nor in the middle of a body."""
    parts = Parts(journal)
    async with view_of(parts) as url, asyncio.timeout(60):
        kind = "Content-Type: application/json"
        head = f"Host: localhost\r\n{kind}\r\nContent-Length: 99\r\n\r\n{{"
        _, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
        writer.write(f"POST /api/v1/check HTTP/1.1\r\n{head}".encode())
        await writer.drain()
        # The view reads the body by now.
        await asyncio.sleep(0.2)
        # With a reset, which comes while the view reads.
        linger = struct.pack("ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(SOL_SOCKET, SO_LINGER, linger)
        writer.transport.abort()
        await asyncio.sleep(0.2)
    assert [each for each in caplog.records if each.levelno >= logging.ERROR] == []


# ---- who gets an answer


@pytest.mark.parametrize(
    ("name", "value", "status"),
    [
        ("Host", "evil.example", 403),
        ("Host", "127.0.0.1.evil.example:12346", 403),
        ("Host", "[::1", 403),
        ("Host", "", 403),
        ("Host", "localhost:8080", 200),
        ("Host", "[::1]:8080", 200),
        ("Origin", "http://evil.example", 403),
        ("Origin", "null", 403),
        ("Origin", "http://localhost:3000", 403),
        ("Sec-Fetch-Site", "cross-site", 403),
        ("Sec-Fetch-Site", "same-site", 403),
        ("Sec-Fetch-Site", "same-origin", 200),
    ],
)
async def test_pages_of_other_sites_get_no_answer(
    view: Asked, name: str, value: str, status: int
) -> None:
    """Nor does a site whose name leads to this host."""
    found, text = await view.get("/api/v1/status", **{name: value})
    assert found == status
    assert status == 200 or text.startswith("the view answers ")


async def test_a_link_of_another_site_opens_the_page_alone(view: Asked) -> None:
    follows = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    for path, into, status in (
        ("/ui/", "document", 200),
        ("/ui/", "iframe", 403),
        ("/ui/page.js", "document", 403),
        ("/api/v1/status", "document", 403),
    ):
        headers = {**follows, "Sec-Fetch-Dest": into}
        async with view.session.get(path, headers=headers) as response:
            assert response.status == status, path


async def test_its_own_pages_get_an_answer(view: Asked) -> None:
    async with view.session.get(
        "/api/v1/status", headers={"Host": "localhost:9", "Origin": "http://localhost:9"}
    ) as response:
        assert response.status == 200
        assert response.headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert response.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize(
    "path", ["/filter", "/api/scheduler/filter", "/bind", "/admission/validate"]
)
async def test_it_has_no_verbs(view: Asked, path: str) -> None:
    async with view.session.post(path, data=b"{}") as response:
        assert response.status == 404


async def test_only_one_half_of_the_connections_are_for_one_host(journal: Journal) -> None:
    """The view is for this host alone, so that is all there are: a new one takes an old one's."""
    async with view_of(Parts(journal)) as url, ClientSession(url) as session:
        port = int(url.rpartition(":")[2])
        others = [await asyncio.open_connection("127.0.0.1", port) for _ in range(16)]
        async with session.get("/api/v1/status") as response, asyncio.timeout(60):
            assert response.status == 200
            assert await others[0][0].read() == b""
        for _, writer in others:
            writer.close()
            await writer.wait_closed()


# ---- status


async def test_the_status_is_the_replicas(view: Asked) -> None:
    _, status = await view.get("/api/v1/status")
    assert (status["replica"], status["ready"]) == ("placet-0", True)


async def test_without_a_watched_cluster_there_is_nothing_to_compare(view: Asked) -> None:
    answer = await view.get("/api/v1/cache/compare")
    assert answer == (404, "this server watches no cluster\n")


def test_a_quantile_is_estimated_as_prometheus_does() -> None:
    """In proportion within a bucket; nothing is known beyond the last one."""
    buckets = [(1.0, 50.0), (2.0, 90.0), (math.inf, 100.0)]
    assert [within(buckets, part) for part in (0.5, 0.9, 0.99)] == [1.0, 2.0, None]
    assert within([(1.0, 0.0), (math.inf, 0.0)], 0.5) is None


def test_durations_come_from_the_metrics() -> None:
    metrics = Metrics(CollectorRegistry(), "0")
    for _ in range(4):
        metrics.ended(CallRecord("filter", 0.0), 200, 0.0015, 0)
    (verb, buckets), *others = metrics.durations().items()
    assert (others, verb, buckets[-1][1], within(buckets, 0.5)) == ([], "filter", 4, 0.0015)


@pytest.mark.parametrize("text", ["plain", "a\x7fb", "a\u202eb", "a\x1bb", "a\nb", 'a"b', "ü"])
def test_plain_answers_are_those_of_the_long_way(text: str) -> None:
    """An answer without anything to escape is encoded at once."""
    content = {"names": [text, "b"], "numbers": [1, 2.5, None]}
    assert json_of(content) == msgspec.json.encode(escaped_values(content))

"""Events: each one written once, within limits, and kept for a failed server."""

from __future__ import annotations

import json
from typing import Any

import pytest

from engine.cluster.events import Events, PodEvent, Regarding
from engine.errors import ApiError, ApiUnreachableError

NOW = "2026-01-01T00:00:00.000000Z"
POLICY = Regarding("placement-policy.scheduling.x-k8s.io/v1", "PlacementPolicy", "shop", "web", "u")


class Api:
    """Takes events, or fails."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, dict[str, Any]]] = []
        self.error: Exception | None = None

    async def request(
        self, method: str, path: str, *, body: bytes | None = None, **_: Any
    ) -> bytes:
        assert method == "POST"
        if self.error is not None:
            raise self.error
        self.sent.append((path, json.loads(body or b"{}")))
        return b"{}"


def news(note: str = "a", about: Regarding = POLICY) -> PodEvent:
    return PodEvent(about, "Warning", "Conflicting", "Select", note)


async def test_the_fields_of_an_event() -> None:
    api = Api()
    events = Events(api, "host_1")
    events.add(news())
    await events.send(NOW)
    [(path, sent)] = api.sent
    assert path == "/apis/events.k8s.io/v1/namespaces/shop/events"
    name = sent["metadata"].pop("name")
    assert name.startswith("web.")
    assert sent == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"namespace": "shop"},
        "eventTime": NOW,
        "reportingController": "placet",
        "reportingInstance": "host_1",
        "type": "Warning",
        "reason": "Conflicting",
        "action": "Select",
        "note": "a",
        "regarding": {
            "apiVersion": POLICY.api_version,
            "kind": "PlacementPolicy",
            "namespace": "shop",
            "name": "web",
            "uid": "u",
        },
    }


async def test_an_event_is_not_repeated_until_its_note_changes() -> None:
    api = Api()
    events = Events(api, "host_1")
    for note in "aabba":
        events.add(news(note))
    await events.send(NOW)
    assert [sent["note"] for _, sent in api.sent] == ["a", "b", "a"]


async def test_events_of_cluster_objects_are_in_default() -> None:
    api = Api()
    events = Events(api, "host_1")
    events.add(news(about=Regarding("v1", "ClusterPlacementPolicy", "", "web", "u")))
    await events.send(NOW)
    assert api.sent[0][1]["metadata"]["namespace"] == "default"


async def test_events_wait_for_a_failed_server_but_not_after_a_refusal() -> None:
    api = Api()
    events = Events(api, "host_1")
    events.add(news())
    api.error = ApiUnreachableError("gone")
    with pytest.raises(ApiUnreachableError):
        await events.send(NOW)
    api.error = ApiError(500, "", "")
    with pytest.raises(ApiError):
        await events.send(NOW)
    api.error = None
    await events.send(NOW)
    assert len(api.sent) == 1
    events.add(news("b"))
    api.error = ApiError(403, "Forbidden", "no")
    await events.send(NOW)
    api.error = None
    await events.send(NOW)
    assert len(api.sent) == 1


async def test_events_have_a_rate_limit() -> None:
    api, time = Api(), [0.0]
    events = Events(api, "host_1", lambda: time[0])
    for number in range(80):
        events.add(news(str(number)))
    await events.send(NOW)
    assert len(api.sent) == 50
    time[0] += 2.0
    await events.send(NOW)
    assert len(api.sent) == 60


async def test_a_note_is_one_short_line() -> None:
    """The API server takes 1024 bytes; what is remembered of sent notes is as short."""
    api = Api()
    events = Events(api, "host_1")
    for _ in range(2):
        events.add(news("a\r\nb\u202e" + "\N{PILE OF POO}" * 1000))
    await events.send(NOW)
    [(_, sent)] = api.sent
    assert sent["note"].startswith(r"a\r\nb\u202e")
    assert len(sent["note"].encode()) <= 1024
    assert sent["note"].isprintable()

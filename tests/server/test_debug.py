"""`/debug/decisions`: the last call about a pod with its reasons, and the list of pods."""

from __future__ import annotations

import math

import pytest

from engine.decision.journal import Journal
from engine.decision.registry import Registry
from engine.engine import Engine
from engine.errors import EngineError
from grammar.values.time import Timestamp
from server.debug import Decisions
from tests.server.conftest import Serve
from tests.support.builders import node, pod, raw
from tests.support.engines import engine_of

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


@pytest.fixture
def engine(journal: Journal) -> Engine:
    return engine_of(POLICY, NODES, journal=journal)


@pytest.fixture
def journal() -> Journal:
    return Journal(now=lambda: AT)


async def test_a_decision_has_its_reasons(serve: Serve, engine: Engine, journal: Journal) -> None:
    served = await serve(decisions=Decisions(journal))
    engine.filter(WEB, NAMES, None, math.inf)
    engine.prioritize(WEB, ["n5", "n1"], None, math.inf)
    detail = (await served.get("/debug/decisions/shop/web-1")).json
    assert {k: detail[k] for k in ("pod", "at", "offered", "passing", "error", "passed")} == {
        "pod": "shop/web-1",
        "at": "2026-11-21T12:00:00Z",
        "offered": 5,
        "passing": 2,
        "error": None,
        "passed": ["n1", "n5"],
    }
    assert (detail["governing"], detail["gaveWay"]) == ("web", ["all"])
    assert not detail["policiesChanged"]
    first, second = detail["reasons"]
    assert first == {
        "text": "web: fast: wants a fast disk",
        "policy": "web",
        "clause": "fast",
        "message": "wants a fast disk",
        "error": "",
        "nodes": 2,
        "names": ["n2", "n4"],
    }
    assert (second["clause"], second["names"]) == ("cool", ["n3"])
    assert "many" in second["error"]
    assert detail["scores"] == [{"node": "n1", "score": 9}, {"node": "n5", "score": 1}]


async def test_the_list_has_the_newest_first(
    serve: Serve, engine: Engine, journal: Journal
) -> None:
    served = await serve(decisions=Decisions(journal))
    assert (await served.get("/debug/decisions")).json == {"decisions": []}
    engine.filter(WEB, NAMES, None, math.inf)
    engine.filter(raw(pod("report", "ads")), NAMES, None, math.inf)
    first, second = (await served.get("/debug/decisions")).json["decisions"]
    assert second == {
        "pod": "shop/web-1",
        "at": "2026-11-21T12:00:00Z",
        "offered": 5,
        "passing": 2,
        "governing": "web",
        "error": None,
    }
    assert (first["pod"], first["passing"]) == ("ads/report", 5)


async def test_changed_policies_are_reported(
    serve: Serve, engine: Engine, journal: Journal
) -> None:
    served = await serve(decisions=Decisions(journal))
    engine.filter(WEB, NAMES, None, math.inf)
    engine.adopt(Registry())
    detail = (await served.get("/debug/decisions/shop/web-1")).json
    assert (detail["generation"], detail["policiesChanged"]) == (1, True)


async def test_after_an_error_no_node_passes(
    serve: Serve, engine: Engine, journal: Journal
) -> None:
    served = await serve(decisions=Decisions(journal))
    with pytest.raises(EngineError):
        engine.filter(WEB, NAMES, None, -math.inf)
    detail = (await served.get("/debug/decisions/shop/web-1")).json
    assert detail["error"] == "the decision took longer than the request may"
    assert (detail["offered"], detail["passing"]) == (5, 0)
    assert (detail["passed"], detail["reasons"]) == (None, [])


@pytest.mark.parametrize("path", ["shop/web-2", "web-1/shop"])
async def test_an_unknown_pod_is_not_found(
    serve: Serve, engine: Engine, journal: Journal, path: str
) -> None:
    served = await serve(decisions=Decisions(journal))
    engine.filter(WEB, NAMES, None, math.inf)
    answer = await served.get(f"/debug/decisions/{path}")
    text = f"there is no recent decision about {path}\n"
    assert (answer.status, answer.text) == (404, text)

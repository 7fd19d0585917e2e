"""`/debug/decisions`: what was answered about a pod, by reason, and which pods there were."""

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
def engine() -> Engine:
    engine = engine_of(POLICY, NODES)
    engine.journal = Journal(now=lambda: AT)
    return engine


def decisions(engine: Engine) -> Decisions:
    assert engine.journal is not None
    return Decisions(engine.journal)


async def test_a_decision_is_told_by_reason(serve: Serve, engine: Engine) -> None:
    served = await serve(decisions=decisions(engine))
    engine.filter(WEB, NAMES, None, math.inf)
    engine.prioritize(WEB, ["n5", "n1"], None, math.inf)
    told = (await served.get("/debug/decisions/shop/web-1")).json
    assert {k: told[k] for k in ("pod", "at", "offered", "passing", "error", "passed")} == {
        "pod": "shop/web-1",
        "at": "2026-11-21T12:00:00Z",
        "offered": 5,
        "passing": 2,
        "error": None,
        "passed": ["n1", "n5"],
    }
    assert (told["governing"], told["gaveWay"], told["policiesChanged"]) == ("web", ["all"], False)
    first, second = told["reasons"]
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
    assert told["scores"] == [{"node": "n1", "score": 9}, {"node": "n5", "score": 1}]


async def test_the_list_has_the_newest_first(serve: Serve, engine: Engine) -> None:
    served = await serve(decisions=decisions(engine))
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


async def test_what_changed_since_is_told(serve: Serve, engine: Engine) -> None:
    served = await serve(decisions=decisions(engine))
    engine.filter(WEB, NAMES, None, math.inf)
    engine.adopt(Registry())
    told = (await served.get("/debug/decisions/shop/web-1")).json
    assert (told["generation"], told["policiesChanged"]) == (1, True)


async def test_an_error_is_told_with_no_node_passing(serve: Serve, engine: Engine) -> None:
    served = await serve(decisions=decisions(engine))
    with pytest.raises(EngineError):
        engine.filter(WEB, NAMES, None, -math.inf)
    told = (await served.get("/debug/decisions/shop/web-1")).json
    assert told["error"] == "the decision took longer than the request may"
    assert (told["offered"], told["passing"], told["passed"], told["reasons"]) == (5, 0, None, [])


@pytest.mark.parametrize("path", ["shop/web-2", "web-1/shop"])
async def test_a_pod_that_is_not_known_is_not_found(
    serve: Serve, engine: Engine, path: str
) -> None:
    served = await serve(decisions=decisions(engine))
    engine.filter(WEB, NAMES, None, math.inf)
    answer = await served.get(f"/debug/decisions/{path}")
    assert (answer.status, answer.body.decode()) == (404, f"no decision about {path} is kept\n")

"""Nodes that kube-scheduler knows of and we do not yet: refused, or waited for if none is left."""

from __future__ import annotations

import math

import pytest

from engine.decision.verdict import Feasible, Rejected
from engine.engine import Engine
from engine.errors import WaitingError
from tests.support.builders import node, pod, raw
from tests.support.engines import engine_of

POD = raw(pod("web"))
POOL = 'cluster policy a { filter "pool" { require node.labels["pool"] == "web" } }'
NODES = [node("web", labels={"pool": "web"}), node("other", labels={"pool": "other"})]


@pytest.fixture
def engine() -> Engine:
    return engine_of(POOL, NODES)


def test_refused_where_another_node_passes(engine: Engine) -> None:
    passing, unknown = engine.filter(POD, ["web", "new"], None, math.inf)
    assert isinstance(passing, Feasible)
    assert isinstance(unknown, Rejected)
    assert unknown.reason == "placet: node not yet known"


@pytest.mark.parametrize("names", [["new"], ["other", "new"]], ids=",".join)
def test_waited_for_where_none_passes(engine: Engine, names: list[str]) -> None:
    """A rejection would park the pod until something happens, and it may have happened already."""
    for _ in range(5):
        with pytest.raises(WaitingError, match="node not yet known"):
            engine.filter(POD, names, None, math.inf)


def test_passes_where_no_rule_asks_for_it() -> None:
    engine = engine_of('cluster policy a { filter "x" { require pod.name == "web" } }', NODES)
    (verdict,) = engine.filter(POD, ["new"], None, math.inf)
    assert isinstance(verdict, Feasible)

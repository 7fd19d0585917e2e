"""The policies of a replica over HTTP: state, text, problems, and the numbers of pods over time."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from aiohttp import ClientSession

from engine.decision.journal import Journal
from tests.support.builders import pod, raw
from tests.support.view_server import Cluster, Parts, view_of

TEXT = """
policy web { for pods where pod.labels["app"] == "web" filter "a" { require true } }
policy low { weight 0 for pods where pod.name != "" filter "b" { require node.nme == "x" } }
policy all { for pods where pod.labels["app"] != "" filter "c" { require node.name == "n" } }
"""
SPEC = {"podSelector": {"matchLabels": {"app": "web"}}}


def object_of(placed: int) -> bytes:
    return msgspec.json.encode(
        {
            "apiVersion": "placement-policy.scheduling.x-k8s.io/v1",
            "kind": "PlacementPolicy",
            "metadata": {"name": "share", "namespace": "shop", "uid": "u", "generation": 1},
            "spec": SPEC | {"rules": 'filter "d" { require true }'},
            "status": {"matchedPods": 5, "placedPods": placed, "targetPods": 2, "violations": 1},
        }
    )


NAME = "placementpolicies/shop/share"


async def asked(parts: Parts, *paths: str) -> Sequence[tuple[int, Any]]:
    found = []
    async with view_of(parts) as url, ClientSession(url) as session:
        for path in paths:
            async with session.get(path) as response:
                text = await response.text()
                found.append((response.status, json.loads(text) if response.ok else text))
    return found


def parts_of(placed: int = 1) -> Parts:
    journal = Journal()
    return Parts(journal, cluster=Cluster(TEXT, None, bodies={NAME: object_of(placed)}))


async def test_each_policy_has_its_state() -> None:
    ((_, found),) = await asked(parts_of(), "/api/v1/policies")
    states = {
        p["address"]: (p["state"], p["errors"], p["inForce"] and p["inForce"]["mode"])
        for p in found["policies"]
    }
    assert states == {
        "all": ("in force", 0, "enforce"),
        "low": ("not in force", 1, None),
        "shop/share": ("in force", 0, "enforce"),
        "web": ("in force", 0, "enforce"),
    }
    share = found["policies"][2]
    assert (share["namespace"], share["origin"]) == ("shop", NAME)
    assert share["pods"] == {"matched": 5, "placed": 1, "target": 2, "violations": 1}


async def test_a_policy_has_its_text_and_what_is_wrong_with_it() -> None:
    ((_, found),) = await asked(parts_of(), "/api/v1/policies/low")
    (problem,) = [each for each in found["diagnostics"] if each["severity"] == "error"]
    lines = found["text"].splitlines()
    part = lines[problem["line"] - 1][problem["column"] - 1 : problem["endColumn"] - 1]
    assert (part, problem["line"], problem["endLine"]) == ("nme", 3, 3)
    assert "name" in problem["hint"]


async def test_a_policy_is_overruled_by_those_that_governed_its_pods() -> None:
    parts = parts_of()
    parts.engine.filter(raw(pod("w", labels={"app": "web"})), ["n"], None, math.inf)
    ((_, found),) = await asked(parts, "/api/v1/policies")
    assert {p["address"]: p["overruledBy"] for p in found["policies"]}["web"] == ["all"]


@pytest.mark.parametrize("path", ["none", "shop/none", "web/shop", "%00", "a%2Fb"])
async def test_an_unknown_policy_is_not_found(path: str) -> None:
    ((status, text),) = await asked(parts_of(), f"/api/v1/policies/{path}")
    assert status == 404
    assert text.startswith("there is no policy `")

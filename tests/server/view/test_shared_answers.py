"""Answers of a shared view: who may list the pods of one namespace reads nothing of others.

MARKER stands in every field of what belongs to another namespace, and is looked for in all answers.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from engine.cache.cluster_copy import DataText
from engine.decision.journal import Journal
from engine.decision.recent_answers import AfterDecision
from engine.engine import Engine
from engine.errors import EngineError
from engine.objects.peer import key_of
from engine.offline import tables_of
from engine.program.policy_time import DecisionTime
from grammar.values.time import Timestamp
from server.view.routes import API, ROUTES
from server.view.view_access import ViewAccess
from tests.server.view.test_access import Users
from tests.support.builders import Object, controller, node, pod, raw
from tests.support.engines import CODEC, Known, Silent, cache_of, peer_of
from tests.support.view_server import Cluster, Parts, view_over

MARKER = "m4rk3d"
OPS = """
cluster policy ops {
  data "racks" {
    from configmap "bank/racks" file "racks.csv" by "node"
    columns { owner: string }
  }
  let teams = node.pods.map(p, p.labels[?"team"].orValue(""))
  def named(p: Peer): string = p.name + p.namespace
  group team by node.pods[0].labels["team"]
  group all by true
  count others = all pods where peer.labels["team"] != ""
  filter "let" { require "x" in teams || teams[0] == "y" }
  filter "def" {
    require node.pods.exists(p, named(p) == "x")
    detail "{node.pods.map(p, p)} {teams}"
  }
  filter "own" {
    require size(node.pods) < 1 || node.name == "x"
    detail "{size(node.pods)} of them"
  }
  filter "error" { require node.pods.all(p, int(p.labels["team"]) > 0) message "no number" }
  filter "table" {
    require data.racks[node.name].owner == "x"
    detail "of {data.racks[node.name].owner}"
  }
  filter "rows" {
    require !data.racks.exists(k, k == node.name)
    detail "{data.racks.map(k, k)}"
  }
  filter "group" { require team.nodes > 5 && team.value == "x" detail "{team.value}" }
  filter "nodes" {
    require all.all(n, n.pods[0].name == "x")
    detail "{all.map(n, n.pods[0].name)}"
  }
  filter "count" { require others < 1 detail "{others} there" }
  filter "maps" {
    require node.pods.map(p, p.annotations).size() == 0
    detail "{node.pods.map(p, p.labels)}"
  }
  score "points" weight 1 {
    value double(int(node.pods[0].labels["team"])) range 0 .. 10
    missing 5
  }
  score "load" weight 1 {
    value double(data.racks[node.name].owner) range 0 .. 10
    missing 5
  }
  limit "beside" {
    all pods where peer.labels["app"] == pod.labels["app"]
    per node at most 1 strict
  }
  limit "teams" { all pods where true per node.pods[0].labels["team"] at most 1 strict }
  limit "owners" {
    all pods where true
    per data.racks[node.name].owner at most 1 strict
  }
  limit "of a group" { all pods where true per team at most 1 strict }
  limit "zones" { all pods where true per zone at most 1 strict }
  limit "used" { all pods where true used node at most 1 strict }
  share "half" { all pods where true on nodes where node.pods[0].name == "x" at most 1% strict }
  spread "wide" { pods where true over node.pods[0].labels["team"] skew at most 1 strict }
  cards "gpu" { on node [{"m": 1}] take {"m": 2} detail "{node.cards['gpu']}" }
  gang "g" { of pods by peer.labels["app"] at least 2 for at most 30s }
}
"""
MUTUAL = """
cluster policy alone {
  for pods where pod.namespace == "bank"
  limit "alone" {
    all pods where peer.labels["app"] == pod.labels["app"]
    per node at most 1 strict mutual
  }
}
"""
OWN = f"""
// {MARKER} of the file
policy {MARKER}-salaries in namespace "bank" {{
  // {MARKER}
  for pods where pod.labels["{MARKER}"] == "{MARKER}"
  filter "{MARKER}" {{ require node.name == "{MARKER}" message "{MARKER}" }}
  use "{MARKER}"
}}
policy web in namespace "shop" {{
  // of the shop
  filter "web" {{ require node.name != "n1" || node.pods.all(p, p.name == "x") }}
  filter "web too" {{ require node.labels["disk"] == "ssd" }}
}}
policy wrong in namespace "shop" {{
  for pods where pod.name == "wrong"
  use "m4rk3-salaries"
}}
policy audited in namespace "shop" {{
  mode audit
  filter "never" {{ require node.pods.exists(p, p.name == "x") }}
}}
policy {MARKER}-last in namespace "bank" {{ filter "f" {{ require node.name == "{MARKER}" }} }}
"""


def marked_pod(name: str, on: str | None) -> Object:
    made = pod(
        f"{MARKER}-{name}",
        "bank",
        cpu="1",
        on=on,
        labels={"app": "web", "team": f"{MARKER}-team", MARKER: MARKER},
        annotations={
            MARKER: MARKER,
            "placet.dev/cards": json.dumps({"gpu": {"cards": [0], "take": {"m": 1, MARKER: 1}}}),
        },
        owner=controller("ReplicaSet", f"{MARKER}-owner", "bank"),
        spec={
            "nodeSelector": {MARKER: MARKER},
            "priorityClassName": MARKER,
            "schedulingGroup": {"podGroupName": MARKER},
        },
    )
    made["spec"]["containers"][0] |= {"name": MARKER, "image": MARKER}
    return made


NODES = [node(f"n{number}", f"z{number}") for number in range(3)]
OTHERS = [marked_pod(str(number), f"n{number % 3}") for number in range(6)]
WAITING = marked_pod("waits", None)
OURS = [pod(f"web-{number}", "shop", cpu="1", labels={"app": "web"}) for number in range(3)]
PLACED = pod("web-placed", "shop", cpu="1", on="n0", labels={"app": "web", "team": "1"})


def parts_of(text: str) -> Parts:
    """A view of a cluster with these policies, that has decided about each pod of ours."""
    journal = Journal(now=lambda: Timestamp.parse("2026-11-21T12:00:00Z"))
    cache = cache_of(NODES, [*OTHERS, WAITING, *OURS, PLACED])
    state = Known(cache)
    known = {key_of(peer_of(each)): raw(each) for each in (*OURS, PLACED, WAITING)}
    cluster = Cluster(text, known=known, state=state)
    registry = cluster.enforced.registry
    engine = Engine(
        registry,
        state,
        CODEC,
        Silent(),
        time=DecisionTime(lambda: 100.0, lambda: Timestamp.parse("2026-11-21T12:00:00Z")),
        after=AfterDecision(journal=journal),
    )
    rows = f"node,owner\nn0,{MARKER}\nn1,{MARKER}\n{MARKER},{MARKER}\n".encode()
    engine.take_tables(
        tables_of(
            registry,
            {"racks": DataText("racks.csv", rows, "csv")},
            Timestamp.parse("2026-11-21T12:00:00Z"),
        )
    )
    names = [each["metadata"]["name"] for each in NODES]
    for each in (*OURS, WAITING):
        with suppress(EngineError):
            engine.filter(raw(each), names, None, math.inf)
    return Parts(journal, cluster=replace(cluster, engine=engine))


@pytest.fixture(
    params=[
        OPS,
        MUTUAL,
        OWN,
        OPS + MUTUAL + OWN,
        f'{OWN}policy p in namespace "bank" {{ {MARKER} "x" }}',
    ]
)
async def client(request: pytest.FixtureRequest) -> AsyncIterator[TestClient[Any, Any]]:
    app = view_over(parts_of(request.param), ViewAccess(Users()))
    async with TestClient(TestServer(app)) as client:
        yield client


def paths() -> Iterator[str]:
    """Every path that who may list the pods of one namespace may ask, in each form."""
    fields = {"namespace": "shop", "name": ""}
    for route in ROUTES:
        for name in ("web-0", "web-placed", "web", "wrong", "audited", "p.policy"):
            path = f"{API}{route.path.format(**fields | {'name': name})}"
            match route.right:
                case "path" if "node" in {each.name for each in route.query}:
                    yield from (path, f"{path}?node=n0", f"{path}?node=n1")
                case "path":
                    yield path
                case "query":
                    yield f"{path}?namespace=shop"
                case "policy":
                    yield f"{path}?policy=shop/{name}"
                case "cluster":
                    yield path


async def texts(client: TestClient[Any, Any], token: str) -> Mapping[str, tuple[int, str]]:
    found = {}
    headers = {"Authorization": f"Bearer {token}"}
    for path in paths():
        async with client.get(path, headers=headers) as response:
            found[path] = response.status, await response.text()
    return found


async def test_nothing_of_other_namespaces_is_told(client: TestClient[Any, Any]) -> None:
    found = await texts(client, "jane")
    assert {path: text for path, (_, text) in found.items() if MARKER in text} == {}
    assert found[f"{API}/explain/shop/web-0?node=n1"][0] == 200


CLAUSES = re.findall(
    r"^  (?:filter|score|limit|share|spread|cards|gang) (?:.|\n  (?=[ }]))*", OPS, re.MULTILINE
)
ASKED = ("explain/shop/web-0?node=n0", "explain/shop/web-placed", "decisions/shop/web-0")


async def test_each_clause_by_itself() -> None:
    """So that what others reject hides nothing: an error that rejects, and what scores lack."""
    begin, errors = OPS[: OPS.index("  filter")], 0
    for clause in CLAUSES:
        app = view_over(parts_of(f"{begin}{clause}\n}}"), ViewAccess(Users()))
        async with TestClient(TestServer(app)) as client:
            for path in ASKED:
                asked = client.get(f"{API}/{path}", headers={"Authorization": "Bearer jane"})
                async with asked as response:
                    text = await response.text()
                assert MARKER not in text, (clause, path)
                errors += "reason is not shown" in text
    assert errors >= 4


async def test_numbers_and_what_is_of_the_reader_are_told() -> None:
    app = view_over(parts_of(OPS + OWN), ViewAccess(Users()))
    async with TestClient(TestServer(app)) as client:
        found, whole = await texts(client, "jane"), await texts(client, "admin")
    told = found[f"{API}/explain/shop/web-0?node=n0"][1]
    explained = json.loads(told)["node"]
    clauses = {each["clause"]: each for each in explained["clauses"]}
    assert clauses["own"]["detail"] == "3 of them"
    assert clauses["beside"]["counts"]["pods"] == [{"name": "shop/web-placed", "presence": "bound"}]
    assert clauses["beside"]["counts"]["more"] == 2
    assert "z0" in told
    for path in (
        f"{API}/explain/shop/web-0?node=n0",
        f"{API}/decisions/shop/web-0",
        f"{API}/policies/shop/web",
    ):
        assert MARKER in whole[path][1], path
    policy = json.loads(found[f"{API}/policies/shop/web"][1])
    assert policy["text"].startswith('policy web in namespace "shop" {\n  // of the shop')
    wrong = json.loads(found[f"{API}/policies/shop/wrong"][1])
    (problem,) = wrong["diagnostics"]
    assert (problem["code"], problem["line"], problem["column"]) == ("P0117", 3, 3)

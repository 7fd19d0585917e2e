"""Explanations over HTTP: why a pod is placed as it is, now and then, without holding the loop."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from aiohttp import ClientSession

from engine.decision.journal import Journal
from engine.decision.recent_answers import AfterDecision
from engine.engine import Engine
from engine.errors import NotSyncedError
from engine.explanation.inspection import Inspection
from engine.objects.request_pod import NO_EXEMPTIONS, Exemptions
from grammar.values.time import Timestamp
from tests.support.builders import Object, node, pod, raw
from tests.support.engines import engine_of
from tests.support.view_server import Cluster, Parts, view_of

POLICIES = """
policy web {
  for pods where pod.labels["app"] == "web"
  filter "fast" {
    require node.labels["disk"] == "ssd" && node.labels["zone"] in pod.labels["zones"].split(",")
    message "wants a fast disk"
    detail "it has {node.labels['disk']}"
  }
  filter "cool" { require int(node.labels["degrees"]) < 30 }
  limit "two" {
    pods where peer.labels["app"] == "web"
    per node.labels["zone"]
    at most 2
    strict
  }
  score "coolest" weight 3 { value 30 - int(node.labels["degrees"]) range 0 .. 30 }
  score "first" weight 1 { value node.name == "n1" ? 100 : 0 }
}
policy all { weight 0 for pods where pod.name != "" score "any" weight 1 { value 1 } }
cluster policy every { filter "any" { require true } }
policy other { for pods where pod.name == "x" filter "no" { require false } }
"""


def place(disk: str, degrees: str, zone: str) -> Mapping[str, str]:
    return {"disk": disk, "degrees": degrees, "zone": zone}


NODES = [
    node("n1", labels=place("ssd", "3", "a")),
    node("n2", labels=place("hdd", "3", "a")),
    node("n3", labels=place("ssd", "many", "a")),
    node("n4", labels=place("hdd", "99", "a")),
    node("n5", labels=place("ssd", "27", "a")),
    node("n6", labels=place("ssd", "27", "b")),
]
LABELS = {"app": "web", "zones": "a,b"}
OTHERS = [pod(f"web-{number}", "shop", labels=LABELS, on="n6") for number in (2, 3)]
PRIVATE = "a-value-of-the-environment"
AT = Timestamp.parse("2026-11-21T12:00:00Z")


def web(**spec: Any) -> Object:
    made = pod("web-1", "shop", labels=LABELS)
    made["spec"].update(spec)
    made["spec"]["containers"] = [{"name": "c", "env": [{"name": "PASSWORD", "value": PRIVATE}]}]
    made["metadata"]["annotations"] = {"note": PRIVATE}
    return made


@dataclass
class Asked:
    session: ClientSession
    engine: Engine
    cluster: Cluster

    async def get(self, path: str) -> tuple[int, Any]:
        async with self.session.get(path) as response:
            text = await response.text()
            return response.status, json.loads(text) if response.status == 200 else text


@pytest.fixture
async def view() -> AsyncIterator[Asked]:
    async with asked() as made:
        yield made


@asynccontextmanager
async def asked(exemptions: Exemptions = NO_EXEMPTIONS) -> AsyncIterator[Asked]:
    journal = Journal(now=lambda: AT)
    after = AfterDecision(journal=journal)
    engine = engine_of(POLICIES, NODES, OTHERS, after=after, exemptions=exemptions)
    cluster = Cluster(POLICIES, engine, {"shop/web-1": raw(web())})
    parts = Parts(journal, cluster=cluster)
    async with view_of(parts) as url, ClientSession(url) as session:
        yield Asked(session, engine, cluster)


async def test_nodes_are_grouped_by_the_clauses_that_reject_them(view: Asked) -> None:
    status, found = await view.get("/api/v1/explain/shop/web-1")
    assert status == 200
    groups = [([r["clause"] for r in g["rejectedBy"]], g["names"]) for g in found["groups"]]
    assert groups == [
        ([], ["n1", "n5"]),
        (["fast"], ["n2"]),
        (["cool"], ["n3"]),
        (["fast", "cool"], ["n4"]),
        (["two"], ["n6"]),
    ]
    assert (found["nodes"], found["passing"], found["on"]) == (6, 2, None)
    summaries = {
        c["clause"]: (c["fails"], c["failsOnlyThis"], c["errors"]) for c in found["clauses"]
    }
    assert summaries == {"fast": (2, 1, 0), "cool": (2, 1, 1), "two": (1, 1, 0), "any": (0, 0, 0)}
    fast = {"policy": "web", "clause": "fast", "text": "web: fast: wants a fast disk"}
    (nearest,) = found["nearest"][0]["rejectedBy"]
    (disk,) = nearest.pop("expressions")
    assert nearest == fast | {"holds": False, "detail": "it has hdd"}
    assert disk["values"][0]["value"] == "false"
    assert [n["node"] for n in found["nearest"]] == ["n2", "n3", "n6", "n4"]


async def test_each_policy_says_whether_and_why_it_applies(view: Asked) -> None:
    _, found = await view.get("/api/v1/explain/shop/web-1")
    assert {p["address"]: (p["applies"], p["because"]) for p in found["policies"]} == {
        "web": ("governs", "its weight 101 is higher than the 0 of `all`"),
        "every": ("as a guardrail", "every cluster policy that selects the pod applies"),
        "all": ("gives way", "`web` governs"),
        "other": ("no", "its `for` is false"),
    }


async def test_scores_add_up_to_those_of_the_engine(view: Asked) -> None:
    given = view.engine.prioritize(raw(web()), ["n1", "n5"], None, math.inf)
    _, found = await view.get("/api/v1/explain/shop/web-1?node=n1")
    assert given is not None
    assert [(each["node"], each["score"]) for each in found["scores"]] == list(
        zip(["n1", "n5"], given.points.tolist(), strict=True)
    )
    terms = found["node"]["terms"]
    assert [(t["clause"], t["weight"], t["missing"]) for t in terms] == [
        ("coolest", 3, False),
        ("first", 1, False),
    ]
    assert (
        round(sum(t["adds"] for t in terms))
        == found["node"]["score"]
        == found["scores"][0]["score"]
    )


async def test_a_node_has_the_values_and_the_pods_that_clauses_read(view: Asked) -> None:
    _, found = await view.get("/api/v1/explain/shop/web-1?node=n6")
    by_clause = {c["clause"]: c for c in found["node"]["clauses"]}
    (require,) = by_clause["fast"]["expressions"]
    read = {v["expression"]: v.get("value") for v in require["values"]}
    assert read['node.labels["disk"]'] == '"ssd"'
    assert read['node.labels["zone"]'] == '"b"'
    assert not by_clause["two"]["holds"]
    assert [p["name"] for p in by_clause["two"]["counts"]["pods"]] == ["shop/web-2", "shop/web-3"]
    assert (found["node"]["passes"], found["node"]["score"]) == (False, None)


async def test_the_last_decision_is_beside_what_is_other_now(view: Asked) -> None:
    _, before = await view.get("/api/v1/explain/shop/web-1")
    assert (before["then"], before["changes"]) == (None, [])
    view.engine.filter(raw(web()), ["n1", "n2", "n6"], None, math.inf)
    _, found = await view.get("/api/v1/explain/shop/web-1")
    assert found["then"]["groups"][0]["names"] == ["n1"]
    assert {"what": "nodes", "text": "not offered then: n3, n4, n5"} in found["changes"]


async def test_an_explanation_has_no_values_of_the_environment_or_annotations(view: Asked) -> None:
    for query in ("", "?node=n1", "?node=n6"):
        _, found = await view.get(f"/api/v1/explain/shop/web-1{query}")
        assert PRIVATE not in json.dumps(found)


async def test_texts_of_the_cluster_are_escaped(view: Asked) -> None:
    hostile = "a\x1b[31m\u202e\u2028\x85\x07"
    condition = {"type": "PodScheduled", "status": "False", "message": f"0/1 nodes: {hostile}"}
    asked = web(tolerations=[{"key": hostile}])
    asked["status"]["conditions"] = [condition]
    view.cluster.known = {"shop/web-1": raw(asked)}
    _, found = await view.get("/api/v1/explain/shop/web-1")
    assert "a\\x1b[31m\\u202e" in found["cause"]["text"]
    assert json.dumps(found, ensure_ascii=False).isprintable()


async def test_asking_neither_offers_nor_records_anything(view: Asked) -> None:
    await view.get("/api/v1/explain/shop/web-1?node=n1")
    _, listed = await view.get("/api/v1/decisions")
    assert listed["decisions"] == []
    assert not len(view.engine.in_flight)


async def test_a_pod_on_a_node_is_explained_as_a_pending_one(view: Asked) -> None:
    view.cluster.known = {"shop/web-1": raw(web(nodeName="n1"))}
    _, found = await view.get("/api/v1/explain/shop/web-1")
    assert (found["on"], found["passing"]) == ("n1", 2)


async def test_no_policy_applies_to_an_exempt_pod() -> None:
    async with asked(Exemptions(frozenset({"shop"}), by_annotation=True)) as view:
        _, found = await view.get("/api/v1/explain/shop/web-1?node=n2")
    reason = "namespace `shop` is exempt from policies"
    assert {(p["applies"], p["because"]) for p in found["policies"]} == {("no", reason)}
    assert (found["passing"], found["clauses"], found["node"]["passes"]) == (6, [], True)


async def test_what_is_not_known_is_said(view: Asked) -> None:
    assert await view.get("/api/v1/explain/shop/none") == (
        404,
        "there is no pod `none` in `shop`\n",
    )
    status, text = await view.get("/api/v1/explain/shop/web-1?node=n9")
    assert (status, text) == (404, "there is no node `n9`\n")
    view.cluster.failure = NotSyncedError("the API server is away")
    status, text = await view.get("/api/v1/explain/shop/web-1")
    assert (status, text) == (503, "the API server is away\n")
    view.cluster.failure = None
    view.cluster.known = {"shop/web-1": b'{"metadata": 3}'}
    status, _ = await view.get("/api/v1/explain/shop/web-1")
    assert status == 409


def test_a_portion_is_a_few_nodes_of_one_clause() -> None:
    """With a clock of which each look takes longer than a portion, every look ends one."""
    nodes = [node(f"n{i:03}", labels=place("ssd", "3", "a")) for i in range(40)]
    text = re.sub(r"limit .*?strict\s*}", "", POLICIES, flags=re.DOTALL)
    ticks = itertools.count()
    engine = engine_of(text, nodes)
    work = Inspection(engine, raw(web()), clock=lambda: float(next(ticks)))
    # Three filters and two scores, eight nodes at a time.
    steps = (work.objections(), work.contributions())
    assert sum(1 for step in steps for _ in step) == 5 * 40 / 8


# ---- pods of manifests

MANIFEST = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web, zones: "a,b"}, annotations: {}}
    spec: {containers: [{name: c, image: i}]}
"""


async def test_the_pod_of_a_pasted_workload_is_explained(view: Asked) -> None:
    """As the same pod in the cluster."""

    async def placed(text: str, **more: Any) -> tuple[int, Any]:
        body = {"text": text, **more}
        async with view.session.post("/api/v1/place", json=body) as response:
            found = await response.text()
            return response.status, json.loads(found) if response.status == 200 else found

    status, found = await placed(MANIFEST, node="n6")
    _, same = await view.get("/api/v1/explain/shop/web-1?node=n6")
    assert status == 200
    assert found["pod"].startswith("shop/web-")
    for part in ("groups", "clauses", "nearest", "scores", "policies", "counts"):
        assert found[part] == same[part], part
    assert found["node"]["clauses"] == same["node"]["clauses"]
    assert (found["then"], found["said"]) == (None, None)
    assert await placed(MANIFEST, node="n9") == (404, "there is no node `n9`\n")
    status, text = await placed("kind: ConfigMap\n")
    assert (status, "there are no pods" in text) == (400, True)
    status, text = await placed("a: [")
    assert (status, "cannot be read" in text) == (400, True)
    _, other = await placed(f"{MANIFEST}---\n{MANIFEST.replace('name: web', 'name: db')}")
    assert other["pod"] == found["pod"]
    both = f"{MANIFEST}---\nkind: Pod\nmetadata: {{name: alone}}\n"
    _, other = await placed(both, pod="default/alone")
    assert other["pod"] == "default/alone"
    status, text = await placed(both, pod="default/nobody")
    assert (status, text) == (400, "no pod of the manifests is called `default/nobody`\n")

"""Drafts over HTTP: only with the token of this start, in a process, and without any effect."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from aiohttp import ClientSession

from engine.cache.cluster_copy import DataText
from engine.decision.journal import Journal
from engine.errors import NotSyncedError
from server.admission.checking_process import CheckFailedError, CheckLimitError, CheckTimeoutError
from tests.support.builders import node, pod
from tests.support.view_server import Cluster, Parts, view_of

pytestmark = pytest.mark.process

TEXT = 'policy a { for pods where pod.name != "" filter "f" { require node.nme == "x" } }'
DRAFT = {"text": TEXT}


@dataclass
class Asked:
    """A view, and the token of its session."""

    session: ClientSession
    parts: Parts
    path: str = "check"

    async def post(self, body: Any, **headers: str) -> tuple[int, Any]:
        data = io.BytesIO(body if isinstance(body, bytes) else json.dumps(body).encode())
        given: Mapping[str, str] = {"Content-Type": "application/json"} | {
            name.replace("_", "-"): value for name, value in headers.items()
        }
        async with self.session.post(f"/api/v1/{self.path}", data=data, headers=given) as response:
            text = await response.text()
            return response.status, json.loads(text) if response.ok else text


@pytest.fixture
async def view() -> AsyncIterator[Asked]:
    parts = Parts(Journal(), cluster=Cluster(WEB.format('node.name != "n1"') + CEILING))
    async with view_of(parts) as url, ClientSession(url) as session:
        yield Asked(session, parts)


async def test_a_draft_has_diagnostics_with_positions(view: Asked) -> None:
    status, found = await view.post(DRAFT)
    assert status == 200
    (error,) = [d for d in found["diagnostics"] if d["severity"] == "error"]
    start, end = error["column"] - 1, error["endColumn"] - 1
    assert (error["line"], DRAFT["text"][start:end]) == (1, "nme")
    assert (await view.post({"text": ""}))[0] == 200
    status, found = await view.post({"text": "kind: Pod", "name": "a.yaml"})
    assert (status, bool(found["diagnostics"])) == (200, True)


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "é"]
)
async def test_what_a_page_of_another_site_may_send_is_no_draft(view: Asked, kind: str) -> None:
    """A browser sends these types without a question to the view, and JSON only after one."""
    status, text = await view.post(DRAFT, Content_Type=kind)
    assert (status, text) == (415, "the header `Content-Type` is not `application/json`\n")


async def test_a_page_of_another_site_may_not_send_a_draft(view: Asked) -> None:
    evil = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
    assert (await view.post(DRAFT, **evil))[0] == 403
    async with view.session.options("/api/v1/check", headers=evil) as response:
        assert response.status == 403
        assert "Access-Control-Allow-Origin" not in response.headers


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"[]", 400),
        ({"text": 3}, 400),
        ({"text": "", "more": 1}, 400),
        (b'{"text": "\xff"}', 400),
        ({"text": "x" * 262_145}, 400),
        (b" " * 6_400_000, 413),
    ],
)
async def test_what_is_no_draft_is_refused(view: Asked, body: Any, status: int) -> None:
    assert (await view.post(body))[0] == status


async def test_a_compressed_body_is_refused(view: Asked) -> None:
    assert (await view.post(b"x", Content_Encoding="gzip"))[0] in (400, 415)


@pytest.mark.parametrize(
    ("error", "wanted", "text"),
    [
        (CheckLimitError("the check took longer", "shorten"), 422, "longer (shorten)"),
        (CheckTimeoutError("the check took longer", "try again"), 503, "longer (try again)"),
        (CheckFailedError("a fault"), 422, "report this"),
    ],
)
async def test_a_check_without_a_result_says_why(
    view: Asked, monkeypatch: pytest.MonkeyPatch, error: Exception, wanted: int, text: str
) -> None:
    def stopped(*_: object) -> object:
        raise error

    monkeypatch.setattr(view.parts.process, "run", stopped)
    status, found = await view.post(DRAFT)
    assert status == wanted
    assert text in found


# ---- trials

CLUSTER = json.dumps(
    {
        "kind": "List",
        "apiVersion": "v1",
        "items": [
            node("n1", labels={"disk": "ssd"}),
            node("n2", labels={"disk": "hdd"}),
            pod("web-1", "shop", labels={"app": "web"}),
            pod("web-2", "shop", labels={"app": "web"}, on="n1"),
            pod("other", "shop"),
        ],
    }
)
WEB = 'policy web {{ for pods where pod.labels["app"] == "web" filter "f" {{ require {} }} }}'
FAST = WEB.format('node.labels["disk"] == "ssd"')


@pytest.fixture
async def trial(view: Asked) -> Asked:
    view.path = "evaluate"
    return view


async def test_a_trial_names_the_pods_whose_verdicts_change(trial: Asked) -> None:
    status, found = await trial.post({"text": FAST, "cluster": CLUSTER})
    assert (status, found["diagnostics"], found["nodes"], found["pods"]) == (200, [], 2, 3)
    change = {
        "before": 1,
        "after": 1,
        "admits": ["n1"],
        "rejects": ["n2"],
        "bestBefore": None,
        "bestAfter": None,
        "error": None,
    }
    nodes = {1: None, 2: "n1"}
    assert found["changed"] == [{"pod": f"shop/web-{n}", "on": nodes[n], **change} for n in (1, 2)]


async def test_a_trial_says_what_the_policies_of_the_draft_do(trial: Asked) -> None:
    none = 'for pods where pod.labels["app"] == "x" filter "f" { require node.ready }'
    text = f"{FAST}\npolicy none {{ {none} }}\n"
    _, found = await trial.post({"text": text, "cluster": CLUSTER})
    said = [(each["policy"], each["text"], each["isVoid"]) for each in found["effects"]]
    assert said == [("none", "selects 0 of 3 pods", True), ("web", "selects 2 of 3 pods", False)]
    clauses = [each["clauses"] for each in found["effects"]]
    assert clauses == [[], [{"clause": "f", "text": "rejects 1 of 2 nodes", "isVoid": False}]]


async def test_the_same_policy_changes_nothing(trial: Asked) -> None:
    status, found = await trial.post({"text": trial.parts.cluster.text, "cluster": CLUSTER})
    assert (status, found["changed"], found["asked"]) == (200, [], 3)


async def test_a_draft_with_errors_is_not_tried(trial: Asked) -> None:
    status, found = await trial.post({**DRAFT, "cluster": CLUSTER})
    assert (status, found["asked"], found["nodes"]) == (200, 0, 0)
    assert [d["severity"] for d in found["diagnostics"]] == ["error"]


@pytest.mark.parametrize("cluster", ["", "{", "a: [", '{"kind": "List", "items": []}', "kind: 3"])
async def test_what_is_no_cluster_is_refused(trial: Asked, cluster: str) -> None:
    status, text = await trial.post({"text": FAST, "cluster": cluster})
    assert (status, text.count("\n")) == (400, 1)


async def test_without_a_cluster_a_draft_is_tried_on_that_of_the_server(trial: Asked) -> None:
    items = json.loads(CLUSTER)["items"]
    lists = [{"kind": "NodeList", "apiVersion": "v1", "items": items[:2]}]
    lists += [{"kind": "PodList", "apiVersion": "v1", "items": [pod]} for pod in items[2:]]
    trial.parts.cluster.parts = [json.dumps(each).encode() for each in lists]
    status, found = await trial.post({"text": FAST})
    assert (status, found["nodes"], found["pods"], found["asked"]) == (200, 2, 3, 3)
    assert [each["pod"] for each in found["changed"]] == ["shop/web-1", "shop/web-2"]


async def test_a_draft_reads_the_tables_of_the_server_on_its_cluster(trial: Asked) -> None:
    items = json.loads(CLUSTER)["items"]
    trial.parts.cluster.parts = [
        json.dumps({"kind": "NodeList", "apiVersion": "v1", "items": items[:2]}).encode(),
        json.dumps({"kind": "PodList", "apiVersion": "v1", "items": items[2:]}).encode(),
    ]
    loads = {name: {"cpu": cpu} for name, cpu in (("n1", "7"), ("n2", "1"))}
    trial.parts.data = {"load": DataText("", json.dumps(loads).encode(), "yaml")}
    rule = 'require data.load[node.name].cpu > quantity("2") missing pass'
    text = (
        'cluster policy web { for pods where pod.labels["app"] == "web"'
        f' data "load" {{ from metrics }} filter "f" {{ {rule} }} }}'
    )
    status, found = await trial.post({"text": text})
    assert (status, found["diagnostics"]) == (200, [])
    assert [each["rejects"] for each in found["changed"]] == [["n2"], ["n2"]]
    _, found = await trial.post({"text": text, "cluster": CLUSTER})
    assert found["changed"] == [], "the tables are not those of another cluster"


async def test_rows_of_the_server_that_do_not_fit_a_draft_are_told(trial: Asked) -> None:
    lists = [{"kind": "NodeList", "apiVersion": "v1", "items": json.loads(CLUSTER)["items"][:2]}]
    trial.parts.cluster.parts = [json.dumps(each).encode() for each in lists]
    rows = {"r1": {"watts": 1.5}}
    trial.parts.data = {"racks": DataText("data racks", json.dumps(rows).encode(), "yaml")}
    source = 'from configmap "shop/racks" file "x.csv" by "rack" columns { watts: int }'
    rule = 'filter "f" { require data.racks["r1"].watts < 2 }'
    text = f'cluster policy p {{ for pods where true data "racks" {{ {source} }} {rule} }}'
    told = "data racks: row `r1`, column `watts`: `1.5` is not a whole number"
    assert await trial.post({"text": text}) == (400, f"{told}\n")


async def test_a_cluster_that_cannot_be_read_now_is_told(trial: Asked) -> None:
    trial.parts.cluster.failure = NotSyncedError("not synced: nodes 0 so far")
    assert await trial.post({"text": FAST}) == (503, "not synced: nodes 0 so far\n")


PREFERS = """policy web {
  for pods where pod.labels["app"] == "web"
  score "s" weight 10 { value node.name == "n1" }
}"""
CEILING = """policy ceiling (percent: int = 40) {
  for pods where false
  filter "f" { require node.name != "n9" && percent > 3 }
}"""


async def test_a_draft_that_only_scores_has_another_best_node(trial: Asked) -> None:
    status, found = await trial.post({"text": PREFERS, "cluster": CLUSTER})
    assert (status, found["diagnostics"], len(found["changed"])) == (200, [], 2)
    changed = found["changed"][0]
    assert (changed["before"], changed["after"]) == (1, 2)
    assert (changed["bestBefore"], changed["bestAfter"]) == (None, "n1")


async def test_a_draft_may_use_what_is_in_force(view: Asked) -> None:
    text = 'policy a { for pods where pod.name != "n1" use "ceiling" (percent: 60) }'
    status, found = await view.post({"text": text})
    assert (status, found["diagnostics"]) == (200, [])
    status, found = await view.post({"text": text.replace("ceiling", "floor")})
    assert [each["severity"] for each in found["diagnostics"]] == ["error"]


async def test_what_can_stand_at_a_place_is_told(view: Asked) -> None:
    view.path = "complete"
    text = "policy a { for pods where pod.na"
    status, found = await view.post({"text": text, "offset": len(text)})
    assert (status, [c["text"] for c in found["candidates"]]) == (200, ["name", "namespace"])
    assert {c["start"] for c in found["candidates"]} == {len(text) - 2}
    assert (await view.post({"text": "", "offset": 9, "name": "a.yaml"}))[1] == {"candidates": []}
    # A policy that is in force can be used.
    text = 'policy a { use "ce'
    _, found = await view.post({"text": text, "offset": len(text)})
    assert 'ceiling"' in [c["text"] for c in found["candidates"]]


async def test_drafts_take_turns(view: Asked) -> None:
    """Who asks while the draft of another one is checked gets an answer after it."""
    answers = await asyncio.gather(*(view.post(DRAFT) for _ in range(3)))
    assert [status for status, _ in answers] == [200] * 3

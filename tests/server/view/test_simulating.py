"""Simulations over HTTP: where pods would go on the cluster as it is, without a trace of them."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest
from aiohttp import ClientSession

from engine.cache.cache import Cache
from engine.decision.journal import Journal
from engine.decision.recent_answers import AfterDecision
from engine.engine import Engine
from engine.errors import NotSyncedError
from server.answers import MOST_PODS
from tests.support.builders import Object, controller, kubectl_list, node, pod, raw
from tests.support.engines import CODEC, cache_of, engine_over
from tests.support.view_server import Cluster, Parts, view_of

POLICIES = """
policy web {
  for pods where pod.labels["app"] == "web"
  share "spot" {
    all pods where peer.labels["app"] == "web"
    on nodes where node.labels["cap"] == "spot"
    at most 50%
    strict
  }
  score "spot first" weight 1 { value node.labels["cap"] == "spot" }
}
"""
WEB = controller("Deployment", "web", "shop", replicas=2)
TEMPLATE = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
}


def web(name: str, on: str | None = None) -> Object:
    return pod(name, "shop", cpu="1", labels={"app": "web"}, owner=WEB, on=on)


@dataclass
class Asked:
    session: ClientSession
    engine: Engine
    cache: Cache
    journal: Journal
    cluster: Cluster

    async def post(self, question: Any) -> tuple[int, Any]:
        headers = {"Content-Type": "application/json"}
        body = question if isinstance(question, bytes) else json.dumps(question).encode()
        async with self.session.post("/api/v1/simulate", data=body, headers=headers) as response:
            text = await response.text()
            return response.status, json.loads(text) if response.ok else text


@pytest.fixture
async def view() -> AsyncIterator[Asked]:
    nodes = [
        node("n1", cpu="2", labels={"cap": "spot", "node.kubernetes.io/instance-type": "m5"}),
        node("n2", cpu="2", labels={"cap": "od"}),
    ]
    there, waiting = [web("web-1", "n1"), pod("bare", "shop", on="n1")], web("web-2")
    cache = cache_of(nodes, there)
    cache.put_pod(CODEC.peer(raw(waiting)), body=raw(waiting))
    journal = Journal()
    engine = engine_over(POLICIES, cache, after=AfterDecision(journal=journal))
    known = {f"shop/{each['metadata']['name']}": raw(each) for each in there}
    cluster = Cluster(POLICIES, engine, known, state=engine_state(cache))
    parts = Parts(journal, cluster=cluster)
    async with view_of(parts) as url, ClientSession(url) as session:
        yield Asked(session, engine, cache, journal, cluster)


def engine_state(cache: Cache) -> Any:
    from tests.support.engines import Known  # noqa: PLC0415

    return Known(cache)


async def test_pods_that_wait_are_placed_without_a_trace(view: Asked) -> None:
    usual, before, in_flight = gc.get_threshold(), view.cache.snapshot(), len(view.engine.in_flight)
    status, found = await view.post({})
    assert status == 200
    assert found["summary"] == "the pod finds a place"
    assert found["pods"] == [{"pod": "shop/web-2", "policy": "web", "node": "n2"}]
    assert (found["replica"], found["nodes"], found["added"]) == ("placet-0", 2, [])
    assert view.cache.snapshot() is before
    assert (len(view.engine.in_flight), len(view.journal)) == (in_flight, 0)
    assert gc.get_threshold() == usual


async def test_nodes_that_come(view: Asked) -> None:
    question = {"addNodes": [{"template": "m5", "count": 2}], "namespace": "shop"}
    status, found = await view.post(question)
    assert (status, found["added"], found["nodes"]) == (200, ["m5-new-1", "m5-new-2"], 4)
    made = {**node("like", cpu="64"), "kind": "Node"}
    question = {"addNodes": [{"template": "big", "count": 1, "node": made}]}
    status, found = await view.post(question)
    assert found["allocation"]["cpu"]["allocatable"] == 68_000


async def test_a_drain(view: Asked) -> None:
    status, found = await view.post({"drain": ["n1"]})
    assert status == 200
    assert found["summary"] == ("the pod of 1 node finds a place; no controller makes 1 pod anew")
    assert found["pods"] == [{"pod": "shop/web-1", "policy": "web", "node": "n2", "leaves": "n1"}]
    assert found["drained"] == {
        "nodes": ["n1"],
        "left": [{"pod": "shop/bare", "node": "n1", "why": "no controller makes it anew"}],
        "budgets": [],
    }
    _, found = await view.post({"drain": ["n1", "n2"]})
    assert found["summary"].startswith("the pod of 2 nodes finds no place: shop/web-1; ")


@pytest.mark.process
async def test_pods_and_workloads_come_as_text_or_as_objects(view: Asked) -> None:
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "api", "namespace": "shop"},
        "spec": {"replicas": 3, "template": TEMPLATE},
    }
    status, one = await view.post({"pods": [deployment]})
    assert status == 200
    assert [each["node"] for each in one["pods"]] == ["n1", "n2", "n2"]
    # This one is in the cluster: of the three pods that it wants, one is on spot already.
    _, known = await view.post({"pods": [{**deployment, "metadata": WEB["metadata"]}]})
    assert [each["node"] for each in known["pods"]] == ["n2", "n2", None]
    _, other = await view.post({"pods": json.dumps(deployment)})
    assert other["pods"] == one["pods"]
    text = 'kind: Pod\nmetadata: {name: "a"}\nspec: {containers: [{name: c}]}\n---\nkind: Service\n'
    status, found = await view.post({"pods": text, "namespace": "shop"})
    assert [each["pod"] for each in found["pods"]] == ["shop/a"]
    assert found["notes"] == ["skipped 1 object that is not a pod"]
    _, found = await view.post({"pods": kubectl_list([web("web-9")])["items"]})
    assert [each["pod"] for each in found["pods"]] == ["shop/web-9"]


@pytest.mark.process
async def test_pods_have_what_the_api_server_would_set(view: Asked) -> None:
    """As in a file: a container with limits alone requests them."""
    limits = {"containers": [{"name": "c", "resources": {"limits": {"cpu": "3"}}}]}
    asked = {"kind": "Pod", "metadata": {"name": "large", "namespace": "shop"}, "spec": limits}
    status, found = await view.post({"pods": [asked]})
    assert (status, found["pods"][0]["reasons"]) == (200, {"Insufficient cpu": 2})


BAD: dict[str, tuple[Any, str]] = {
    "no question": (b"{", "the body is no question: Input data was truncated"),
    "a deep question": (
        b'{"addNodes": [{"node": {"a": ' + b"[" * 5_000,
        "the body is no question: maximum recursion depth exceeded while deserializing an object",
    ),
    "another field": (
        {"drains": []},
        "the body is no question: Object contains unknown field `drains`",
    ),
    "a count": (
        {"addNodes": [{"template": "m5", "count": 0}]},
        "the body is no question: Expected `int` >= 1 - at `$.addNodes[0].count`",
    ),
    "too many nodes": (
        {"addNodes": [{"template": "m5", "count": 600}] * 2},
        "`addNodes` has more than 1000 nodes",
    ),
    "a template": (
        {"addNodes": [{"template": "m6", "count": 1}]},
        "no node is called `m6`, and none is of such a type or pool (there is `m5`, `n1`, `n2`)",
    ),
    "a node": ({"drain": ["n3"]}, "there is no node `n3` (there is `n1`, `n2`)"),
    "no pod waits": (
        {"namespace": "x"},
        "no pod waits in the namespace `x` (give some in `pods`, or nodes in `drain`)",
    ),
}


@pytest.mark.parametrize("case", BAD)
async def test_what_is_no_question(view: Asked, case: str) -> None:
    question, said = BAD[case]
    status, text = await view.post(question)
    assert (status, text) == (400, f"{said}\n")


# Each line has the one before nine times, by aliases or by merges.
LISTS = "a: &a [x]\n" + "".join(
    f"{c}: &{c} [{', '.join(9 * [f'*{before}'])}]\n" for before, c in pairwise("abcdefgh")
)
MERGES = "a: &a {x: 1}\n" + "".join(
    f"{c}: &{c} {{<<: [{', '.join(9 * [f'*{before}'])}]}}\n" for before, c in pairwise("abcdefgh")
)
READ: dict[str, tuple[Any, str]] = {
    "no YAML": ({"pods": "a: ["}, "`pods` cannot be read: "),
    "lists of lists": ({"pods": LISTS}, "`pods` cannot be read: repeats its parts too often"),
    "merges of merges": ({"pods": MERGES}, "`pods` cannot be read: repeats its parts too often"),
    "no pods": ({"pods": "kind: Service\n"}, "there are no pods to schedule in `pods`"),
    "no name": ({"pods": [{"kind": "Pod"}]}, "a pod in `pods` has no name"),
    "a wrong field": (
        {"pods": [{"kind": "Pod", "metadata": {"name": "a"}, "spec": {"nodeSelector": 3}}]},
        "pod `default/a` in `pods` cannot be read: ",
    ),
    "many replicas": (
        {
            "pods": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "Deployment",
                    "metadata": {"name": "w"},
                    "spec": {"replicas": 1_000_000, "template": TEMPLATE},
                }
            ]
        },
        "`pods` cannot be read: `replicas` of the Deployment `default/w` is no number from 0 to ",
    ),
    "many pods": (
        {"pods": [{"kind": "Pod", "metadata": {"name": f"p{i}"}} for i in range(MOST_PODS + 1)]},
        f"`pods` has more than {MOST_PODS} pods",
    ),
}


@pytest.mark.process
@pytest.mark.parametrize("case", READ)
async def test_pods_that_cannot_be_read(view: Asked, case: str) -> None:
    question, said = READ[case]
    status, text = await view.post(question)
    assert status == 400
    assert text.startswith(said), text


async def test_without_a_cluster(view: Asked) -> None:
    view.cluster.failure = NotSyncedError("not synced: nodes")
    status, text = await view.post({"drain": ["n1"]})
    assert (status, text) == (503, "not synced: nodes\n")


async def test_only_some_wait_for_their_turn(view: Asked) -> None:
    answers = await asyncio.gather(*(view.post({}) for _ in range(12)))
    statuses = sorted(status for status, _ in answers)
    assert statuses[0] == 200
    assert set(statuses) <= {200, 429}

"""`placet audit`: what policies in audit mode would have done, as replicas tell it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator

import pytest

from engine.decision.journal import Journal
from engine.decision.recent_answers import AfterDecision
from engine.engine import Engine
from tests.cli.conftest import Placet
from tests.support.builders import controller, node, pod, raw
from tests.support.engines import engine_of, peer_of
from tests.support.view_server import Cluster, Parts, Running, running

POLICY = """
policy gpus {
  mode audit
  for pods where pod.namespace == "shop"
  filter "gpu" { require node.labels["gpu"] == pod.labels["gpu"] }
}
policy quiet { mode audit for pods where pod.namespace == "far" filter "all" { require true } }
"""
NODES = [node("n1", labels={"gpu": "a"}), node("n2", labels={"gpu": "b"})]
WEB = controller("ReplicaSet", "web", "shop")


def ask(engine: Engine, name: str, gpu: str, on: str = "") -> None:
    labels = {"gpu": gpu}
    asked = pod(name, "shop", labels=labels, owner=WEB)
    engine.filter(raw(asked), ["n1", "n2"], None, math.inf)
    if on:
        placed = peer_of(pod(name, "shop", on=on, labels=labels, owner=WEB))
        engine.audits.log.pod_changed(None, placed, 1)


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "110")


@pytest.fixture
def one() -> Iterator[Running]:
    """A view with two pods that would have waited, one elsewhere, and one that is fine."""
    journal = Journal()
    engine = engine_of(POLICY, NODES, after=AfterDecision(journal=journal))
    ask(engine, "web-1", "c")
    ask(engine, "web-2", "c", on="n2")
    ask(engine, "web-3", "a", on="n2")
    ask(engine, "web-4", "a", on="n1")
    with running(Parts(journal, cluster=Cluster(engine=engine))) as found:
        yield found


def test_it_says_whether_to_enforce(placet: Placet, one: Running) -> None:
    lines = placet("audit", "--url", one.urls[0]).out.splitlines()
    assert lines[0].startswith("policy gpus, in audit mode since 20")
    assert lines[1].startswith("would have kept 2 pods of 1 workload pending since 20")
    assert lines[1].endswith(": enforce?")
    assert lines[2] == "would have sent 1 pod to another node"
    rows = [line.split() for line in lines[5:8]]
    found = {row[0]: (*row[1:3], row[-1]) for row in rows}
    assert found["shop/web-3"] == ("ReplicaSet/web", "gone", "n2")
    assert found["shop/web-2"] == ("ReplicaSet/web", "waited", "n2")
    assert found["shop/web-1"][:2] == ("ReplicaSet/web", "waited")
    assert lines[-1].endswith("enforce it with `mode enforce`")


def test_one_policy_is_shown_and_an_unknown_one_refused(placet: Placet, one: Running) -> None:
    url = ("--url", one.urls[0])
    assert placet("audit", "quiet", *url).out.startswith("policy quiet,")
    assert "no policy `none` is in audit mode" in placet("audit", "none", *url).err
    assert placet("audit", "none", "-o", "json", *url).code == 2
    assert "no pod" in placet("audit", "gpus", "-n", "far", *url).out


def test_data_is_about_what_is_asked_about(placet: Placet, one: Running) -> None:
    url = ("-o", "json", "--url", one.urls[0])
    (found,) = json.loads(placet("audit", "gpus", "-n", "far", *url).out)["replicas"]
    (gpus,) = found["policies"]
    numbers = gpus["waiting"], gpus["workloads"], gpus["elsewhere"]
    assert (gpus["policy"], gpus["pods"], numbers) == ("gpus", [], (0, 0, 0))
    (found,) = json.loads(placet("audit", "-n", "shop", *url).out)["replicas"]
    assert [len(each["pods"]) for each in found["policies"]] == [3, 0]


def test_json_has_every_pod(placet: Placet, one: Running) -> None:
    found = json.loads(placet("audit", "-o", "json", "--url", one.urls[0]).out)
    (gpus, _) = found["replicas"][0]["policies"]
    assert (gpus["waiting"], gpus["workloads"], gpus["elsewhere"]) == (2, 1, 1)
    assert [each["node"] for each in gpus["pods"]] == ["n2", "n2", None]
    assert gpus["pods"][0]["clauses"] == [{"clause": "gpu", "nodes": 1}]


def test_a_decision_says_what_would_have_been(placet: Placet, one: Running) -> None:
    out = placet("decisions", "shop/web-3", "--url", one.urls[0]).out
    assert out.endswith("gpus, in audit, would reject 1 node (`gpu` 1)\n")
    out = placet("decisions", "shop/web-2", "--url", one.urls[0]).out
    assert "(`gpu` 2), and leave none that passes, as since 20" in out

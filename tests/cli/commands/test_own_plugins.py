"""Tests of kube-scheduler's own plugins in `explain`, with files alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Placet
from tests.support.builders import Object, kubectl_list, node, pod, raw

POLICY = 'policy x in namespace "shop" { score "any" weight 1 { value 1 } }'
FILES = ("--cluster", "cluster.json", "--policies", "x.policy")
PORT = {"containerPort": 80, "hostPort": 80}


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")


def tainted(name: str) -> Object:
    taint = {"key": "team", "value": "ads", "effect": "NoSchedule"}
    return node(name, labels={"disk": "ssd"}) | {"spec": {"taints": [taint]}}


def with_port(made: Object) -> Object:
    made["spec"]["containers"][0]["ports"] = [PORT]
    return made


NODES = [
    tainted("a-tainted"),
    node("b-cordoned", labels={"disk": "ssd"}, unschedulable=True),
    node("c-other"),
    node("d-small", cpu="1", labels={"disk": "ssd"}),
    node("e-port", labels={"disk": "ssd"}),
    node("f-pods", pods="1", labels={"disk": "ssd"}),
]
THERE = [with_port(pod("there", "shop", on="e-port")), pod("other", "shop", on="f-pods")]
WANTED = {
    "a-tainted": "node(s) had untolerated taint {team: ads}",
    "b-cordoned": "node(s) were unschedulable",
    "c-other": "node(s) didn't match Pod's node affinity/selector",
    "d-small": "Insufficient cpu",
    "e-port": "node(s) didn't have free ports for the requested pod ports",
    "f-pods": "Too many pods",
}


def asked(**more: Any) -> Object:
    return with_port(pod("web-1", "shop", cpu="2", spec={"nodeSelector": {"disk": "ssd"}, **more}))


def write(folder: Path, nodes: list[Object], *pods: Object) -> None:
    (folder / "x.policy").write_text(POLICY)
    (folder / "cluster.json").write_bytes(raw(kubectl_list([*nodes, *THERE, *pods])))


def test_each_reason_has_its_nodes(placet: Placet, folder: Path) -> None:
    write(folder, NODES, asked())
    found = json.loads(placet("explain", "shop/web-1", *FILES, "-o", "json").out)
    by_node = {name: each["text"] for each in found["unfit"] for name in each["names"]}
    assert by_node == WANTED
    assert found["cause"]["kind"] == "kube-scheduler"
    text = placet("explain", "shop/web-1", *FILES).out
    assert "cause: 6 of 6 nodes would pass the policies now; kube-scheduler's own plugins" in text
    assert "6 of 6 nodes pass; kube-scheduler's own plugins reject 6 of them" in text
    assert all(reason in text for reason in WANTED.values())


def test_a_manifest_of_a_new_pod_has_them_too(placet: Placet, folder: Path) -> None:
    write(folder, NODES)
    (folder / "pod.json").write_bytes(raw(asked()))
    text = placet("explain", "--pod-file", "pod.json", *FILES).out
    rows = {line.split()[0]: line for line in text.splitlines() if line[:2] in {"a-", "d-"}}
    assert rows["a-tainted"].endswith(f"kube-scheduler: {WANTED['a-tainted']}")
    assert rows["d-small"].endswith("kube-scheduler: Insufficient cpu")


def test_a_node_that_is_left_is_no_cause(placet: Placet, folder: Path) -> None:
    write(folder, [*NODES, node("free", labels={"disk": "ssd"})], asked())
    found = json.loads(placet("explain", "shop/web-1", *FILES, "-o", "json").out)
    assert found["cause"] is None
    assert found["said"] is None


def test_the_condition_of_the_pod_is_shown(placet: Placet, folder: Path) -> None:
    said = "0/6 nodes are available: 6 node(s) had no available volume zone."
    made = asked()
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    made["status"] = {"phase": "Pending", "conditions": [{**condition, "message": said}]}
    write(folder, NODES, made)
    text = placet("explain", "shop/web-1", *FILES).out
    assert "own plugins reject the nodes: node(s) had no available volume zone (6 nodes)" in text
    assert f"PodScheduled is False: Unschedulable: {said}" in text
    assert json.loads(placet("explain", "shop/web-1", *FILES, "-o", "json").out)["said"] == said


def test_a_placed_pod_has_what_it_takes_itself(placet: Placet, folder: Path) -> None:
    write(folder, [node("one", cpu="2", pods="1", labels={"disk": "ssd"})], asked(nodeName="one"))
    found = json.loads(placet("explain", "shop/web-1", *FILES, "-o", "json").out)
    assert found["unfit"] == []


def test_one_node_has_all_its_reasons(placet: Placet, folder: Path) -> None:
    made = tainted("bad")
    made["spec"]["unschedulable"] = True
    made["status"]["allocatable"]["cpu"] = "1"
    write(folder, [made], asked())
    text = placet("explain", "shop/web-1", "bad", *FILES).out
    reasons = [WANTED["b-cordoned"], WANTED["a-tainted"], "Insufficient cpu"]
    lines = [f"kube-scheduler's own plugins reject it: {reason}" for reason in reasons]
    assert "\n".join(["node bad passes", *lines]) in text


def test_many_nodes_have_a_row_for_each_reason(placet: Placet, folder: Path) -> None:
    write(folder, [tainted(f"n{number}") for number in range(30)], asked())
    text = placet("explain", "shop/web-1", *FILES).out
    assert "30 of 30 nodes pass; kube-scheduler's own plugins reject 30 of them" in text
    assert "   30  node(s) had untolerated taint {team: ads}" in text


def test_a_resource_that_stands_for_cards_alone_is_no_reason(placet: Placet, folder: Path) -> None:
    """An extender manages it: kube-scheduler does not look for it on nodes."""
    made = pod("web-1", "shop")
    amounts = {"example.com/milli": "500"}
    made["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}
    write(folder, [node("n", labels={"cards": "1"})], made)
    (folder / "cards.policy").write_text("""policy gpu {
  for pods where "example.com/milli" in pod.requests
  cards "gpu" {
    on node int(node.labels["cards"]) of {"milli": 1000}
    take {"milli": 500}
    index in annotation "example.com/index"
  }
}""")
    files = ("--cluster", "cluster.json", "--policies")
    with_cards = placet("explain", "shop/web-1", *files, "cards.policy", "-o", "json").out
    without = placet("explain", "shop/web-1", *files, "x.policy", "-o", "json").out
    assert json.loads(with_cards)["unfit"] == []
    (found,) = json.loads(without)["unfit"]
    assert found["text"] == "Insufficient example.com/milli"

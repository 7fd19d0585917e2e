"""Tests of kube-scheduler's own plugins in `explain`, with files alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Placet
from tests.support.builders import Object, controller, kubectl_list, node, pod, raw

POLICY = 'policy x in namespace "shop" { score "any" weight 1 { value 1 } }'
FILES = ("--cluster", "cluster.json", "--policies", "x.policy")
PORT = {"containerPort": 80, "hostPort": 80}
ROLLOUT = {"kind": "Rollout", "name": "web", "uid": "r", "controller": True}
SHARE = 'share "s" { of replicas on nodes where node.name == "e-port" at most 50% strict }'
HALF = f'policy s in namespace "shop" {{ {SHARE} }}'


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


def test_devices_that_no_node_has_are_no_reason(placet: Placet, folder: Path) -> None:
    """An extender manages them, or a DeviceClass stands for them."""
    made = pod("web-1", "shop")
    amounts = {"example.com/milli": "500"}
    made["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}
    write(folder, [node("n", labels={"cards": "1"})], made)
    (folder / "cards.policy").write_text("""policy gpu {
  for pods where "example.com/milli" in pod.requests
  cards "gpu" {
    on node int(node.labels["cards"]) of {"milli": 1000}
    take {"milli": 500}
    index "example.com/index"
  }
}""")
    files = ("--cluster", "cluster.json", "--policies")
    with_cards = placet("explain", "shop/web-1", *files, "cards.policy", "-o", "json").out
    without = placet("explain", "shop/web-1", *files, "x.policy").out
    assert json.loads(with_cards)["unfit"] == []
    assert "it has" not in json.loads(with_cards)["caveat"]
    assert "Insufficient" not in without
    assert "it has devices `example.com/milli`, which nobody here looks at" in without


def test_devices_of_a_class_are_known_by_pods_that_have_them(placet: Placet, folder: Path) -> None:
    amounts = {"example.com/gpu": "1"}
    made, there = pod("web-1", "shop"), pod("old-1", "shop", on="b")
    for each in (made, there):
        each["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}
    plugin = node("a")
    plugin["status"]["allocatable"]["example.com/gpu"] = "0"
    write(folder, [plugin, node("b")], made)
    assert "Insufficient example.com/gpu" in placet("explain", "shop/web-1", *FILES).out
    write(folder, [plugin, node("b")], made, there)
    assert "Insufficient" not in placet("explain", "shop/web-1", *FILES).out


@pytest.mark.parametrize("kind", ["Pod", "Deployment"])
def test_a_manifest_that_names_its_node_is_passed_by(
    placet: Placet, folder: Path, kind: str
) -> None:
    """kube-scheduler looks only at pods without a node; the kubelet takes this one."""
    made = pod("web", "shop", spec={"nodeName": "e-port"})
    if kind == "Deployment":
        made = controller(kind, "web", "shop") | {"spec": {"template": made, "selector": {}}}
    write(folder, NODES)
    (folder / "pod.json").write_bytes(raw(made))
    done = placet("explain", "--pod-file", "pod.json", *FILES)
    said = "note: its `nodeName` is `e-port`: kube-scheduler passes it by\n"
    assert said in done.out, done.out


def test_what_nobody_here_looks_at_is_named(placet: Placet, folder: Path) -> None:
    """By the list of `simulate`: a node may pass here that kube-scheduler refuses."""
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    term = {"labelSelector": {}, "topologyKey": "kubernetes.io/hostname"}
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "c"}}
    write(folder, NODES, pod("plain", "shop", cpu="1"))
    spec = {"affinity": {"podAntiAffinity": {required: [term]}}, "volumes": [volume]}
    (folder / "pod.json").write_bytes(raw(pod("web", "shop", cpu="1", spec=spec)))
    done = placet("explain", "--pod-file", "pod.json", *FILES)
    said = "note: it has pod anti-affinity and volume claims, which nobody here looks at\n"
    assert said in done.out
    assert "note:" not in placet("explain", "shop/plain", *FILES).out


def test_a_workload_that_nobody_can_read_is_named(placet: Placet, folder: Path) -> None:
    """Where a share is relative to what it wants."""
    made = pod("web-1", "shop")
    made["metadata"]["ownerReferences"] = [{**ROLLOUT, "apiVersion": "argoproj.io/v1alpha1"}]
    write(folder, NODES, made)
    (folder / "s.policy").write_text(HALF)
    said = "note: how many pods `Rollout/web` wants is not known, so those that are there count\n"
    assert said in placet("explain", "shop/web-1", *FILES[:3], "s.policy").out
    assert said not in placet("explain", "shop/web-1", *FILES).out
    checked = placet("check", "--cluster", FILES[1], "s.policy").out
    assert f"selects 3 of 3 pods; {said.removeprefix('note: ')}" in checked
    # The last of many pods is of another one.
    other = pod("zz", "shop")
    other["metadata"]["ownerReferences"] = [{**ROLLOUT, "name": "zz", "uid": "z"}]
    write(folder, NODES, *(pod(f"plain-{number}", "shop") for number in range(20)), made, other)
    checked = placet("check", "--cluster", FILES[1], "s.policy").out
    assert "how many pods `Rollout/web`, `Rollout/zz` want is not known" in checked
    # An object with replicas in the snapshot says it, of whatever kind it is.
    meta = {"name": "web", "namespace": "shop", "uid": ROLLOUT["uid"]}
    argo = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "metadata": meta}
    write(folder, NODES, made, {**argo, "spec": {"replicas": 4, "strategy": {"canary": {}}}})
    assert said not in placet("explain", "shop/web-1", *FILES[:3], "s.policy").out


def test_what_a_deployment_wants_is_known(placet: Placet, folder: Path) -> None:
    web = controller("Deployment", "web", "shop", replicas=4)
    template = controller("ReplicaSet", "web-1", "shop", replicas=4, owner=web)
    write(folder, NODES, web, template, pod("web-1-a", "shop", owner=template))
    (folder / "s.policy").write_text(HALF)
    found = placet("explain", "shop/web-1-a", *FILES[:3], "s.policy").out
    assert "wants is not known" not in found, found


def test_the_cause_names_gates_without_a_node(placet: Placet, folder: Path) -> None:
    gang = 'gang "all" { of pods by peer.labels["job"] at least 2 }'
    (folder / "g.policy").write_text(f'policy g in namespace "shop" {{ {gang} }}')
    gated = pod(
        "b", "shop", labels={"job": "x"}, spec={"schedulingGates": [{"name": "a.b/topology"}]}
    )
    listed = kubectl_list([pod("a", "shop", labels={"job": "x"}), gated])
    (folder / "cluster.json").write_bytes(raw(listed))
    done = placet("explain", "shop/a", *FILES[:3], "g.policy")
    assert "cause: its gang waits: 1 of 2 members exist: 1 more gated by `a.b/topology`" in done.out
    assert "note: the snapshot lacks nodes" in done.err

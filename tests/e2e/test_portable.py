"""Portable policies on a real control plane: what new pods get, and that all see the same nodes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.control_plane import ControlPlane
from tests.e2e.kube_scheduler import extender, started_kube_scheduler
from tests.e2e.manifests import node, pod
from tests.e2e.placet import placet
from tests.e2e.policies import define, policy, wait_ready
from tests.e2e.process import until
from tests.e2e.recorder import recorder
from tests.e2e.test_gate import ADMISSION, applied, dry_run, label
from tests.e2e.webhooks import webhook_replicas

pytestmark = pytest.mark.e2e

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
FORM = "placet.dev/portable"
SECONDS = 30.0
WEB = {"app": "web"}
RULES = """
filter "pool" { require node.labels["pool"] == pod.namespace }
limit "apart" {
  pods where peer.labels["app"] == pod.labels["app"] per node at most 1 strict mutual
}
filter "room" { require node.free["cpu"] >= 0 }
"""


def test_new_pods_get_what_policies_say(
    plane: ControlPlane, cluster: Cluster, tmp_path: Path
) -> None:
    define(cluster)
    label(cluster)
    flags = f"--kubeconfig={plane.placet_kubeconfig}", "--lease=none", "--frozen-label=app"
    with (
        webhook_replicas(tmp_path, 1, *flags) as replicas,
        applied(
            cluster, replicas.configuration(ADMISSION / "gate.yaml"), ADMISSION / "frozen.yaml"
        ),
    ):
        cluster.apply(policy(cluster, labels=WEB, rules=RULES, portable=True))
        wait_ready(cluster, "web", "True")
        asked = pod("web-1", cluster.namespace, WEB)
        until(lambda: FORM in annotations_of(dry_run(cluster, asked)), SECONDS, lambda: "no form")
        cluster.create_pods([asked])
        made = cluster.pod("web-1")
        affinity = made["spec"]["affinity"]
        (term,) = affinity["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
        pool = {"key": "pool", "operator": "In", "values": [cluster.namespace]}
        assert term["matchExpressions"] == [pool]
        (away,) = affinity["podAntiAffinity"][REQUIRED]
        assert away["topologyKey"] == "kubernetes.io/hostname"
        other = dry_run(cluster, pod("db-1", cluster.namespace, {"app": "db"}))
        assert FORM not in annotations_of(other)
        _wait_frozen(cluster)
        assert status(cluster) == (
            0,
            "ToldInPart",
            "room: `node.free` is no label of the node",
        )
        cluster.apply(
            policy(cluster, labels=WEB, rules=RULES.replace("apart", "away"), portable=True)
        )
        until(lambda: status(cluster)[0] == 1, SECONDS, lambda: f"one pod, not {status(cluster)}")
        # As after a copy with `kubectl get -o yaml`: a form comes once.
        copied = pod("web-2", cluster.namespace, WEB)
        copied["metadata"]["annotations"] = annotations_of(made)
        assert "affinity" not in dry_run(cluster, copied)["spec"]


def annotations_of(made: dict[str, Any]) -> dict[str, str]:
    found: dict[str, str] = made["metadata"].get("annotations") or {}
    return found


def _wait_frozen(cluster: Cluster) -> None:
    """Return once the label of the policies cannot be changed; others can."""
    change = "label", "--overwrite", "-n", cluster.namespace, "pod", "web-1"
    cluster.kubectl(*change, "tier=x")

    def refusal() -> str:
        done = cluster.try_kubectl(*change, "app=db", "--dry-run=server")
        return "" if done.returncode == 0 else done.stderr

    wanted = "portable policies depend on the labels app: create the pod again to change one"
    until(lambda: wanted in refusal(), SECONDS, lambda: f"refused, not {refusal()!r}")
    removed = cluster.try_kubectl(*change, "app-")
    assert wanted in removed.stderr


def status(cluster: Cluster) -> tuple[int | None, str, str]:
    """The outdated pods of the policy, and the reason and message of its condition."""
    found = cluster.get("placementpolicies", "web").get("status", {})
    conditions = {each["type"]: each for each in found.get("conditions", [])}
    told = conditions.get("Portable", {})
    return found.get("outdatedPods"), told.get("reason", ""), told.get("message", "")


ROUNDS, NODES, RULE_COUNT = 200, 8, 40
VALUES = {
    "arch": ("arm64", "amd64"),
    "pool": ("a", "b", "c"),
    "size": ("1", "2", "4", "x"),
}


def test_kube_scheduler_sees_the_nodes_that_placet_passes(
    plane: ControlPlane, cluster: Cluster, tmp_path: Path
) -> None:
    """In so many clusters, each a few nodes with a label of their own."""
    dice = Random(1)
    label(cluster)
    rules = "\n".join(
        f'cluster policy r{number} {{ portable for pods where pod.labels["app"] == "r{number}"'
        f' filter "f" {{ require {_condition(dice, 3)} }} }}'
        for number in range(RULE_COUNT)
    )
    nodes = {number: [*_nodes(dice, number)] for number in range(ROUNDS)}
    cluster.create_nodes(each for made in nodes.values() for each in made)
    pods = {
        number: pod(
            f"p{number}",
            cluster.namespace,
            {"app": f"r{number % RULE_COUNT}"},
            nodeSelector={"round": str(number)},
        )
        for number in range(ROUNDS)
    }
    flags = f"--kubeconfig={plane.placet_kubeconfig}", "--lease=none", "--frozen-label=app"
    file = tmp_path / "rules.policy"
    file.write_text(rules)
    (tmp_path / "decides").mkdir()
    with (
        placet(tmp_path / "decides", file, *flags) as server,
        webhook_replicas(tmp_path, 1, *flags, policies=rules) as replicas,
        applied(cluster, replicas.configuration(ADMISSION / "gate.yaml")),
        recorder(server.port) as calls,
    ):
        server.wait_ready()
        wanted = {}
        for number, asked in pods.items():
            names = [each["metadata"]["name"] for each in nodes[number]]
            answer = server.filter(asked, names)
            assert not answer["Error"]
            wanted[f"p{number}"] = set(answer["NodeNames"])
        until(
            lambda: all(FORM in annotations_of(dry_run(cluster, pods[n])) for n in _told(rules)),
            SECONDS,
            lambda: "pods have no forms",
        )
        with started_kube_scheduler(
            plane, tmp_path, [extender(calls.address, node_cache_capable=True)], {}
        ):
            cluster.create_pods(pods.values())
            feasible = {name for name, found in wanted.items() if found}
            cluster.wait_placed(sorted(feasible), 120.0)
    # kube-scheduler asks the extender about the nodes that its own filters pass.
    seen = {call.pod: set(call.names) for call in calls.calls("filter")}
    assert seen == {name: found for name, found in wanted.items() if found}
    rejected = sum(NODES - len(found) for found in wanted.values())
    assert 0 < rejected < ROUNDS * NODES


def _nodes(dice: Random, number: int) -> Iterator[dict[str, Any]]:
    for place in range(NODES):
        labels = {key: dice.choice(v) for key, v in VALUES.items() if dice.random() < 0.8}
        yield node(f"n{number}-{place}", {**labels, "round": str(number)})


def _condition(dice: Random, depth: int) -> str:
    if depth and dice.random() < 0.6:
        one, other = _condition(dice, depth - 1), _condition(dice, depth - 1)
        return dice.choice((f"({one} && {other})", f"({one} || {other})", f"!({one})"))
    key = dice.choice([*VALUES])
    value = json.dumps(dice.choice(VALUES[key]))
    return dice.choice(
        (
            f'node.labels["{key}"] == {value}',
            f'node.labels["{key}"] != {value}',
            f'has(node.labels["{key}"])',
            f'node.labels[?"{key}"] == optional.of({value})',
            f'int(node.labels["size"]) > {dice.randint(0, 4)}',
        )
    )


def _told(rules: str) -> list[int]:
    """A few of the pods whose policies select by label."""
    return [n for n in range(3) if f'"r{n}"' in rules]

"""Rejected pods beside nodes that kube-scheduler never asks about, which pass the policies."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.control_plane import ControlPlane
from tests.e2e.kube_scheduler import extender, kube_scheduler
from tests.e2e.manifests import node, pod, priority_class
from tests.e2e.placet import placet
from tests.e2e.recorder import Recorder, recorder
from tests.e2e.stage import GOVERNED, Stage

pytestmark = pytest.mark.e2e

# `SECONDS=75` watches the pods for as long as their first requeues may take.
WATCHED_SECONDS = float(os.environ.get("SECONDS") or 25)
MOST_CALLS = 5
KINDS = ("filter", "limit", "share", "spread", "cards")
WORKERS = 3
WORKER = {"role": "worker", "pool": "a", "card": "1"}
TAINT = {"key": "example.com/closed", "effect": "NoSchedule"}
POLICIES = """
policy {kind} {{
  for pods where pod.labels["app"] == "{kind}" && pod.namespace == "{namespace}"
  {clause}
}}
"""
CLAUSES = {
    "filter": 'filter "pool" { require node.labels["pool"] == "b" message "pool b" }',
    "limit": """limit "one" {
    pods where peer.labels["app"] == "limit" per node at most 1 strict message "one is there"
  }""",
    "share": """share "few" {
    pods where peer.labels["app"] == "share" on nodes where node.labels["pool"] == "a"
    at most 50% strict message "half"
  }""",
    "spread": """spread "even" {
    pods where peer.labels["app"] == "spread"
    over node.labels["kubernetes.io/hostname"] skew at most 1 strict message "even"
  }""",
    "cards": """cards "gpu" {
    on node int(node.labels["card"]) of {"milli": 1000}
    take {"milli": 1000}
    index "example.com/index"
    message "no card"
  }""",
}


def closed(number: int) -> list[dict[str, Any]]:
    """Nodes that pass every policy: full, tainted, cordoned, and of another kind, in turn."""
    found = []
    for each in range(number):
        made = node(f"closed{each}", {"pool": "b", "card": "1", "role": "worker"})
        match each % 4:
            case 0:
                made["status"]["allocatable"] = {"cpu": "1", "memory": "32Gi", "pods": "110"}
            case 1:
                made["spec"] = {"taints": [TAINT]}
            case 2:
                made["spec"] = {"unschedulable": True}
            case _:
                made["metadata"]["labels"]["role"] = "other"
        found.append(made)
    return found


@pytest.mark.parametrize(("number", "preempts"), [(0, True), (1, False), (10, True)])
def test_a_rejected_pod_stays_unschedulable(
    plane: ControlPlane, cluster: Cluster, tmp_path: Path, number: int, *, preempts: bool
) -> None:
    """It is never a SchedulerError, which autoscalers do not see, and kube-scheduler rests."""
    where = cluster.namespace
    file = tmp_path / "all.policy"
    texts = (
        POLICIES.format(kind=kind, namespace=where, clause=clause)
        for kind, clause in CLAUSES.items()
    )
    file.write_text("".join(texts))
    cluster.apply(priority_class("low", 10), priority_class("high", 1000))
    names = [f"worker{each}" for each in range(WORKERS)]
    cluster.create_nodes([*(node(name, WORKER) for name in names), *closed(number)])
    # What kube-scheduler cannot preempt.
    full = [
        pod(f"full{n}", where, cpu="950m", nodeName=f"closed{n}", priorityClassName="high")
        for n in range(0, number, 4)
    ]
    annotations = {"placet.dev/cards": '{"gpu":{"cards":[0],"take":{"milli":1000}}}'}
    there = []
    for kind in ("limit", "share", "spread", "cards"):
        # All nodes that spread counts have a pod of it; a tenth worker would get the next one.
        for name in names:
            made = pod(f"{kind}-{name}", where, {"app": kind}, nodeName=name)
            if kind == "cards":
                made["metadata"]["annotations"] = annotations
            there.append(made)
    cluster.create_pods([*full, *there])
    with ExitStack() as running:
        view = (f"--kubeconfig={plane.placet_kubeconfig}", "--lease=none", "--bind")
        server = running.enter_context(placet(tmp_path, file, *view))
        server.wait_ready()
        calls = running.enter_context(recorder(server.port))
        entry = extender(calls.address, node_cache_capable=True, preempts=preempts, binds=True)
        running.enter_context(kube_scheduler(plane, tmp_path, [entry]))
        asked = [kind for kind in KINDS if number or kind != "spread"]
        selector = {"role": "worker"}
        cluster.create_pods(
            pod(kind, where, {"app": kind}, nodeSelector=selector, priorityClassName="high")
            for kind in asked
        )
        for kind in asked:
            cluster.wait_refused(kind)
        began, seen = time.monotonic(), defaultdict[str, set[str]](set)
        while (spent := time.monotonic() - began) < WATCHED_SECONDS:
            for kind in asked:
                seen[kind].add(str(cluster.scheduled_condition(kind).get("reason")))
            time.sleep(0.3)
        last = {
            kind: [round(call.at - began, 1) for call in calls.calls("filter", kind)]
            for kind in asked
        }
    assert dict(seen) == {kind: {"Unschedulable"} for kind in asked}, last
    assert all(len(times) <= MOST_CALLS for times in last.values()), last
    assert all(times[-1] < WATCHED_SECONDS / 3 for times in last.values()), (last, spent)


@contextmanager
def one_filter(
    plane: ControlPlane, cluster: Cluster, folder: Path, percentage: int | None = None
) -> Iterator[Recorder]:
    """Run a Placet with one filter, which no worker passes, and a kube-scheduler that asks it."""
    file = folder / "one.policy"
    clause = CLAUSES["filter"]
    file.write_text(POLICIES.format(kind="filter", namespace=cluster.namespace, clause=clause))
    view = (f"--kubeconfig={plane.placet_kubeconfig}", "--lease=none")
    with placet(folder, file, *view) as server:
        server.wait_ready()
        with recorder(server.port) as calls:
            entry = extender(calls.address, node_cache_capable=True)
            with kube_scheduler(plane, folder, [entry], percentage):
                yield calls


def test_a_rejected_pod_stays_unschedulable_while_pods_come(
    plane: ControlPlane, cluster: Cluster, tmp_path: Path
) -> None:
    """Every pod that comes to a node makes kube-scheduler ask again, which is no loop (C49)."""
    where = cluster.namespace
    cluster.create_nodes(node(f"worker{each}", WORKER) for each in range(WORKERS))
    with one_filter(plane, cluster, tmp_path) as calls:
        cluster.create_pods([pod("filter", where, {"app": "filter"})])
        cluster.wait_refused("filter")
        seen = list[str]()
        for number in range(40):
            cluster.create_pods([pod(f"other{number}", where, nodeName="worker0")])
            for _ in range(3):
                seen.append(str(cluster.scheduled_condition("filter").get("reason")))
                time.sleep(0.1)
        asked = len(calls.calls("filter", "filter"))
    assert set(seen) == {"Unschedulable"}, seen
    assert asked > 10, "nothing has made kube-scheduler ask again"


def test_a_loop_of_texts_ends(plane: ControlPlane, cluster: Cluster, tmp_path: Path) -> None:
    """kube-scheduler's own counts go round with its sample, for which it asks again (C47)."""
    nodes = [node(f"worker{each}", WORKER) for each in range(300)]
    for each in range(0, 150, 2):
        # So many texts that two samples hardly ever have the same counts of them.
        nodes[each]["spec"] = {"taints": [{**TAINT, "key": f"example.com/closed{each % 20}"}]}
    cluster.create_nodes(nodes)
    with one_filter(plane, cluster, tmp_path, 35) as calls:
        cluster.create_pods([pod("filter", cluster.namespace, {"app": "filter"})])
        time.sleep(WATCHED_SECONDS)
        asked = calls.calls("filter", "filter")
    times = [round(call.at - asked[0].at, 1) for call in asked]
    assert len([at for at in times if at < 1.0]) > 3, times
    assert len(times) < WATCHED_SECONDS, times
    assert any(call.answer["Error"] for call in asked), times


# ---- A rejected pod stays quiet: kube-scheduler is not led into asking about it over and over


QUIET_SECONDS = 20.0

NO_SPAN = """
  filter "nowhere" { require node.labels["disk"] == "ssd" message "needs an ssd" }
"""
THREE_REASONS = """
  filter "not a" { require node.labels["part"] in ["b", "c"] message "part a is closed" }
  filter "not b" { require node.labels["part"] in ["a", "c"] message "part b is closed" }
  filter "not c" { require node.labels["part"] in ["a", "b"] message "part c is closed" }
"""
PARTS = [node(f"n{number}", {"part": "abc"[number % 3]}) for number in range(600)]


def test_rejected_high_priority_pod_among_victims(cluster: Cluster, served: Stage) -> None:
    """Every node holds a pod that could be evicted, and no eviction would help."""
    cluster.apply(priority_class("low", 10), priority_class("high", 1000))
    names = [f"n{number}" for number in range(12)]
    cluster.create_nodes(node(name, {"disk": "hdd"}, cpu="2") for name in names)
    cluster.create_pods(
        pod(f"low-{name}", cluster.namespace, cpu="1", priorityClassName="low", nodeName=name)
        for name in names
    )
    calls = served.start(NO_SPAN)

    cluster.create_pods(
        [pod("critical", cluster.namespace, GOVERNED, cpu="1", priorityClassName="high")]
    )
    time.sleep(QUIET_SECONDS)

    assert "12 policy web: needs an ssd" in cluster.scheduled_condition("critical")["message"]
    assert 1 <= len(calls.calls("filter", "critical")) <= 4
    assert cluster.placements().keys() == {f"low-{name}" for name in names}
    assert calls.failures() == []


def test_rejected_pod_in_a_sampled_cluster(cluster: Cluster, served: Stage) -> None:
    """From 100 nodes on kube-scheduler offers a rotating sample: the counts in its text change."""
    cluster.create_nodes(PARTS)
    calls = served.start(THREE_REASONS)

    cluster.create_pods([pod("web", cluster.namespace, GOVERNED)])
    time.sleep(QUIET_SECONDS)

    condition = cluster.scheduled_condition("web")
    assert condition["reason"] == "Unschedulable", "autoscalers see it"
    # With their counts, or in one text for all nodes once kube-scheduler has asked often.
    message = condition["message"]
    assert all(f"policy web: part {part} is closed" in message for part in "abc")
    asked = calls.calls("filter", "web")
    assert max(call.nodes for call in asked) < len(PARTS)
    assert len(asked) <= 8
    assert calls.failures() == []
    time.sleep(QUIET_SECONDS)
    assert len(calls.calls("filter", "web")) == len(asked), "it has settled"


def test_rejected_pod_when_every_node_is_offered(cluster: Cluster, served: Stage) -> None:
    """At the percentage Placet asks for the text never changes, and so nothing is repeated."""
    cluster.create_nodes(PARTS)
    calls = served.start(THREE_REASONS, percentage=100)

    cluster.create_pods([pod("web", cluster.namespace, GOVERNED)])
    time.sleep(QUIET_SECONDS)

    message = cluster.scheduled_condition("web")["message"]
    assert all(f"200 policy web: part {part} is closed" in message for part in "abc")
    asked = calls.calls("filter", "web")
    assert {call.nodes for call in asked} == {len(PARTS)}
    assert len(asked) <= 4
    assert calls.failures() == []

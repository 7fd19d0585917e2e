"""Hostile policies against a real control plane: pods of another namespace do not notice."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.measuring import Bindings, Memory, bindings, quantile, sampled
from tests.e2e.cluster import Cluster
from tests.e2e.control_plane import ControlPlane
from tests.e2e.kube_scheduler import extender, kube_scheduler
from tests.e2e.manifests import node, pod
from tests.e2e.policies import API_VERSION, define
from tests.e2e.stage import GOVERNED, Stage
from tests.support.attacker import hostile_policies

pytestmark = pytest.mark.chaos

SEED, POLICIES = int(os.environ.get("SEED", "1")), int(os.environ.get("POLICIES", "200"))
NODES, HOSTILE_PODS = 30, 50
# Seconds in which pods of the other namespace are created, without and under each policy.
IDLE_SECONDS, ATTACK_SECONDS = 30.0, 4.0
PAUSE_SECONDS = 0.1
HARMLESS, REJECTING = (f'filter "f" {{ require node.name {op} "n0" }}' for op in ("!=", "<"))
CONTROLS = 6
MEBIBYTE = 1 << 20
# What others may notice.
MORE_SECONDS, LIVE_SECONDS, LIVE_PART, LIVE_MOST = 0.25, 0.1, 0.99, 1.0
MORE_MEMORY, MEMORY_SECONDS, SCHEDULER_MEMORY = 200 * MEBIBYTE, 60.0, 100 * MEBIBYTE


class Others:
    """Pods of another namespace, created one by one; how long each waited for its node."""

    def __init__(self, cluster: Cluster, seen: Bindings) -> None:
        self._cluster = cluster
        self._seen = seen
        self._created: dict[str, float] = {}

    def create(self, seconds: float) -> list[float]:
        """Create pods for so long; return their waits, of those without a node until now."""
        names, ends = [], time.monotonic() + seconds
        while time.monotonic() < ends:
            name = f"other-{len(self._created)}"
            names.append(name)
            self._created[name] = time.monotonic()
            self._cluster.create_pods([pod(name, self._cluster.namespace, GOVERNED, cpu="1m")])
            time.sleep(PAUSE_SECONDS)
        ends = time.monotonic() + 10.0
        while time.monotonic() < ends and not self._seen.seen.keys() >= set(names):
            time.sleep(0.02)
        now = time.monotonic()
        waits = [self._seen.seen.get(name, now) - self._created[name] for name in names]
        self._cluster.delete_pods()
        return waits


@pytest.fixture
def hostile(plane: ControlPlane, cluster: Cluster) -> Iterator[Cluster]:
    """Return the namespace of the attacker."""
    made = Cluster(plane, f"{cluster.namespace}-hostile")
    yield made
    made.delete_pods()


class Attacker:
    """Applies policies in its namespace, with pods that they select."""

    def __init__(self, cluster: Cluster, others: Others) -> None:
        self._cluster = cluster
        self._others = others

    def waits(self, name: str, rules: str) -> list[float]:
        """The waits of others' pods under a policy and its pods, which are gone afterwards."""
        cluster = self._cluster
        cluster.apply(manifest(cluster.namespace, name, rules))
        names = (f"{name}-{number}" for number in range(HOSTILE_PODS))
        cluster.create_pods(pod(each, cluster.namespace, GOVERNED, cpu="1m") for each in names)
        found = self._others.create(ATTACK_SECONDS)
        cluster.delete_pods()
        cluster.kubectl("delete", "placementpolicies", name, f"--namespace={cluster.namespace}")
        return found


def manifest(namespace: str, name: str, rules: str) -> dict[str, Any]:
    return {
        "apiVersion": API_VERSION,
        "kind": "PlacementPolicy",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"podSelector": {"matchLabels": GOVERNED}, "rules": rules},
    }


def test_pods_of_other_namespaces_do_not_notice(
    plane: ControlPlane, cluster: Cluster, hostile: Cluster, served: Stage, tmp_path: Path
) -> None:
    cluster.create_nodes(node(f"n{number}", cpu="64") for number in range(NODES))
    define(cluster)
    cluster.apply(manifest(cluster.namespace, "own", HARMLESS))
    server = served.watch_objects()
    server.wait_ready()
    entry = extender(f"http://127.0.0.1:{server.port}", node_cache_capable=True)
    with (
        kube_scheduler(plane, tmp_path, [entry]) as scheduler,
        bindings(plane, cluster.namespace) as seen,
    ):
        placet, kube = Memory(server.process.child.pid), Memory(scheduler.child.pid)
        others = Others(cluster, seen)
        others.create(5.0)
        with sampled(server.port, [placet, kube]):
            idle = others.create(IDLE_SECONDS)
        attacker = Attacker(hostile, others)
        harmless, rejecting = (
            [wait for _ in range(CONTROLS) for wait in attacker.waits("harmless", rules)]
            for rules in (HARMLESS, REJECTING)
        )
        before, kube_before = placet.start_over(), kube.start_over()
        waits: list[float] = []
        worst: list[tuple[float, str]] = []
        with sampled(server.port, [placet, kube]) as health:
            for number, attack in enumerate(hostile_policies(SEED, POLICIES)):
                found = attacker.waits(f"hostile-{number}", attack.rules)
                waits += found
                worst.append((max(found), f"{number} {attack.kind}"))
        most, kube_most = placet.most, kube.most
        ends = time.monotonic() + MEMORY_SECONDS
        while time.monotonic() < ends and placet.now > before + MORE_MEMORY / 4:
            time.sleep(1.0)
            placet.look()
        after = placet.now

    lines = [f"seed {SEED}, {POLICIES} policies, {len(waits)} pods; without any, {len(idle)} pods"]
    lines += [
        f"creation to bound, quantile {part}: {quantile(waits, part):.3f} s, "
        f"idle {quantile(idle, part):.3f} s, "
        f"beside as many harmless pods {quantile(harmless, part):.3f} s, "
        f"and if these are rejected {quantile(rejecting, part):.3f} s"
        for part in (0.5, 0.99, 1.0)
    ]
    lines += [
        (
            f"/livez below {LIVE_SECONDS} s: {health.below(LIVE_SECONDS):.4f} of "
            f"{len(health.seconds)}, at most {max(health.seconds):.3f} s"
        ),
        (
            f"memory of Placet: {before / MEBIBYTE:.0f} MiB, at most {most / MEBIBYTE:.0f}, "
            f"afterwards {after / MEBIBYTE:.0f}"
        ),
        f"of kube-scheduler: {kube_before / MEBIBYTE:.0f} MiB, at most {kube_most / MEBIBYTE:.0f}",
    ]
    lines += [
        f"longest wait {seconds:.3f} s under policy {what}"
        for seconds, what in sorted(worst, reverse=True)[:10]
    ]
    expensive = server.get("/metrics")[1].count("placet_expensive_policies_total{")
    lines.append(f"{expensive} policies were expensive")
    sys.stdout.write("\n".join(lines) + "\n")

    assert quantile(waits, 0.99) <= quantile(idle, 0.99) + MORE_SECONDS
    assert health.below(LIVE_SECONDS) >= LIVE_PART
    assert max(health.seconds) <= LIVE_MOST
    assert most <= before + MORE_MEMORY
    assert after <= before + MORE_MEMORY / 4
    assert kube_most <= kube_before + SCHEDULER_MEMORY

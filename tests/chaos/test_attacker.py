"""Hostile policies against a real control plane: pods of another namespace do not notice.

Whoever creates fifty pods at once delays others a little, with or without Placet: kube-scheduler
takes milliseconds for each, twice where a pod is rejected. So waits during a wave of hostile pods
are compared with those beside as many pods that kube-scheduler rejects itself, and waits after it,
while the hostile pods stay and are tried again, with those of a cluster without them.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
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

SEED, POLICIES = int(os.environ.get("SEED", "1")), int(os.environ.get("POLICIES") or 200)
NODES, HOSTILE_PODS = 30, 50
# Seconds in which pods of the other namespace are created, without and under each policy.
ATTACK_SECONDS = 3.0
PAUSE_SECONDS = 0.1
# Pods that are created so soon after the hostile ones are in their wave.
WAVE_SECONDS = 1.0
REJECTING = 'filter "f" { require node.name < "n0" }'
HARMLESS = 'filter "f" { require node.name != "n0" }'
# No node has this label.
UNSCHEDULABLE = {"nodeSelector": {"example.com/none": "none"}}
# After so many policies all is measured without one: the machine changes its pace.
CONTROL_EVERY = 10
MEBIBYTE = 1 << 20
# What others may notice.
MORE_SECONDS, LIVE_SECONDS, LIVE_PART, LIVE_MOST = 0.25, 0.1, 0.99, 1.0
MORE_MEMORY, MEMORY_SECONDS, SCHEDULER_MEMORY = 200 * MEBIBYTE, 60.0, 100 * MEBIBYTE


@dataclass
class Waits:
    """The seconds that pods waited for their nodes, in the order of their creation."""

    wave: list[float] = field(default_factory=list)
    later: list[float] = field(default_factory=list)

    @property
    def all(self) -> list[float]:
        return self.wave + self.later

    def add(self, more: Waits) -> None:
        self.wave += more.wave
        self.later += more.later


class Others:
    """Pods of another namespace, created one by one; how long each waited for its node."""

    def __init__(self, cluster: Cluster, seen: Bindings) -> None:
        self._cluster = cluster
        self._seen = seen
        self._created: dict[str, float] = {}

    def create(self, seconds: float) -> Waits:
        """Create pods for so long; return their waits, of those without a node until now."""
        began = time.monotonic()
        names, ends = [], began + seconds
        while time.monotonic() < ends:
            name = f"other-{len(self._created)}"
            names.append(name)
            self._created[name] = time.monotonic()
            self._cluster.create_pods([pod(name, self._cluster.namespace, GOVERNED, cpu="1m")])
            time.sleep(PAUSE_SECONDS)
        ends = time.monotonic() + 10.0
        while time.monotonic() < ends and not self._seen.seen.keys() >= set(names):
            time.sleep(0.02)
        now, found = time.monotonic(), Waits()
        for name in names:
            created = self._created[name]
            part = found.wave if created < began + WAVE_SECONDS else found.later
            part.append(self._seen.seen.get(name, now) - created)
        self._cluster.delete_pods()
        return found


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

    def waits(self, name: str, rules: str | None, **spec: object) -> Waits:
        """The waits of others' pods under a policy and its pods, which are gone afterwards."""
        cluster = self._cluster
        if rules is not None:
            cluster.apply(manifest(cluster.namespace, name, rules))
        names = (f"{name}-{number}" for number in range(HOSTILE_PODS))
        cluster.create_pods(pod(n, cluster.namespace, GOVERNED, cpu="1m", **spec) for n in names)
        found = self._others.create(ATTACK_SECONDS)
        cluster.delete_pods()
        if rules is not None:
            options = [f"--namespace={cluster.namespace}", "--ignore-not-found"]
            cluster.kubectl("delete", "placementpolicies", name, *options)
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
        attacker = Attacker(hostile, others)
        idle, unschedulable, rejected, attacked = Waits(), Waits(), Waits(), Waits()
        before, kube_before = placet.start_over(), kube.start_over()
        worst: list[tuple[float, str]] = []
        with sampled(server.port, [placet, kube]) as health:
            for number, attack in enumerate(hostile_policies(SEED, POLICIES)):
                if number % CONTROL_EVERY == 0:
                    health.during = "alone"
                    idle.add(others.create(ATTACK_SECONDS))
                    health.during = "waves"
                    unschedulable.add(attacker.waits(f"none-{number}", None, **UNSCHEDULABLE))
                    rejected.add(attacker.waits(f"rejected-{number}", REJECTING))
                health.during = "attack"
                found = attacker.waits(f"hostile-{number}", attack.rules)
                attacked.add(found)
                worst.append((max(found.all), f"{number} {attack.kind}"))
        most, kube_most = placet.most, kube.most
        ends = time.monotonic() + MEMORY_SECONDS
        while time.monotonic() < ends and placet.now > before + MORE_MEMORY / 4:
            time.sleep(1.0)
            placet.look()
        after = placet.now

    lines = [f"seed {SEED}, {POLICIES} policies; pods of others, creation to bound, in seconds:"]
    lines += [
        f"{what}: {len(waits)} pods, p50 {quantile(waits, 0.5):.3f}, "
        f"p99 {quantile(waits, 0.99):.3f}, at most {max(waits):.3f}"
        for what, waits in (
            ("alone", idle.all),
            ("in and after a wave of pods that kube-scheduler rejects", unschedulable.all),
            ("in and after a wave of pods that a harmless policy rejects", rejected.all),
            ("in and after a wave of pods under a hostile policy", attacked.all),
            ("after the wave of pods that kube-scheduler rejects", unschedulable.later),
            ("after the wave of pods that a harmless policy rejects", rejected.later),
            ("after the wave of pods under a hostile policy", attacked.later),
        )
    ]
    lines += [
        (
            f"/livez, {during}: {health.below(LIVE_SECONDS, during):.4f} of {len(seconds)} below "
            f"{LIVE_SECONDS} s, at most {max(seconds):.3f} s"
        )
        for during, seconds in health.seconds.items()
    ]
    lines += [
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

    assert quantile(attacked.later, 0.99) <= quantile(idle.all, 0.99) + MORE_SECONDS
    assert quantile(attacked.all, 0.99) <= quantile(unschedulable.all, 0.99) + MORE_SECONDS
    assert health.below(LIVE_SECONDS, "attack") >= LIVE_PART
    assert max(health.seconds["attack"]) <= LIVE_MOST
    assert most <= before + MORE_MEMORY
    assert after <= before + MORE_MEMORY / 4
    assert kube_most <= kube_before + SCHEDULER_MEMORY

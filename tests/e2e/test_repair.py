"""Repair on a real control plane: evictions within budget and rate, and none without a place."""

import os
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.control_plane import ControlPlane
from tests.e2e.controller_manager import DEPLOYMENTS, controller_manager
from tests.e2e.deployments import Rolled, Rollouts
from tests.e2e.kubelets import PlacedPod
from tests.e2e.manifests import node
from tests.e2e.placet import Placet
from tests.e2e.stage import GOVERNED, Stage
from tests.e2e.waiting import until

ALONE = "--lease=none"
SPOT = 'node.labels["capacity"] == "spot"'
PODS = int(os.environ.get("PODS") or "10")
PERCENT, RATE = 40, 1000
REPAIR = f"""
  repair at most {RATE} per minute
  share "spot" {{ of replicas on nodes where {SPOT} at most {PERCENT}% strict }}
"""
# Some seconds for each pod that is moved.
SECONDS = 60.0 + 6.0 * PODS


def budget(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": GOVERNED}},
    }


def no_check(pods: list[PlacedPod], to: str, replicas: int) -> str | None:
    return None


def spot_and_steady(steady_cpu: str) -> list[dict[str, Any]]:
    return [
        *(node(f"spot-{number}", {"capacity": "spot"}, cpu="64") for number in range(2)),
        node("steady-0", {"capacity": "steady"}, cpu=steady_cpu),
    ]


@contextmanager
def drifted(
    plane: ControlPlane, cluster: Cluster, served: Stage, folder: Path, steady_cpu: str
) -> Iterator[tuple[Rollouts, Placet]]:
    """A Deployment of which all pods are on spot nodes, whose policy is edited then."""
    cluster.create_nodes(spot_and_steady(steady_cpu))
    server = served.watch(f'  filter "spot" {{ require {SPOT} }}', None, ALONE, "--repair=on")
    server.wait_ready()
    served.schedule(server)
    found = Rollouts(plane, cluster, no_check)
    controllers = (*DEPLOYMENTS, "disruption-controller")
    with found.running(), controller_manager(plane, folder, controllers):
        cluster.apply(budget("web"))
        found.create([Rolled("web", PODS, {"type": "RollingUpdate"})])
        found.wait_complete(120.0)
        assert on_spot(found) == PODS
        served.write_policy(REPAIR)
        yield found, server


def on_spot(found: Rollouts) -> int:
    return sum(n for name, n in found.placed("web").items() if name.startswith("spot"))


def evicted(cluster: Cluster) -> list[dict[str, Any]]:
    return [each for each in cluster.events("Pod") if each["reason"] == "Evicted"]


@pytest.mark.e2e
def test_a_share_is_repaired_once_there_is_room(
    plane: ControlPlane, cluster: Cluster, served: Stage, tmp_path: Path
) -> None:
    """As few pods move as must, one after another, none twice, and none without a place."""
    wanted, moved, fewest = PODS * PERCENT // 100, PODS - PODS * PERCENT // 100, PODS
    with drifted(plane, cluster, served, tmp_path, "0") as (found, server):

        def is_said() -> bool:
            repairs = server.drift().get("repairs", ())
            return any(each["state"] == "no place" for each in repairs)

        until(is_said, 120.0, lambda: str(server.drift())[-500:], 1.0)
        assert on_spot(found) == PODS
        assert evicted(cluster) == []
        (clause,) = server.drift()["clauses"]
        assert (clause["pods"], clause["movable"]) == (moved, 0)

        cluster.create_nodes([node("steady-1", {"capacity": "steady"}, cpu="64")])

        def is_repaired() -> bool:
            nonlocal fewest
            fewest = min(fewest, sum(found.placed("web").values()))
            return on_spot(found) == wanted and sum(found.placed("web").values()) == PODS

        until(is_repaired, SECONDS, lambda: f"{found.placed('web')} {server.drift()}", 0.05)
        # Nothing moves after that, and every eviction is told.
        time.sleep(5.0)
        assert on_spot(found) == wanted
        assert fewest >= PODS - 1, "never below the budget"
        until(lambda: len(evicted(cluster)) == moved, 120.0, lambda: str(len(evicted(cluster))))
        pods = Counter(each["regarding"]["uid"] for each in evicted(cluster))
        assert set(pods.values()) == {1}, "no pod is evicted twice"
        (repair,) = server.drift()["repairs"]
        assert (repair["evicted"], repair["returned"]) == (moved, 0)

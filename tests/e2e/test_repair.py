"""Repair on a real control plane: evictions within budget and rate, and none without a place."""

import os
import time
from pathlib import Path

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.control_plane import ControlPlane
from tests.e2e.drifting import drifted, said
from tests.e2e.manifests import node
from tests.e2e.process import until
from tests.e2e.stage import Stage

PODS = int(os.environ.get("PODS") or "10")
RATE = 1000
# Some seconds for each pod that is moved.
SECONDS = 60.0 + 6.0 * PODS


def told(cluster: Cluster) -> list[str]:
    """The pods of which an event of Placet says that they are evicted."""
    found = (each for each in cluster.events("Pod") if each["reason"] == "Evicted")
    return sorted(each["regarding"]["name"] for each in found)


@pytest.mark.e2e
def test_a_share_is_repaired_once_there_is_room(
    plane: ControlPlane, cluster: Cluster, served: Stage, tmp_path: Path
) -> None:
    """As few pods move as must, one after another, none twice, and none without a place."""
    with drifted(plane, cluster, served, tmp_path, PODS, RATE, "0") as (found, server):
        until(
            lambda: said(server)["state"] == "no place",
            120.0,
            lambda: str(server.drift())[-500:],
            1.0,
        )
        assert found.on_spot() == PODS
        assert found.evictions.made == []
        (clause,) = server.drift()["clauses"]
        assert (clause["pods"], clause["movable"]) == (found.moved, 0)

        cluster.create_nodes([node("steady-1", {"capacity": "steady"}, cpu="64")])
        placed = found.rollouts.placed
        until(found.is_repaired, SECONDS, lambda: f"{placed('web')} {server.drift()}", 0.05)
        # Nothing moves after that, and every eviction is told.
        time.sleep(5.0)
        assert found.is_repaired()
        assert found.evictions.fewest == PODS - 1, "never below the budget"
        names = sorted(found.evictions.names())
        assert len(set(names)) == len(names) == found.moved, "no pod is evicted twice"
        until(lambda: told(cluster) == names, 120.0, lambda: str(told(cluster)))
        assert (said(server)["evicted"], said(server)["returned"]) == (found.moved, 0)

"""Limits that keep pods out for others, or that count nodes, in bursts without a bindVerb.

Bound pods stay, so a bound that holds at the end was never passed.
"""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.control_plane import ControlPlane
from tests.e2e.kube_scheduler import extender, kube_scheduler
from tests.e2e.manifests import node, pod
from tests.e2e.placet import placet
from tests.e2e.stage import GOVERNED, Stage
from tests.e2e.waiting import until

pytestmark = pytest.mark.e2e

SECONDS = 120.0
BURST = 40
USED = '  limit "few" { all pods where true used nodes at most 3 strict }'
EMPTY = '  limit "spare" { all pods where true empty nodes at least 2 strict }'
ALONE = """
  limit "alone" {
    all pods where true per node at most 1 strict mutual message "a pod there is to be alone"
  }
"""
TEAM = "example.com/team"
TEAMS = f"""cluster policy teams {{
  for pods where "{TEAM}" in namespaceObject.labels

  limit "teams" {{
    all pods where peer.namespaceLabels[?"{TEAM}"] != namespaceObject.labels[?"{TEAM}"]
    per node
    at most 0
    strict
    mutual
    message "another team is there"
  }}
}}
"""


def nodes(number: int, cpu: str = "8") -> list[dict[str, Any]]:
    return [node(f"n{each}", cpu=cpu) for each in range(number)]


def burst(cluster: Cluster, prefix: str, number: int, cpu: str = "10m") -> list[str]:
    names = [f"{prefix}-{each}" for each in range(number)]
    cluster.create_pods(pod(name, cluster.namespace, GOVERNED, cpu=cpu) for name in names)
    return names


def test_a_burst_uses_few_nodes(cluster: Cluster, served: Stage) -> None:
    """Each node has room for all pods, so only the limit keeps them together."""
    cluster.create_nodes(nodes(12))
    server = served.watch(USED)
    server.wait_ready()
    served.schedule(server)
    used = set(cluster.wait_placed(burst(cluster, "web", BURST), SECONDS).values())
    assert len(used) == 3, used


def test_a_burst_leaves_nodes_empty(cluster: Cluster, served: Stage) -> None:
    """Of five nodes for eight pods each, three are filled; a sixth node makes room for eight."""
    cluster.create_nodes(nodes(5))
    server = served.watch(EMPTY)
    server.wait_ready()
    served.schedule(server)
    names = burst(cluster, "web", BURST, cpu="1")

    def wait_full(filled: int) -> None:
        until(
            lambda: sorted(Counter(cluster.placements().values()).values()) == [8] * filled,
            SECONDS,
            lambda: f"{cluster.placements()}; {server.process.tail()}",
        )

    wait_full(3)
    waiting = next(name for name in names if name not in cluster.placements())
    assert "spare" in cluster.wait_refused(waiting)["message"]
    cluster.create_nodes([node("n5")])
    wait_full(4)


def test_a_pod_that_is_to_be_alone_keeps_others_out(cluster: Cluster, served: Stage) -> None:
    """All are created at once; no policy selects the others."""
    cluster.create_nodes(nodes(6))
    server = served.watch(ALONE)
    server.wait_ready()
    served.schedule(server)
    alone = [f"alone-{each}" for each in range(3)]
    others = [f"other-{each}" for each in range(BURST)]
    cluster.create_pods(
        [
            *(pod(name, cluster.namespace, GOVERNED, cpu="10m") for name in alone),
            *(pod(name, cluster.namespace, cpu="10m") for name in others),
        ]
    )
    placed = cluster.wait_placed([*alone, *others], SECONDS)
    there = Counter(placed.values())
    assert [there[placed[name]] for name in alone] == [1, 1, 1], placed


def test_teams_of_namespaces_stay_apart(
    plane: ControlPlane, cluster: Cluster, tmp_path: Path
) -> None:
    """Two namespaces with labels keep apart; the pods of a third are kept out by both."""
    file = tmp_path / "teams.policy"
    file.write_text(TEAMS)
    cluster.create_nodes(nodes(9))
    spaces = {
        team: Cluster(plane, f"{cluster.namespace}-{team}") for team in ("red", "blue", "none")
    }
    for team in ("red", "blue"):
        cluster.kubectl("label", "namespace", spaces[team].namespace, f"{TEAM}={team}")
    view = f"--kubeconfig={plane.placet_kubeconfig}"
    try:
        with placet(tmp_path, file, view) as server:
            server.wait_ready()
            entry = extender(f"http://127.0.0.1:{server.port}", node_cache_capable=True)
            with kube_scheduler(plane, tmp_path, [entry]):
                # A team may take all nodes that the others leave, so each gets one first.
                for number in (1, BURST):
                    waited = {
                        team: burst(space, f"{team}-{number}", number)
                        for team, space in spaces.items()
                    }
                    for team, space in spaces.items():
                        space.wait_placed(waited[team], SECONDS)
                used = [set(space.placements().values()) for space in spaces.values()]
    finally:
        for space in spaces.values():
            space.clear()
    assert not overlapping(used), used


def overlapping(groups: Iterable[set[str]]) -> set[str]:
    """The members of more than one group."""
    found = Counter(each for group in groups for each in group)
    return {each for each, number in found.items() if number > 1}

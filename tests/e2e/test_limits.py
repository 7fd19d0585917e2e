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
from tests.e2e.manifests import controller, node, owned_by, pod
from tests.e2e.placet import placet
from tests.e2e.process import until
from tests.e2e.stage import GOVERNED, Stage

pytestmark = pytest.mark.e2e

SECONDS = 120.0
BURST = 40
USED = '  limit "few" { all pods where true used node at most 3 strict }'
EMPTY = '  limit "spare" { all pods where true empty node at least 2 strict }'
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


# ---- workloads under strict counts, as their controllers create and replace pods, and nodes too


# There is no other replica, whose Lease would have to expire.
BY_THEMSELVES = "--lease=none"

ZONES = "abc"
SHARE = """
  share "on spot" {
    of replicas
    on nodes where node.labels["capacity"] == "spot"
    exactly 40%
    strict
  }
"""
SPREAD = '  spread "zones" { over node.zone skew at most 1 strict }'
LIMIT = """
  limit "two a node" { pods where peer.labels["app"] == "web" per node at most 2 strict }
"""


def stateful_set(namespace: str, replicas: int) -> dict[str, Any]:
    """Return a StatefulSet that wants so many pods."""
    made = controller("StatefulSet", "web", namespace)
    made["spec"] |= {"replicas": replicas, "serviceName": "web"}
    return made


def test_pods_of_a_stateful_set_come_one_by_one(cluster: Cluster, served: Stage) -> None:
    """Each is created when the one before has a node; a lost one comes back under its name."""
    cluster.create_nodes(
        node(f"{kind}-{number}", {"capacity": kind})
        for kind in ("spot", "steady")
        for number in range(2)
    )
    owner = cluster.create(stateful_set(cluster.namespace, 10))
    server = served.watch(SHARE, None, BY_THEMSELVES)
    server.wait_ready()
    served.schedule(server)
    names = [f"web-{number}" for number in range(10)]
    made = {name: owned_by(owner, pod(name, cluster.namespace, GOVERNED)) for name in names}
    for each in made.values():
        cluster.create_pods([each])
        cluster.wait_placed([each["metadata"]["name"]])

    def on_spot() -> int:
        return sum(to.startswith("spot-") for to in cluster.placements().values())

    assert on_spot() == 4
    for name in ("web-0", "web-5", "web-9"):
        cluster.delete_pod(name)
        cluster.create_pods([made[name]])
        cluster.wait_placed([name])
        assert on_spot() == 4
    assert server.compare()["count"] == 0


def test_rollout_with_a_surge_under_a_spread(cluster: Cluster, served: Stage) -> None:
    """Two new pods come before two old ones go; pods of both templates count."""
    cluster.create_nodes(
        node(f"n{number}", {"topology.kubernetes.io/zone": ZONES[number % 3]})
        for number in range(6)
    )
    deployment = cluster.create(controller("Deployment", "web", cluster.namespace))
    old, new = (
        cluster.create(
            owned_by(deployment, controller("ReplicaSet", f"web-{each}", cluster.namespace))
        )
        for each in ("old", "new")
    )
    server = served.watch(SPREAD, None, BY_THEMSELVES)
    server.wait_ready()
    served.schedule(server)

    def create(owner: dict[str, Any], numbers: range) -> list[str]:
        template = owner["metadata"]["name"]
        names = [f"{template}-{number}" for number in numbers]
        labels = {**GOVERNED, "pod-template-hash": template}
        cluster.create_pods(owned_by(owner, pod(name, cluster.namespace, labels)) for name in names)
        return names

    cluster.wait_placed(create(old, range(9)))
    assert skew(cluster) == 0
    for first in range(0, 9, 2):
        some = range(first, min(first + 2, 9))
        cluster.wait_placed(create(new, some))
        for number in some:
            cluster.delete_pod(f"web-old-{number}")

    assert len(cluster.placements()) == 9
    # Which old pods go is not for Placet to say: each step can leave one more between zones.
    assert skew(cluster) <= 1 + 2
    assert server.compare()["count"] == 0


def skew(cluster: Cluster) -> int:
    """Return how many more pods the fullest zone has than the emptiest."""
    zones = Counter(int(to[1:]) % 3 for to in cluster.placements().values())
    return max(zones.values()) - min(zones[number] for number in range(3))


def test_nodes_come_back_under_their_names(cluster: Cluster, served: Stage, tmp_path: Path) -> None:
    """Their pods are gone with them; the places are free again, and no more than there were."""
    nodes = {f"n{number}": node(f"n{number}") for number in range(4)}
    cluster.create_nodes(nodes.values())
    server = served.watch(LIMIT, None, BY_THEMSELVES)
    server.wait_ready()
    served.schedule(server)
    names = [f"web-{number}" for number in range(8)]
    cluster.create_pods(pod(name, cluster.namespace, GOVERNED) for name in names)
    where = cluster.wait_placed(names)
    for turn in range(3):
        lost = f"n{turn}"
        cluster.delete_node(lost)
        gone = [name for name, to in where.items() if to == lost]
        for name in gone:
            cluster.delete_pod(name)
        cluster.create_pods(pod(name, cluster.namespace, GOVERNED) for name in gone)
        for name in gone:
            cluster.wait_refused(name)
        cluster.create_nodes([nodes[lost]])
        where = cluster.wait_placed(names)
        assert set(Counter(where.values()).values()) == {2}
    until(lambda: server.compare()["count"] == 0, 30.0, server.process.tail)

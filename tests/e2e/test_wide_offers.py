"""A bound lets kube-scheduler choose: pods spread over 446 nodes as pods without the bound do.

The pods of a kind are bound in the namespace of a test, and stay: a bound that holds at the end was
never passed.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.control_plane import ControlPlane
from tests.e2e.kube_scheduler import extender, started_kube_scheduler
from tests.e2e.manifests import node, pod
from tests.e2e.placet import placet
from tests.e2e.recorder import Recorder, recorder
from tests.e2e.stage import GOVERNED, Stage
from tests.support.rows import rows

pytestmark = pytest.mark.e2e

LABEL = "topology.kubernetes.io/zone"
NODES, PODS, BURST = 446, 100, 200
SECONDS = 240.0
KIND = 'pods where peer.labels["app"] == "web"'
ZONE = {f"n{number}": f"z{number % 3}" for number in range(NODES)}
WIDE = {
    "fifty per node": f'  limit "fifty" {{ {KIND} per node at most 50 strict }}',
    "300 per zone": f'  limit "zone" {{ {KIND} per zone at most 300 strict }}',
    "a spread": f'  spread "zones" {{ {KIND} over node.zone skew at most 50 strict }}',
    "a share": f"""  share "z0" {{
    of {KIND} on nodes where node.zone == "z0" at most 200 strict
  }}""",
}
NARROW: Mapping[str, tuple[str, Callable[[str], str], int | None]] = {
    "one per node": (f'  limit "one" {{ {KIND} per node at most 1 strict }}', str, 1),
    "two per node": (f'  limit "two" {{ {KIND} per node at most 2 strict }}', str, 2),
    "skew": (
        f'  spread "zones" {{ {KIND} over node.zone skew at most 1 strict }}',
        ZONE.__getitem__,
        None,
    ),
}


def wait_spread(cluster: Cluster, names: Sequence[str]) -> Counter[str]:
    return Counter(cluster.wait_placed(names, SECONDS).values())


def create(cluster: Cluster, prefix: str, number: int, pause: float) -> list[str]:
    """Governed pods of a prefix, all at once or one after another is placed."""
    names = [f"{prefix}-{each}" for each in range(number)]
    for name in names:
        cluster.create_pods([pod(name, cluster.namespace, GOVERNED, cpu="10m")])
        if pause:
            cluster.wait_placed([name], SECONDS)
            time.sleep(pause)
    return names


def offered(asked: Recorder, prefix: str) -> list[tuple[int, int]]:
    """The nodes that each call of filter was about, and those that it was offered."""
    calls = [call for call in asked.calls("filter") if prefix in call.pod]
    return [(call.nodes, len(call.answer["NodeNames"] or ())) for call in calls]


@rows("clause", WIDE)
def test_pods_spread_as_without_the_bound(clause: str, cluster: Cluster, served: Stage) -> None:
    """One by one every node is offered; at once no node has more than one pod more."""
    cluster.create_nodes(node(name, {LABEL: zone}) for name, zone in ZONE.items())
    server = served.watch(clause)
    server.wait_ready()
    server.wait_leading()
    asked = served.schedule(server, percentage=100)
    plain = [f"plain-{each}" for each in range(PODS)]
    cluster.create_pods(pod(name, cluster.namespace, cpu="10m") for name in plain)
    most = max(wait_spread(cluster, plain).values())
    cluster.delete_pods()
    one_by_one = wait_spread(cluster, create(cluster, "single", 20, pause=0.2))
    assert max(one_by_one.values()) <= most + 1
    assert set(offered(asked, "single")) == {(NODES, NODES)}
    at_once = [f"burst-{each}" for each in range(PODS)]
    cluster.create_pods(pod(name, cluster.namespace, GOVERNED, cpu="10m") for name in at_once)
    assert max(wait_spread(cluster, at_once).values()) <= most + 1


@pytest.mark.parametrize("binds", [False, True], ids=["without bind", "with bind"])
@pytest.mark.parametrize("kind", NARROW)
def test_a_burst_passes_no_bound(kind: str, binds: bool, cluster: Cluster, served: Stage) -> None:
    clause, group_of, most = NARROW[kind]
    cluster.create_nodes(node(name, {LABEL: zone}) for name, zone in ZONE.items())
    server = served.watch(clause, None, *(["--bind"] if binds else []))
    server.wait_ready()
    server.wait_leading()
    served.schedule(server, percentage=100, binds=binds)
    names = [f"burst-{each}" for each in range(BURST)]
    cluster.create_pods(pod(name, cluster.namespace, GOVERNED, cpu="10m") for name in names)
    found = Counter(map(group_of, cluster.wait_placed(names, SECONDS).values()))
    assert max(found.values()) <= (most or min(found.values()) + 1), found


# ---- pods spread over equal nodes as they do where every host is in the answers to prioritize


EQUAL_NODES = 200
EQUAL_PODS = 2_000
# The equal hosts that an answer lists.
HANDFUL = 32
PLACED_SECONDS = 120.0
POLICY = """policy web in namespace "{namespace}" {{
  for pods where pod.labels["app"] == "web"
  score "equal" weight 1 {{ value node.labels["zone"] == pod.name missing 70 }}
}}
"""
# Our scores alone decide: those of kube-scheduler's own plugins would spread pods by themselves.
SCORES_OF_OURS = {
    "percentageOfNodesToScore": 100,
    "profiles": [{"plugins": {"score": {"disabled": [{"name": "*"}]}}}],
}


def test_equal_nodes_are_filled_evenly(
    plane: ControlPlane, cluster: Cluster, tmp_path: Path
) -> None:
    cluster.create_nodes(node(f"n{number}", cpu="32") for number in range(EQUAL_NODES))
    short = placed(plane, cluster, tmp_path / "short", "cli", hosts=HANDFUL)
    full = placed(
        plane, cluster, tmp_path / "full", "tests.support.full_answers", hosts=EQUAL_NODES
    )
    assert max(short.values()) <= 1.5 * max(full.values())


def placed(
    plane: ControlPlane, cluster: Cluster, folder: Path, program: str, hosts: int
) -> Counter[str]:
    """The number of pods by node; every answer had so many hosts, none above the others."""
    folder.mkdir()
    policies = folder / "web.policy"
    policies.write_text(POLICY.format(namespace=cluster.namespace))
    names = [f"{folder.name}-{number}" for number in range(EQUAL_PODS)]
    cluster.create_pods(pod(name, cluster.namespace, GOVERNED) for name in names)
    live = f"--kubeconfig={plane.placet_kubeconfig}"
    with placet(folder, policies, live, "--lease=none", program=program) as server:
        server.wait_ready()
        with recorder(server.port) as calls:
            entry = extender(calls.address, node_cache_capable=True)
            with started_kube_scheduler(plane, folder, [entry], SCORES_OF_OURS):
                nodes = cluster.wait_placed(names, PLACED_SECONDS)
            answers = [call.answer for call in calls.calls("prioritize")]
    cluster.delete_pods()
    assert len(answers) >= EQUAL_PODS
    assert {len(answer) for answer in answers} == {hosts}
    assert all(len({host["Score"] for host in answer}) == 1 for answer in answers)
    assert calls.failures() == []
    return Counter(nodes.values())

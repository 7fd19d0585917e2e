"""A bound lets kube-scheduler choose: pods spread over 446 nodes as pods without the bound do.

The pods of a kind are bound in the namespace of a test, and stay: a bound that holds at the end was
never passed.
"""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.manifests import node, pod
from tests.e2e.recorder import Recorder
from tests.e2e.stage import GOVERNED, Stage

pytestmark = pytest.mark.e2e

LABEL = "topology.kubernetes.io/zone"
NODES, PODS, BURST = 446, 100, 200
SECONDS = 240.0
KIND = 'pods where peer.labels["app"] == "web"'
ZONE = {f"n{number}": f"z{number % 3}" for number in range(NODES)}
WIDE = {
    "fifty per node": f'  limit "fifty" {{ {KIND} per node at most 50 strict }}',
    "300 per zone": f'  limit "zone" {{ {KIND} per domain node.zone at most 300 strict }}',
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


@pytest.mark.parametrize("clause", WIDE.values(), ids=WIDE.keys())
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

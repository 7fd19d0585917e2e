"""Gangs on a real kube-scheduler: whole groups or none, and nothing held in vain.

kube-scheduler asks Placet to bind by an entry of its own, whose timeout is above every wait.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.control_plane import ControlPlane
from tests.e2e.kube_scheduler import extender, kube_scheduler
from tests.e2e.manifests import node, pod
from tests.e2e.placet import Placet, placet
from tests.e2e.waiting import until

pytestmark = pytest.mark.e2e

SECONDS = 120.0
SIZE = 8
MEMBERS = "example.com/members"
IN_ONE_NODE = "within node.name"
IN_ONE_RACK = 'within node.labels["rack"]'


def policy(namespace: str, parts: str = "") -> str:
    return f"""policy gangs in namespace "{namespace}" {{
  for pods where "job" in pod.labels
  gang "together" {{
    of pods by peer.labels["job"]
    at least int(pod.annotations["{MEMBERS}"])
    {parts}
  }}
}}
"""


def group(cluster: Cluster, name: str, size: int = SIZE, **more: Any) -> list[dict[str, Any]]:
    """The pods of a gang, each of which takes one of eight parts of a node."""
    made = []
    for number in range(size):
        member = pod(f"{name}-{number}", cluster.namespace, {"job": name}, cpu="1", **more)
        member["metadata"]["annotations"] = {MEMBERS: str(size)}
        made.append(member)
    return made


@contextmanager
def scheduled(
    plane: ControlPlane, cluster: Cluster, folder: Path, parts: str = ""
) -> Iterator[Placet]:
    """Placet and kube-scheduler, with an entry for bind alone."""
    file = folder / "gangs.policy"
    file.write_text(policy(cluster.namespace, parts))
    with ExitStack() as programs:
        flags = f"--kubeconfig={plane.placet_kubeconfig}", "--bind", "--lease=none"
        server = programs.enter_context(placet(folder, file, *flags))
        server.wait_ready()
        address = f"http://127.0.0.1:{server.port}"
        decides = extender(address, node_cache_capable=True)
        binds = {
            "urlPrefix": f"{address}/api/scheduler",
            "bindVerb": "bind",
            "nodeCacheCapable": True,
            "httpTimeout": "10m",
        }
        programs.enter_context(kube_scheduler(plane, folder, [decides, binds]))
        yield server


def by_group(placed: Mapping[str, str]) -> Mapping[str, Counter[str]]:
    """The nodes of each gang, with the number of its members there."""
    found: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for name, on in placed.items():
        found[name.rpartition("-")[0]][on] += 1
    return found


def test_as_many_whole_groups_as_there_is_room_for(
    plane: ControlPlane, cluster: Cluster, tmp_path: Path
) -> None:
    """Of ten groups that each need a node of their own, six are bound whole, and four wait."""
    cluster.create_nodes(node(f"n{number}") for number in range(6))
    with scheduled(plane, cluster, tmp_path, IN_ONE_NODE) as server:
        cluster.create_pods(
            member for number in range(10) for member in group(cluster, f"g{number}")
        )
        until(
            lambda: len(cluster.placements()) == 6 * SIZE,
            SECONDS,
            lambda: f"{by_group(cluster.placements())}; {server.process.tail()}",
        )
        groups = by_group(cluster.placements())
        assert sorted(sum(each.values()) for each in groups.values()) == [SIZE] * 6
        assert all(len(each) == 1 for each in groups.values()), groups
        time.sleep(3)
        assert len(cluster.placements()) == 6 * SIZE

"""An edited policy file decides about the next pods, without a restart."""

import time

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.manifests import node, pod
from tests.e2e.stage import GOVERNED, Stage

pytestmark = pytest.mark.e2e

# Policy files are polled every half second; the other half is for reading and compiling.
IN_FORCE_SECONDS = 1.0


def disk_is(kind: str) -> str:
    """Return a filter for nodes with this kind of disk."""
    return f'  filter "disk" {{ require node.labels["disk"] == "{kind}" message "needs {kind}" }}'


def test_edited_policy_moves_the_next_pods(cluster: Cluster, served: Stage) -> None:
    """Pods placed before the edit stay; those created a second after it obey the new text."""
    disks = {f"n{number}": "ssd" if number % 2 else "hdd" for number in range(6)}
    cluster.create_nodes(node(name, {"disk": disk}) for name, disk in disks.items())
    calls = served.start(disk_is("ssd"))

    before = [f"before-{number}" for number in range(4)]
    cluster.create_pods(pod(name, cluster.namespace, GOVERNED) for name in before)
    assert {disks[where] for where in cluster.wait_placed(before).values()} == {"ssd"}

    served.write_policy(disk_is("hdd"))
    time.sleep(IN_FORCE_SECONDS)

    after = [f"after-{number}" for number in range(4)]
    cluster.create_pods(pod(name, cluster.namespace, GOVERNED) for name in after)
    assert {disks[where] for where in cluster.wait_placed(after).values()} == {"hdd"}
    assert calls.failures() == []

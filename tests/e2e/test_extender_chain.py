"""Three Placets in one KubeSchedulerConfiguration, as Kubernetes tests its extenders.

Machines, filters, weights and the managed resource are those of `TestSchedulerExtender` in
test/integration/scheduler/extender of Kubernetes: the first two extenders get whole nodes, the
third gets names; the second binds, and is asked about pods with `foo.com/bar` alone. Here the
third is also ignorable, and comes first in the file.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from http.client import BAD_GATEWAY
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.control_plane import ControlPlane
from tests.e2e.kube_scheduler import extender, kube_scheduler
from tests.e2e.manifests import node, pod
from tests.e2e.placet import placet
from tests.e2e.process import free_port
from tests.e2e.recorder import Recorder, recorder

pytestmark = pytest.mark.e2e

MANAGED = "foo.com/bar"
# The machines that each lets a pod go to, the one that it prefers, and the weight of its entry.
EXTENDERS = [((1, 2, 3), 2, 3), ((2, 3, 5), 3, 4), ((1, 2, 3), 2, 10)]


@pytest.fixture
def chain(plane: ControlPlane, cluster: Cluster, tmp_path: Path) -> Iterator[list[Recorder]]:
    """Run the three with kube-scheduler; return what each is asked."""
    cluster.create_nodes(node(f"machine{number}") for number in range(1, 6))
    reach = f"--kubeconfig={plane.placet_kubeconfig}"
    flags = (["--no-cluster"], [reach, "--bind"], [reach, "--lease=none"])
    with ExitStack() as programs:
        servers = []
        for number, more in enumerate(flags):
            folder = tmp_path / f"extender{number + 1}"
            folder.mkdir()
            file = folder / "chain.policy"
            file.write_text(policy(cluster.namespace, number))
            servers.append(programs.enter_context(placet(folder, file, *more)))
        for server in servers:
            server.wait_ready()
        servers[1].wait_leading()
        calls = [programs.enter_context(recorder(server.port)) for server in servers]
        entries = [entry(number, calls[number].address) for number in (2, 0, 1)]
        programs.enter_context(kube_scheduler(plane, tmp_path, entries))
        yield calls


def policy(namespace: str, number: int) -> str:
    """The policy of one of them; the third has no preference about pods that are `even`."""
    accepted, preferred, _ = EXTENDERS[number]
    names = ", ".join(f'"machine{each}"' for each in accepted)
    when = 'when pod.labels[?"app"] != optional.of("even") ' if number == 2 else ""
    return f"""policy extender{number + 1} in namespace "{namespace}" {{
  for pods where true
  filter "fits" {{ require node.name in [{names}] message "extender failed: extender{number + 1}" }}
  score "prefers" weight 1 {when}{{ value node.name == "machine{preferred}" }}
}}
"""


def entry(number: int, address: str) -> dict[str, Any]:
    """The entry of one of them in kube-scheduler's configuration."""
    managed = [{"name": MANAGED, "ignoredByScheduler": True}]
    return {
        **extender(address, node_cache_capable=number == 2, binds=number == 1),
        "weight": EXTENDERS[number][2],
        **({"managedResources": managed} if number == 1 else {}),
        "ignorable": number == 2,
    }


def create(cluster: Cluster, name: str, *, managed: bool = False, app: str = "web") -> None:
    """Create a pod, with or without a limit of the managed resource."""
    made = pod(name, cluster.namespace, {"app": app})
    if managed:
        made["spec"]["containers"][0]["resources"]["limits"] = {MANAGED: "1"}
    cluster.create_pods([made])


def asked(chain: list[Recorder], verb: str, name: str) -> list[list[int]]:
    """The numbers of nodes that each is asked about."""
    return [[call.nodes for call in calls.calls(verb, name)] for calls in chain]


def test_three_extenders_in_sequence(cluster: Cluster, chain: list[Recorder]) -> None:
    """The upstream test, and what it leaves out: who is asked about what, and that weights count.

    Then the third one is down, without which the others go on, and at last the first one, without
    which no pod is placed.
    """
    create(cluster, "extender-test-pod", managed=True)
    assert cluster.wait_placed(["extender-test-pod"]) == {"extender-test-pod": "machine2"}
    assert asked(chain, "filter", "extender-test-pod") == [[5], [3], [2]]
    assert asked(chain, "prioritize", "extender-test-pod") == [[2], [2], [2]]
    assert [len(each) for each in asked(chain, "bind", "extender-test-pod")] == [0, 1, 0]
    assert [bool(calls.calls("filter")[0].names) for calls in chain] == [False, False, True]

    # Without the resource the second one is not asked, and kube-scheduler binds.
    create(cluster, "unmanaged")
    assert cluster.wait_placed(["unmanaged"]) == {"unmanaged": "machine2"}
    assert asked(chain, "filter", "unmanaged") == [[5], [], [3]]
    assert asked(chain, "bind", "unmanaged") == [[], [], []]

    # 4 for machine3 is more than 3 for machine2, if nobody adds 10 to these.
    create(cluster, "even", managed=True, app="even")
    assert cluster.wait_placed(["even"]) == {"even": "machine3"}
    assert [calls.failures() for calls in chain] == [[], [], []]

    chain[2].upstream = free_port()
    create(cluster, "skipped", managed=True)
    assert cluster.wait_placed(["skipped"]) == {"skipped": "machine3"}
    assert [call.status for call in chain[2].calls("filter", "skipped")] == [BAD_GATEWAY]

    chain[0].upstream = free_port()
    create(cluster, "waits")
    assert cluster.wait_refused("waits")["reason"] == "SchedulerError"
    assert asked(chain, "filter", "waits")[1:] == [[], []]
    assert "waits" not in cluster.placements()

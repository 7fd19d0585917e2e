"""The chart, installed by helm: Placet runs from its pods with the rights that they ship with."""

import json
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
import yaml

from tests.e2e.bound_pods import watched_bindings
from tests.e2e.cluster import Cluster
from tests.e2e.installation import (
    CHART,
    NAMESPACE,
    RELEASE,
    Installation,
    installation,
    opted_in,
)
from tests.e2e.kwok import TOLERATION
from tests.e2e.manifests import namespace, pod
from tests.e2e.policies import policy, wait_ready
from tests.e2e.process import termination_as_interrupt
from tests.e2e.waiting import until

pytestmark = pytest.mark.e2e

# Under the bound there is room for one pod more on each node.
WORKERS, A_NODE, PODS = 25, 9, 200
PAUSE_SECONDS = 0.2
SECONDS = 60.0


class Observer:
    """What a watch of its own says of the pods with a node: where they are, and what is wrong."""

    def __init__(self) -> None:
        self.nodes: dict[str, str] = {}
        self.wrong: list[str] = []

    def event(self, line: bytes) -> None:
        event = json.loads(line)
        name, node = event["object"]["metadata"]["name"], event["object"]["spec"]["nodeName"]
        if event["type"] == "DELETED":
            self.wrong.append(f"{name} is lost")
        if self.nodes.setdefault(name, node) != node:
            self.wrong.append(f"{name} is on {node} and on {self.nodes[name]}")
        if (count := Counter(self.nodes.values())[node]) > A_NODE:
            self.wrong.append(f"{name} is one of {count} on {node}")


@contextmanager
def arriving(cluster: Cluster, pods: Iterable[dict[str, object]]) -> Iterator[None]:
    """Create pods one after the other while the block runs, and those that are left at its end."""
    done = threading.Event()

    def arrive() -> None:
        for each in pods:
            cluster.create_pods([each])
            done.wait(PAUSE_SECONDS)

    with ThreadPoolExecutor(1) as pool:
        creating = pool.submit(arrive)
        try:
            yield
        finally:
            done.set()
        creating.result()


@pytest.fixture(scope="module")
def installed(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installation]:
    folder = tmp_path_factory.mktemp("installed")
    with termination_as_interrupt(), installation(pytestconfig, folder, WORKERS) as running:
        yield running


def web(cluster: Cluster, name: str) -> dict[str, object]:
    return pod(name, cluster.namespace, {"app": "web"}, cpu="1m", tolerations=[TOLERATION])


def wait_opted_in(cluster: Cluster) -> None:
    """Return once the API server gives pods of the namespace the second scheduler."""

    def scheduler() -> str:
        text = json.dumps(web(cluster, "asked"))
        flags = ("--dry-run=server", "--output=jsonpath={.spec.schedulerName}")
        return cluster.kubectl("create", *flags, "--filename=-", text=text)

    until(lambda: scheduler() == "placet", SECONDS, lambda: "the policy of admission in force")


@pytest.mark.parametrize("mode", ["second-scheduler", "control-plane", "service"])
def test_the_api_server_takes_every_object_of_each_mode(installed: Installation, mode: str) -> None:
    """With all fields that it knows, and no others."""
    cluster = Cluster(installed.plane, mode)
    cluster.apply(namespace(NAMESPACE))
    text = installed.helm("template", RELEASE, str(CHART), f"--set=mode={mode}", "--no-hooks")
    flags = ("--server-side", "--dry-run=server", "--validate=strict", "--force-conflicts")
    done = cluster.kubectl("apply", *flags, "--filename=-", text=text)
    assert done.count("(server dry run)") == sum(map(bool, yaml.safe_load_all(text)))


def test_install_apply_a_policy_and_see_a_pod_placed_by_it(installed: Installation) -> None:
    installed.install()
    cluster = opted_in(installed, "shop")
    rules = 'filter "one" { require node.name == "worker-7" }'
    cluster.apply(policy(cluster, rules=rules))
    wait_ready(cluster, "web", "True")
    wait_opted_in(cluster)
    cluster.create_pods([web(cluster, "web-1")])
    assert cluster.wait_placed(["web-1"]) == {"web-1": "worker-7"}
    assert cluster.pod("web-1")["spec"]["schedulerName"] == "placet"


def test_a_strict_bound_holds_while_placet_is_killed_upgraded_and_scaled(
    installed: Installation,
) -> None:
    """Pods arrive all the while, and all of them are placed."""
    installed.install("bind.enabled=true")
    cluster = opted_in(installed, "busy")
    peers = 'pods where peer.labels["app"] == "web"'
    # All are wanted on few nodes, so that the limit bounds them.
    rules = (
        f'limit "few a node" {{ {peers} per node at most {A_NODE} strict }}'
        ' score "first" weight 1 { value node.name < "worker-2" ? 100 : 0 }'
    )
    cluster.apply(policy(cluster, rules=rules))
    wait_ready(cluster, "web", "True")
    wait_opted_in(cluster)
    names = [f"web-{number}" for number in range(PODS)]
    observer = Observer()
    with watched_bindings(installed.plane, cluster.namespace, observer.event):
        with arriving(cluster, (web(cluster, name) for name in names)):
            until(lambda: bool(observer.nodes), SECONDS, installed.report)
            before_all = len(observer.nodes)
            restarted = installed.kill_leader()
            installed.wait_ready()
            before = {each.uid for each in installed.pods()}
            installed.install("bind.enabled=true", "config.maxInFlight=50")
            assert not before & {each.uid for each in installed.pods()}
            installed.install("bind.enabled=true", "config.maxInFlight=50", "replicas=3")
            placed = len(observer.nodes)
        cluster.wait_placed(names, 2 * SECONDS)
        until(
            lambda: len(observer.nodes) == PODS, SECONDS, lambda: f"{len(observer.nodes)} observed"
        )
    assert restarted.restarts("placet") > 0
    assert placed > before_all
    assert observer.wrong == []
    assert max(Counter(observer.nodes.values()).values()) == A_NODE
    assert cluster.placements() == observer.nodes

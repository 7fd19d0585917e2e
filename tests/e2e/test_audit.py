"""An audit that one can read: status and command, of pods that kube-scheduler placed."""

import subprocess
import sys
from typing import Any

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.manifests import node, pod
from tests.e2e.policies import define, policy, wait_ready
from tests.e2e.process import until
from tests.e2e.stage import GOVERNED, Stage

pytestmark = pytest.mark.e2e

# The status is written at most once a minute.
SECONDS = 90.0
NAMES = ("w1", "w2")


@pytest.fixture(autouse=True)
def defined(cluster: Cluster) -> None:
    define(cluster)


def rules(name: str) -> dict[str, Any]:
    return {"rules": f'filter "one" {{ require node.name == "{name}" }}'}


def test_what_a_policy_would_have_done(cluster: Cluster, served: Stage) -> None:
    cluster.create_nodes([node(name) for name in NAMES])
    cluster.apply(policy(cluster, enforcementMode="Audit", **rules("w3")))
    server = served.watch_objects()
    server.wait_ready()
    server.wait_leading()
    served.schedule(server)
    wait_ready(cluster, "web", "True")
    cluster.create_pods(pod(name, cluster.namespace, GOVERNED) for name in ("a", "b"))
    cluster.wait_placed(["a", "b"])

    def audit() -> dict[str, Any]:
        found: dict[str, Any] = cluster.get("placementpolicies", "web")["status"].get("audit", {})
        return found

    until(lambda: audit().get("waitingPods") == 2, SECONDS, lambda: str(audit()))
    last = {each["pod"]: each for each in audit()["lastPods"]}
    assert set(last) == {f"{cluster.namespace}/a", f"{cluster.namespace}/b"}
    assert {each["clause"] for each in last.values()} == {"one"}

    url = f"--url=http://127.0.0.1:{server.view_port}"
    done = subprocess.run(
        [sys.executable, "-m", "cli", "audit", url], capture_output=True, text=True, check=True
    )
    assert "would have kept 2 pods of 2 workloads pending since " in done.stdout
    assert "enforce?" in done.stdout

    cluster.apply(policy(cluster, enforcementMode="Strict", **rules("w1")))
    until(lambda: not audit(), SECONDS, lambda: str(audit()))


def test_pods_wait_for_policies_of_the_same_apply(cluster: Cluster, served: Stage) -> None:
    cluster.create_nodes([node(name) for name in NAMES])
    server = served.watch_objects(None, f"--policy-first={cluster.namespace}")
    server.wait_ready()
    served.schedule(server)
    names = [f"web-{number}" for number in range(12)]
    applied = [pod(name, cluster.namespace, GOVERNED) for name in names]
    cluster.apply(policy(cluster, enforcementMode="Strict", **rules("w2")), *applied)
    assert set(cluster.wait_placed(names).values()) == {"w2"}

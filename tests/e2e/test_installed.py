"""The chart, installed by helm: Placet runs from its pods with the rights that it ships, and places."""

import json
from collections.abc import Iterator

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.installation import Installation, installation, opted_in
from tests.e2e.kwok import TOLERATION
from tests.e2e.manifests import pod
from tests.e2e.policies import policy, wait_ready
from tests.e2e.process import termination_as_interrupt
from tests.e2e.waiting import until

pytestmark = pytest.mark.e2e

WORKERS = 25
SECONDS = 60.0


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

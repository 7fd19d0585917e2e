"""Two hundred policies of one namespace, and a stream of pods that some of them select."""

import time

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.manifests import node, pod
from tests.e2e.policies import define, policy, wait_ready
from tests.e2e.stage import Stage

pytestmark = pytest.mark.e2e

POLICIES, SECONDS, A_SECOND = 200, 6, 20
# Some policies select a few pods, and most select none.
CHOSEN = 53
# Each policy has one of a few bounds, with a message of its own.
SPREAD = """
  spread "even" {{
    pods where peer.labels["app"] == "{app}" over node.name skew at most 1 strict
  }}
"""
RULES = (
    'limit "few" {{ pods where peer.labels["app"] == "{app}" per node at most 3 strict }}',
    'filter "ready" {{ require node.ready message "{app} needs a node that is ready" }}',
    SPREAD,
    'score "empty" weight 10 {{ value size(node.pods) range 10 .. 0 }}',
)


def test_pods_keep_coming_under_many_policies(cluster: Cluster, served: Stage) -> None:
    define(cluster)
    cluster.create_nodes(node(f"n{number}", cpu="64") for number in range(10))
    apps = [f"app-{number}" for number in range(POLICIES)]
    cluster.apply(
        *(
            policy(cluster, name=app, labels={"app": app}, rules=RULES[n % 4].format(app=app))
            for n, app in enumerate(apps)
        )
    )
    server = served.watch_objects(None, "--lease=none")
    server.wait_ready()
    calls = served.schedule(server)
    wait_ready(cluster, apps[-1], "True", 60.0)
    names: list[str] = []
    began = time.monotonic()
    for number in range(SECONDS * A_SECOND):
        names.append(f"p{number}")
        labels = {"app": apps[number * 7 % CHOSEN]}
        cluster.create_pods([pod(names[-1], cluster.namespace, labels, cpu="10m")])
        time.sleep(max(0.0, began + (number + 1) / A_SECOND - time.monotonic()))

    cluster.wait_placed(names, 60.0)

    assert calls.failures() == []
    assert server.compare()["count"] == 0
    cluster.kubectl("delete", "placementpolicies", "--all", f"-n={cluster.namespace}")

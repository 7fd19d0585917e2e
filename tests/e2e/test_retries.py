"""Retries: the pods of a controller that failed, as a real API server shows them."""

import json

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.manifests import node, pod
from tests.e2e.stage import GOVERNED, Stage
from tests.e2e.waiting import until

pytestmark = pytest.mark.e2e

ELSEWHERE = """filter "elsewhere" {
  require !pod.failures.exists(f, f.node == node.name && f.reason == "Evicted")
}"""
OTHERS = 'filter "any" { require true }'
NAMES = ["n1", "n2"]


def test_a_retry_goes_to_another_node_also_when_the_failed_pod_is_gone(
    cluster: Cluster, served: Stage
) -> None:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "uid-j"}

    def attempt(name: str, **spec: str) -> None:
        made = pod(name, cluster.namespace, GOVERNED, **spec)
        made["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
        cluster.create_pods([made])

    cluster.create_nodes(map(node, NAMES))
    attempt("j-0", nodeName="n1")
    server = served.watch(OTHERS)
    server.wait_ready()
    attempt("j-1", schedulerName="nobody")
    retry = cluster.pod("j-1")
    assert server.filter(retry, NAMES)["NodeNames"] == NAMES

    failed = {"status": {"phase": "Failed", "reason": "Evicted"}}
    cluster.kubectl(
        *("patch", "pod", "j-0", "-n", cluster.namespace, "--subresource=status", "--type=merge"),
        *("-p", json.dumps(failed)),
    )
    # What failed before the first policy that reads it is known, as long as it is there.
    served.write_policy(ELSEWHERE)
    until(lambda: server.filter(retry, NAMES)["NodeNames"] == ["n2"], 30, lambda: "a retry on n2")
    cluster.delete_pod("j-0")
    until(lambda: "j-0" not in cluster.placements(), 30, lambda: "the failed pod gone")
    server.wait_ready()
    assert server.filter(retry, NAMES)["NodeNames"] == ["n2"]
    served.schedule(server)
    attempt("j-2")
    assert cluster.wait_placed(["j-2"]) == {"j-2": "n2"}

"""Counts of pods that have ended, as a real API server shows them."""

import json

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.manifests import node, pod
from tests.e2e.stage import GOVERNED, Stage
from tests.e2e.waiting import until

pytestmark = pytest.mark.e2e

ELSEWHERE = """count failed per node = ended pods where peer.phase == "Failed"
filter "elsewhere" { require failed == 0 }"""
NAMES = ["n1", "n2"]


def test_a_pod_that_ended_counts_also_when_it_is_gone(cluster: Cluster, served: Stage) -> None:
    def fail(name: str) -> None:
        cluster.kubectl(
            *("patch", "pod", name, "-n", cluster.namespace, "--subresource=status"),
            *("--type=merge", "-p", json.dumps({"status": {"phase": "Failed"}})),
        )

    def offered() -> list[str]:
        return list(server.filter(asked, NAMES)["NodeNames"] or ())

    cluster.create_nodes(map(node, NAMES))
    made = [pod(f"old-{n}", cluster.namespace, GOVERNED, nodeName=n) for n in NAMES]
    cluster.create_pods(made)
    cluster.create_pods([pod("asked", cluster.namespace, GOVERNED, schedulerName="nobody")])
    asked = cluster.pod("asked")
    server = served.watch(ELSEWHERE)
    server.wait_ready()
    assert offered() == NAMES

    fail("old-n1")
    until(lambda: offered() == ["n2"], 30, lambda: "the pod that ended on n1 counts")
    cluster.delete_pod("old-n1")
    until(lambda: "old-n1" not in cluster.placements(), 30, lambda: "the pod gone")
    assert offered() == ["n2"]
    # What ended before a policy counts it is known as long as it is there.
    served.write_policy('filter "any" { require true }')
    until(lambda: offered() == NAMES, 30, lambda: "another policy")
    fail("old-n2")
    served.write_policy(ELSEWHERE)
    until(lambda: offered() == [], 30, lambda: "both count")

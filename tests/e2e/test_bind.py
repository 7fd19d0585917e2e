"""Placet as the only binder, while answers of the API server get lost."""

import random
from pathlib import Path

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.control_plane import ControlPlane
from tests.e2e.kubeconfigs import kubeconfig
from tests.e2e.manifests import node, pod
from tests.e2e.stage import GOVERNED, Stage
from tests.e2e.waiting import until
from tests.support.api_proxy import api_proxy
from tests.support.fake_api_server import Request

pytestmark = pytest.mark.e2e

PODS = 500
LOST = 0.05
READY = '  bind "ready" { require node.ready message "the node is leaving" }'


def test_every_pod_is_bound_once_though_answers_get_lost(
    plane: ControlPlane, cluster: Cluster, served: Stage, tmp_path: Path
) -> None:
    """Of each twenty answers about bindings one never comes; the Binding is there all the same."""
    cluster.create_nodes(node(f"n{number}", cpu="64") for number in range(10))
    dice = random.Random(1)
    lost: list[str] = []

    def loses(request: Request) -> bool:
        if not request.path.endswith("/binding") or dice.random() >= LOST:
            return False
        lost.append(request.path)
        return True

    with api_proxy(plane.url, plane.authority, tmp_path / "proxy.crt") as proxy:
        file = kubeconfig(
            tmp_path / "placet.kubeconfig",
            proxy.url,
            tmp_path / "proxy.crt",
            {"token": plane.placet_token},
        )
        server = served.watch(READY, file)
        server.wait_ready()
        proxy.loses = loses
        calls = served.schedule(server, binds=True)
        names = [f"web-{number}" for number in range(PODS)]
        cluster.create_pods(pod(name, cluster.namespace, GOVERNED) for name in names)

        where = cluster.wait_placed(names, seconds=120.0)

        assert len(lost) > 5
        assert calls.failures() == []
        # A pod is bound before the call about it has been answered.
        until(lambda: len(calls.calls("bind")) >= PODS, 10.0, server.process.tail)
        answers = {call.pod: call.answer["Error"] for call in calls.calls("bind")}
        assert answers == dict.fromkeys(names, ""), "a lost answer is looked up, and no error"
        assert len(where) == PODS
        posts = [r.path for r in proxy.requests if r.path.endswith("/binding")]
        assert len(posts) == PODS + len(lost)
        assert server.compare()["count"] == 0

"""Placet as the only binder: what it refuses to bind, and bindings whose answers get lost."""

import json
import random
from pathlib import Path

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.control_plane import ControlPlane
from tests.e2e.kubeconfigs import kubeconfig
from tests.e2e.manifests import node, pod
from tests.e2e.service_account import ServiceAccount
from tests.e2e.stage import GOVERNED, Stage, stage
from tests.e2e.waiting import until
from tests.support.api_proxy import api_proxy
from tests.support.fake_api_server import Request

pytestmark = pytest.mark.e2e

PODS = 500
LOST = 0.05
READY = '  bind "ready" { require node.ready message "the node is leaving" }'


NOT_N2 = '  filter "not n2" { require node.name != "n2" message "not on n2" }'


def refusal(answer: tuple[int, str]) -> str:
    """The text of an answer with status 200."""
    status, body = answer
    assert status == 200
    text = json.loads(body)["Error"]
    assert isinstance(text, str)
    return text


def test_nothing_is_bound_unless_it_is_asked_for(cluster: Cluster, served: Stage) -> None:
    """Who reaches the port cannot bind, though Placet has the right to."""
    cluster.create_nodes([node("n1")])
    cluster.create_pods([pod("web", cluster.namespace, GOVERNED)])
    server = served.watch(NOT_N2)
    server.wait_ready()
    web = cluster.pod("web")
    assert server.filter(web, ["n1"])["NodeNames"] == ["n1"]
    status, text = server.bind(web, "n1")
    assert status == 200
    assert "this server binds no pods: start `placet serve` with --bind" in text
    assert cluster.placements() == {}


def test_only_what_filter_offered_is_bound(cluster: Cluster, served: Stage) -> None:
    """Without an answer of filter, only what would be scheduled anyway."""
    cluster.create_nodes(node(f"n{number}") for number in (1, 2, 3))
    where = cluster.namespace
    cluster.create_pods(
        [
            pod("web", where, GOVERNED),
            pod("new", where, GOVERNED),
            pod("huge", where, GOVERNED, cpu="999"),
            pod("foreign", where, GOVERNED, schedulerName="another"),
        ]
    )
    server = served.watch(NOT_N2, None, "--bind")
    server.wait_ready()
    # Before, the first replica of a cluster remembers no answers.
    server.wait_leading()
    web, new, huge, foreign = (cluster.pod(name) for name in ("web", "new", "huge", "foreign"))

    assert refusal(server.bind(foreign, "n1")) == (
        "placet: the pod is for scheduler `another`, and Placet binds pods of `default-scheduler`:"
        " see --scheduler-name"
    )
    gone = "placet: node `nowhere` does not exist, or is not known yet"
    assert refusal(server.bind(huge, "nowhere")) == gone
    full = "placet: node `n1` has not enough `cpu` left for the pod"
    assert refusal(server.bind(huge, "n1")) == full
    assert refusal(server.bind(new, "n2")) == "policy web: not on n2"
    assert server.filter(web, ["n1", "n2"])["NodeNames"] == ["n1"]
    for name in ("n2", "n3", "nowhere"):
        text = f"placet: filter has not offered node `{name}` to the pod"
        assert refusal(server.bind(web, name)) == text
    assert cluster.placements() == {}
    _, metrics = server.get("/metrics")
    assert 'placet_requests_total{code="200",outcome="refused",verb="bind"} 7.0' in metrics
    assert server.process.tail().count('outcome="refused"') == 7

    assert refusal(server.bind(web, "n1")) == ""
    assert cluster.placements() == {"web": "n1"}


def test_a_placet_that_was_killed_binds_what_fits(
    plane: ControlPlane, cluster: Cluster, tmp_path: Path
) -> None:
    """It dies between filter and bind, and the next one has no answer of filter."""
    cluster.create_nodes([node("n1", cpu="2"), node("n2", cpu="2")])
    names = ["one", "two", "three"]
    cluster.create_pods(pod(name, cluster.namespace, GOVERNED, cpu="1500m") for name in names)
    pods = {name: cluster.pod(name) for name in names}
    with stage(plane, cluster, tmp_path) as first:
        server = first.watch(READY, None, "--bind", "--lease=none")
        server.wait_ready()
        for each in pods.values():
            assert server.filter(each, ["n1", "n2"])["NodeNames"] == ["n1", "n2"]
        server.process.kill()
    with stage(plane, cluster, tmp_path) as second:
        server = second.watch(READY, None, "--bind", "--lease=none")
        server.wait_ready()
        assert refusal(server.bind(pods["one"], "n1")) == ""
        assert refusal(server.bind(pods["two"], "n1")).startswith(
            "placet: node `n1` has not enough `cpu`"
        )
        assert server.filter(pods["two"], ["n1", "n2"])["NodeNames"] == ["n1", "n2"]
        assert refusal(server.bind(pods["two"], "n2")) == ""
    assert cluster.placements() == {"one": "n1", "two": "n2"}


def test_without_the_right_to_bind_the_remedy_is_named(
    plane: ControlPlane, cluster: Cluster, served: Stage, tmp_path: Path
) -> None:
    """The account has the role of deploy/rbac, without that of deploy/rbac/bind."""
    cluster.create_nodes([node("n1")])
    cluster.create_pods([pod("web", cluster.namespace, GOVERNED)])
    token = ServiceAccount(plane, cluster.namespace).token("one")
    file = kubeconfig(tmp_path / "placet.kubeconfig", plane.url, plane.authority, {"token": token})
    server = served.watch(READY, file, "--bind")
    server.wait_ready()
    web = cluster.pod("web")
    server.filter(web, ["n1"])
    assert refusal(server.bind(web, "n1")) == (
        f"placet: cannot bind pods: the service account `{cluster.namespace}/placet` may not "
        "create pods/binding: run `kubectl apply -f deploy/rbac/bind/placet.yaml` with this "
        "subject in its bindings"
    )
    assert cluster.placements() == {}


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
        server = served.watch(READY, file, "--bind")
        server.wait_ready()
        proxy.loses.append(loses)
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

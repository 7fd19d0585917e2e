"""Placet with the API server for its view of the cluster, under kube-scheduler with node names."""

from __future__ import annotations

import asyncio
import json
import ssl
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme
from aiohttp import web

from tests.e2e.api import Api
from tests.e2e.cluster import AT_ONCE, Cluster
from tests.e2e.control_plane import ControlPlane
from tests.e2e.manifests import controller, large_node, large_pod, namespace, node, owned_by, pod
from tests.e2e.placet import REPOSITORY, placet
from tests.e2e.process import free_port, kubeconfig, until
from tests.e2e.service_account import GROUP, USER
from tests.e2e.stage import GOVERNED, Stage
from tests.support.api_proxy import api_proxy, unchanged
from tests.support.view_server import forward

pytestmark = pytest.mark.e2e

NODES = 1000
# The first nodes are the pool `web`. Of each four of them, one is full, two have begun to fill and
# one is empty, by pods that are bound when kube-scheduler starts.
WEB_NODES = 400
BOUND = {0: 6, 1: 1, 2: 1, 3: 0}
PLACED_BEFORE = WEB_NODES // 4 * sum(BOUND.values())
SCHEDULED = 2000 - PLACED_BEFORE
FILL_UP = """
  filter "web pool" { require node.labels["pool"] == "web" message "not of the pool" }
  filter "room" {
    require node.free["cpu"] - pod.requests["cpu"] >= "4"
    message "less than 4 cores would be left"
  }
  score "fill up" weight 100 { value size(node.pods) range 0 .. 8 }
"""
# Of 8 cores, 4 stay free: one small pod was there, and so many of half a core may come. While
# kube-scheduler binds a pod, Placet does not see it yet, and may let others past its limit.
MOST = 7
UNSEEN = SCHEDULED // 4
ANYWHERE = '  filter "ready" { require node.ready message "not ready" }'
OWN_TEAM = """
  filter "team" {
    require node.labels["team"] == namespaceObject.labels["team"] message "another team"
  }
"""
OWN_NODE = """
  filter "workload" { require node.name == pod.workload.name message "another workload" }
"""
CONTROLLERS = {"replicasets", "deployments", "statefulsets", "jobs"}
ALWAYS = {"nodes", "pods"}


def placed_before(namespace: str) -> Iterator[dict[str, Any]]:
    """Yield the pods that are on web nodes from the start: a core each, or a tenth of one."""
    for number in range(WEB_NODES):
        count = BOUND[number % 4]
        for which in range(count):
            cpu = "1" if count > 1 else "100m"
            name = f"old-{number}-{which}"
            yield large_pod(name, namespace, {}, cpu=cpu, nodeName=f"n{number}")


def test_a_thousand_nodes_and_two_thousand_pods(cluster: Cluster, served: Stage) -> None:
    """800 pods are bound when kube-scheduler starts, and it places 1,200.

    By itself it would take nodes of any pool and empty ones first. The sums that the filter reads
    and the counts that the score reads change with each pod that it places.
    """
    cluster.create_nodes(
        large_node(number, {"pool": "web" if number < WEB_NODES else "batch"})
        for number in range(NODES)
    )
    cluster.create_pods(placed_before(cluster.namespace))
    server = served.watch(FILL_UP)
    server.wait_ready()
    calls = served.schedule(server, percentage=100)
    names = [f"web-{number}" for number in range(SCHEDULED)]

    cluster.create_pods(large_pod(name, cluster.namespace, GOVERNED, cpu="500m") for name in names)

    where = cluster.wait_placed(names, seconds=240.0)
    pods = Counter(int(name[1:]) for name in where.values())
    assert max(pods) < WEB_NODES
    full, *begun, empty = (sum(c for n, c in pods.items() if n % 4 == kind) for kind in BOUND)
    assert (full, min(begun) > 0) == (0, True)
    # A score is a preference: on a slow machine some pods find no node that has begun to fill.
    assert empty <= UNSEEN
    assert sum(max(0, count - MOST) for count in pods.values()) <= UNSEEN
    assert calls.failures() == []
    compared = server.compare()
    assert compared.pop("replica")
    assert compared == {
        "objects": {"nodes": NODES, "pods": PLACED_BEFORE + SCHEDULED},
        "differences": [],
        "count": 0,
    }
    assert server.relists() == {name: {"first": 1} for name in ("nodes", "pods")}


def test_not_ready_until_all_is_known(
    plane: ControlPlane, cluster: Cluster, served: Stage, tmp_path: Path
) -> None:
    """Nodes come, pods do not, until the proxy is told to let them: a probe reads why."""
    cluster.create_nodes(node(f"n{number}") for number in range(20))
    cluster.create_pods([pod("bound", cluster.namespace, nodeName="n0")])
    with api_proxy(plane.url, plane.authority, tmp_path / "proxy.crt") as proxy:
        proxy.edit = lambda path, line: [] if path == "/api/v1/pods" else [line]
        file = kubeconfig(
            tmp_path / "placet.kubeconfig",
            proxy.url,
            tmp_path / "proxy.crt",
            {"token": plane.placet_token},
        )
        server = served.watch(ANYWHERE, file)
        until(lambda: server.answers("/livez"), 30.0, server.process.tail)

        def missing() -> list[str]:
            resources = server.cache()["resources"].items()
            return [name for name, each in resources if not each["synced"]]

        until(lambda: missing() == ["pods"], 30.0, server.process.tail)

        status, reason = server.get("/readyz")
        assert (status, "cluster failed: not synced: pods 0 so far" in reason) == (503, True)
        answer = server.filter(pod("web", cluster.namespace, GOVERNED), ["n0"])
        assert answer["Error"] == "placet: not synced: pods 0 so far"
        assert not answer["NodeNames"]
        assert not answer["FailedNodes"]

        proxy.edit = unchanged
        proxy.cut("/api/v1/pods")
        server.wait_ready()
        resources = server.resources()
        assert {name: each["objects"] for name, each in resources.items()} == {
            "nodes": 20,
            "pods": 1,
        }
        assert server.filter(pod("web", cluster.namespace, GOVERNED), ["n0"])["NodeNames"] == ["n0"]


def test_an_edited_policy_starts_the_watches_that_it_needs(cluster: Cluster, served: Stage) -> None:
    """Namespaces are watched from when a policy reads them, and controllers likewise."""
    cluster.create_nodes(node(name, {"team": name}) for name in ("shop", "ads"))
    cluster.kubectl("label", "namespace", cluster.namespace, "team=ads")
    shop = cluster.create(controller("Deployment", "shop", cluster.namespace))
    owned = controller("ReplicaSet", "shop-5d59d67564", cluster.namespace)
    replicas = cluster.create(owned_by(shop, owned))
    server = served.watch(ANYWHERE)
    server.wait_ready()
    calls = served.schedule(server)
    assert server.relists().keys() == ALWAYS

    served.write_policy(OWN_TEAM)
    until(lambda: server.relists().keys() == ALWAYS | {"namespaces"}, 5.0, server.process.tail)
    cluster.create_pods([pod("web", cluster.namespace, GOVERNED)])
    assert cluster.wait_placed(["web"]) == {"web": "ads"}

    served.write_policy(OWN_NODE)
    until(lambda: server.relists().keys() >= CONTROLLERS, 5.0, server.process.tail)
    cluster.create_pods([owned_by(replicas, pod("owned", cluster.namespace, GOVERNED))])
    assert cluster.wait_placed(["owned"]) == {"owned": "shop"}
    assert server.compare()["count"] == 0
    assert calls.failures() == []


# ---- `placet decisions` and `placet status` through a real API server, and who may ask


NAMESPACE, NODE, REPLICA = "asking", "asking-node", "placet-0"
LABELS = {"app.kubernetes.io/name": "placet"}
POLICY = 'policy all { for pods where true filter "here" { require node.ready message "down" } }\n'
# The rights of an operator; without `create`, API servers of 1.35 and later refuse.
RULES = [
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
    {"apiGroups": [""], "resources": ["pods/portforward"], "verbs": ["get", "create"]},
]


@contextmanager
def forwarding_kubelet() -> Iterator[int]:
    """The port of a kubelet whose pods are this host: it does nothing but forward ports."""
    port, end, begun = free_port(), asyncio.Event(), threading.Event()
    loops: list[asyncio.AbstractEventLoop] = []
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)

    async def answer(request: web.Request) -> web.StreamResponse:
        return await forward(request, int(request.query["port"]))

    async def serve() -> None:
        app = web.Application()
        app.router.add_get("/portForward/{namespace}/{pod}", answer)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port, ssl_context=context).start()
        loops.append(asyncio.get_running_loop())
        begun.set()
        await end.wait()
        await runner.cleanup()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    assert begun.wait(60)
    try:
        yield port
    finally:
        loops[0].call_soon_threadsafe(end.set)
        thread.join(60)


def ask(kubeconfig: Path, port: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    where = ("--placet-namespace", NAMESPACE, "--port", str(port))
    return subprocess.run(
        [sys.executable, "-m", "cli", *arguments, "--kubeconfig", kubeconfig, *where],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def create_replica(api: Api, kubelet: int) -> None:
    """A node with this kubelet, and a running pod there that stands for the server."""
    api.request("POST", "/api/v1/nodes", node(NODE))
    status = {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": kubelet}},
    }
    api.request("PATCH", f"/api/v1/nodes/{NODE}/status", {"status": status})
    pods = f"/api/v1/namespaces/{NAMESPACE}/pods"
    api.request("POST", pods, pod(REPLICA, NAMESPACE, LABELS, nodeName=NODE))
    api.request("PATCH", f"{pods}/{REPLICA}/status", {"status": {"phase": "Running"}})


def test_operators_may_ask_and_others_may_not(plane: ControlPlane, tmp_path: Path) -> None:
    api = Api(plane)
    api.request("POST", "/api/v1/namespaces", namespace(NAMESPACE))
    (tmp_path / "all.policy").write_text(POLICY)
    watching = (f"--kubeconfig={plane.placet_kubeconfig}", "--lease=none")
    try:
        with (
            forwarding_kubelet() as kubelet,
            placet(tmp_path, tmp_path / "all.policy", *watching) as server,
        ):
            create_replica(api, kubelet)
            server.wait_ready()
            asked = pod("web-1", NAMESPACE, {})
            # Newer than what a watch has shown: kube-scheduler's, and no simulation.
            asked["metadata"]["resourceVersion"] = str(10**15)
            server.filter(asked, [NODE])
            port = server.view_port
            admin = ask(plane.admin_kubeconfig, port, "decisions", "-o", "json")
            assert admin.returncode == 0, admin.stderr
            (answer,) = json.loads(admin.stdout)["replicas"]
            assert [each["pod"] for each in answer["decisions"]] == [f"{NAMESPACE}/web-1"]
            nobody = ask(plane.placet_kubeconfig, port, "status", "--replica", REPLICA)
            assert (nobody.returncode, nobody.stdout) == (2, "")
            assert f"you may not forward a port of pod `{REPLICA}`" in nobody.stderr
            allow(api)
            operator = ask(plane.placet_kubeconfig, port, "status")
            assert operator.stdout.startswith("replica "), operator.stderr
    finally:
        # The pods of other tests are in the same cluster, and they count them.
        api.request("DELETE", f"/api/v1/namespaces/{NAMESPACE}/pods", AT_ONCE)
        api.request("DELETE", f"/api/v1/nodes/{NODE}")


def allow(api: Api) -> None:
    """Lets the user that Placet's kubeconfig names ask, as docs/asking.md says."""
    rights = f"/apis/{GROUP}/v1/namespaces/{NAMESPACE}"
    api.request("POST", f"{rights}/roles", {"metadata": {"name": "operator"}, "rules": RULES})
    binding = {
        "metadata": {"name": "operator"},
        "subjects": [USER],
        "roleRef": {"apiGroup": GROUP, "kind": "Role", "name": "operator"},
    }
    api.request("POST", f"{rights}/rolebindings", binding)


# ---- simulations by a running Placet: what they say of new pods is what kube-scheduler does then


# No two nodes get the same pods: at most two on each, none on the last, and spot is half of them.
CLAUSES = """
  limit "two a node" { pods where peer.labels["app"] == "web" per node at most 2 strict }
  share "spot" {
    all pods where peer.labels["app"] == "web"
    on nodes where node.labels["capacity"] == "spot"
    at most 50%
    strict
  }
  filter "web" when "pool" in node.labels {
    require node.labels["pool"] != "db" message "for databases"
  }
"""
TYPE = "node.kubernetes.io/instance-type"


def test_pods_go_where_the_answer_says(cluster: Cluster, served: Stage) -> None:
    spot = {"capacity": "spot", TYPE: "m5.large"}
    cluster.create_nodes(
        [
            node("spot-0", spot),
            node("spot-1", spot),
            node("steady", {"capacity": "steady", TYPE: "c5.large"}),
            node("db", {"pool": "db", "capacity": "steady"}),
        ]
    )
    server = served.watch(CLAUSES, None, "--lease=none")
    server.wait_ready()
    wanted = controller("ReplicaSet", "web", cluster.namespace)
    wanted["spec"]["replicas"] = 5
    owner = cluster.create(wanted)
    made = {
        name: owned_by(owner, pod(name, cluster.namespace, GOVERNED))
        for name in (f"web-{number}" for number in range(5))
    }
    question = {"pods": list(made.values())}
    alone = server.simulate(question)
    # Two on steady, and as many on spot.
    assert (alone["placed"], alone["pending"]) == (4, 1)
    assert on(alone) == {"steady": 2, "spot": 2}
    more = server.simulate({**question, "addNodes": [{"template": "c5.large", "count": 1}]})
    assert (more["added"], more["pending"]) == (["c5.large-new-1"], 0)
    assert server.compare()["differences"] == [], "nothing of it stays"

    served.schedule(server)
    # One after the other, as they were placed.
    for name, each in made.items():
        cluster.create_pods([each])
        if alone_node(alone, name) is None:
            condition = cluster.wait_refused(name)
            for reason in node_of(alone, name)["reasons"]:
                assert reason.partition(": ")[2] in condition["message"]
        else:
            cluster.wait_placed([name])
    placed = cluster.placements()
    assert kinds(placed) == on(alone)
    assert set(made) - set(placed) == {n for n in made if alone_node(alone, n) is None}

    cluster.create_nodes([node("c5.large-new-1", {"capacity": "steady", TYPE: "c5.large"})])
    cluster.wait_placed(list(made))
    assert kinds(cluster.placements()) == on(more)

    drained = server.simulate({"drain": ["steady"]})
    assert drained["summary"] == (
        "1 of 2 pods of 1 node finds no place: "
        + next(each["pod"] for each in drained["pods"] if each["node"] is None)
    )
    gone = [each["pod"].partition("/")[2] for each in drained["pods"]]
    cluster.kubectl("cordon", "steady")
    for name in gone:
        cluster.delete_pod(name)
    for name in gone:
        again = made[name]
        cluster.create_pods([again])
        if alone_node(drained, name) is None:
            cluster.wait_refused(name)
        else:
            assert cluster.wait_placed([name])[name] == alone_node(drained, name)


def node_of(answer: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """What is said of a pod."""
    found: Mapping[str, Any] = next(p for p in answer["pods"] if p["pod"].endswith(f"/{name}"))
    return found


def alone_node(answer: Mapping[str, Any], name: str) -> str | None:
    found: str | None = node_of(answer, name)["node"]
    return found


def on(answer: Mapping[str, Any]) -> Mapping[str, int]:
    return kinds({each["pod"]: each["node"] for each in answer["pods"] if each["node"]})


def kinds(placed: Mapping[str, str]) -> Mapping[str, int]:
    """The number of pods on each kind of node: which one of two alike is chosen is chance."""
    return Counter("spot" if name.startswith("spot") else "steady" for name in placed.values())

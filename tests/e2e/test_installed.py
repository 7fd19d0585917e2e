"""The chart, installed by helm: Placet runs from its pods with the rights that they ship with."""

import base64
import http.client
import json
import re
import socket
import ssl
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
import yaml
from trustme import CA

from tests.e2e.api import watched_bindings
from tests.e2e.cluster import Cluster
from tests.e2e.installation import (
    CHART,
    CONTROL_PLANE,
    NAMESPACE,
    RELEASE,
    TOLERATION,
    Installation,
    installation,
    opted_in,
)
from tests.e2e.manifests import controller, pod
from tests.e2e.policies import policy, wait_ready
from tests.e2e.process import free_port, termination_as_interrupt, until
from tests.e2e.service import service

pytestmark = pytest.mark.e2e

# Under the bound there is room for one pod more on each node.
WORKERS, A_NODE, PODS = 25, 9, 200
FEW_A_NODE, FEW_PODS = 3, 50
PAUSE_SECONDS = 0.2
PAGE = CHART.parents[1] / "docs" / "install.md"
SECONDS = 60.0
# The Service of the mode `service`: of the API server's range, and the chart's port.
ADDRESS, HOST, HTTPS_PORT = "10.96.0.50", f"{RELEASE}.{NAMESPACE}.svc", 12345


class Observer:
    """What a watch of its own says of the pods with a node: where they are, and what is wrong."""

    def __init__(self, a_node: int) -> None:
        self.a_node = a_node
        self.nodes: dict[str, str] = {}
        self.wrong: list[str] = []

    def event(self, line: bytes) -> None:
        event = json.loads(line)
        name, node = event["object"]["metadata"]["name"], event["object"]["spec"]["nodeName"]
        if event["type"] == "DELETED":
            self.wrong.append(f"{name} is lost")
        if self.nodes.setdefault(name, node) != node:
            self.wrong.append(f"{name} is on {node} and on {self.nodes[name]}")
        if (count := Counter(self.nodes.values())[node]) > self.a_node:
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


@contextmanager
def crowding(
    installed: Installation, cluster: Cluster, pods: int, a_node: int
) -> Iterator[Observer]:
    """Let so many pods arrive while the block runs, from the first one on that has a node.

    At its end all have one, and at no moment a node has more of them than `a_node`. All are wanted
    on few nodes, so that this limit bounds them.
    """
    peers = 'pods where peer.labels["app"] == "crowd"'
    rules = (
        f'limit "few a node" {{ {peers} per node at most {a_node} strict }}'
        ' score "first" weight 1 { value node.name < "worker-2" ? 100 : 0 }'
    )
    cluster.apply(policy(cluster, name="crowd", labels={"app": "crowd"}, rules=rules))
    wait_ready(cluster, "crowd", "True")
    names = [f"crowd-{number}" for number in range(pods)]
    observer = Observer(a_node)
    with watched_bindings(installed.plane, cluster.namespace, observer.event):
        with arriving(cluster, (tolerant(cluster, name, "crowd") for name in names)):
            until(lambda: bool(observer.nodes), SECONDS, installed.report)
            yield observer
        placed = cluster.wait_placed(names, 2 * SECONDS)
        until(lambda: placed.items() <= observer.nodes.items(), SECONDS, lambda: "all observed")
    assert observer.wrong == []
    assert max(Counter(placed.values()).values()) == a_node


def check_one_node(cluster: Cluster) -> None:
    """A policy keeps a pod to one node."""
    cluster.apply(policy(cluster, rules='filter "one" { require node.name == "worker-7" }'))
    wait_ready(cluster, "web", "True")
    cluster.create_pods([web(cluster, "web-1")])
    assert cluster.wait_placed(["web-1"]) == {"web-1": "worker-7"}


def status_without_certificate(port: int, authority: Path, path: str) -> int:
    """Return how Placet answers a client that verifies it and shows nothing."""
    context = ssl.create_default_context(cafile=str(authority))
    connection = http.client.HTTPConnection("127.0.0.1", port)
    plain = socket.create_connection(("127.0.0.1", port), SECONDS)
    connection.sock = context.wrap_socket(plain, server_hostname=HOST)
    with closing(connection):
        connection.request("GET" if path == "/readyz" else "POST", path)
        return connection.getresponse().status


def config_map(name: str, authority: str) -> dict[str, object]:
    """Return a ConfigMap of the release's namespace with a CA."""
    metadata = {"name": name, "namespace": NAMESPACE}
    data = {"ca.crt": authority}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


@pytest.fixture(scope="module")
def installed(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installation]:
    folder = tmp_path_factory.mktemp("installed")
    with termination_as_interrupt(), installation(pytestconfig, folder, WORKERS) as running:
        yield running


def tolerant(cluster: Cluster, name: str, app: str) -> dict[str, object]:
    return pod(name, cluster.namespace, {"app": app}, cpu="1m", tolerations=[TOLERATION])


def web(cluster: Cluster, name: str) -> dict[str, object]:
    return tolerant(cluster, name, "web")


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
    text = installed.helm("template", RELEASE, str(CHART), f"--set=mode={mode}", "--no-hooks")
    flags = ("--server-side", "--dry-run=server", "--validate=strict", "--force-conflicts")
    done = cluster.kubectl("apply", *flags, "--filename=-", text=text)
    assert done.count("(server dry run)") == sum(map(bool, yaml.safe_load_all(text)))


def block(language: str, title: str = "Three commands", number: int = 0) -> str:
    """Return a text in a language of a section of the page."""
    section = PAGE.read_text().partition(f"## {title}")[2].partition("\n## ")[0]
    return section.split(f"```{language}\n")[number + 1].partition("```")[0]


def test_the_three_commands_of_the_page(installed: Installation, tmp_path: Path) -> None:
    """As printed, for a Deployment that runs already."""
    cluster = Cluster(installed.plane, "shop")
    cluster.label_node("worker-7", {"capacity": "spot"})
    made = controller("Deployment", "web", cluster.namespace)
    made["spec"]["template"]["spec"]["tolerations"] = [TOLERATION]
    cluster.create(made)
    (tmp_path / "deploy").symlink_to(CHART.parent)
    (tmp_path / "policy.yaml").write_text(block("yaml"))
    commands = block("sh").splitlines()
    assert [line.partition(" ")[0] for line in commands] == ["helm", "kubectl", "kubectl"]
    for line in commands:
        installed.command(line, tmp_path)
    installed.wait_ready()
    wait_ready(cluster, "web-on-spot", "True")
    wait_opted_in(cluster)
    cluster.kubectl("rollout", "restart", "deployment/web", "-n", "shop")
    cluster.kubectl("rollout", "status", "deployment/web", "-n", "shop")
    until(lambda: len(cluster.placements()) == 1, SECONDS, installed.report)
    ((name, node),) = cluster.placements().items()
    assert (node, cluster.pod(name)["spec"]["schedulerName"]) == ("worker-7", "placet")
    said = installed.command(f"kubectl placet explain -n shop {name}", tmp_path)
    assert "web runs on spot nodes only" in said


# What makes the image and the cluster; here both are there.
ENGINES = ("make", "docker", "kind", "minikube", "export")
CAUSE = "no node passes the policies: shop/web-on-spot: spot: web runs on spot nodes only"


def test_the_page_about_kind_from_the_chart_to_a_placed_pod(
    installed: Installation, tmp_path: Path
) -> None:
    """As printed, but for the namespace; `explain` says in this cluster what the page shows."""
    page = (PAGE.parent / "kind.md").read_text()
    assert CAUSE in page
    page, cause = (text.replace("shop", "street") for text in (page, CAUSE))
    installed.uninstall()
    (tmp_path / "deploy").symlink_to(CHART.parent)
    files = "docs/examples/kind"
    (tmp_path / files).mkdir(parents=True)
    for file in (CHART.parents[1] / files).iterdir():
        (tmp_path / files / file.name).write_text(file.read_text().replace("shop", "street"))
    cluster = Cluster(installed.plane, "of-kind")
    last = cluster.kubectl("get", "nodes", "--output=name").split()[-1].removeprefix("node/")
    blocks = re.findall(r"(?ms)^```(?:sh|console)\n(.*?)^```$", page)
    lines = [
        line.removeprefix("$ ")
        for text in blocks
        for line in text.replace("\\\n", "").splitlines()[: 1 if text.startswith("$ ") else None]
    ]
    commands = [line for line in lines if not line.startswith(ENGINES)]
    assert [line.split()[0] for line in commands] == ["helm", *["kubectl"] * 10]
    asked = f"kubectl create -f {files}/web.yaml --dry-run=server -o yaml"

    def is_opted_in() -> bool:
        return "schedulerName: placet" in installed.command(asked, tmp_path)

    cluster.kubectl("taint", "node", last, f"{TOLERATION['key']}-")
    cluster.kubectl("label", "nodes", "--all", "capacity-")
    try:
        for line in commands:
            if "web.yaml" in line:
                until(is_opted_in, SECONDS, lambda: "the policy of admission in force")
            said = installed.command(line, tmp_path)
            if "explain" in line:
                assert cause in said
        assert last in said
    finally:
        cluster.kubectl("taint", "node", last, f"{TOLERATION['key']}=fake:NoSchedule")


@pytest.mark.parametrize("first", ["manifests", "chart"])
def test_chart_and_manifests_take_over_from_each_other(
    installed: Installation, tmp_path: Path, first: str
) -> None:
    """As the page has the commands; the release can be upgraded and uninstalled afterwards."""
    installed.uninstall()
    (tmp_path / "deploy").symlink_to(CHART.parent)
    ways = [block("sh", "Without helm").strip(), block("sh").splitlines()[0]]
    for way in ways if first == "manifests" else reversed(ways):
        installed.command(way, tmp_path)
        installed.wait_ready()
    installed.install("config.maxInFlight=50")
    installed.uninstall()
    cluster = Cluster(installed.plane, f"after-{first}")
    # Leases and the certificate are Placet's own, and definitions stay with their policies.
    kept = ("lease", "secret", "customresourcedefinition")
    until(
        lambda: all(name.startswith(kept) for name in left_of_placet(cluster)),
        SECONDS,
        lambda: str(left_of_placet(cluster)),
    )


def test_a_broken_policy_in_the_values_does_not_get_in(installed: Installation) -> None:
    """Its check is a Job, whose log says what is wrong; nothing else changes."""
    cluster = Cluster(installed.plane, "checked")
    good = 'cluster policy all { filter "ready" { require node.ready } }'
    installed.install(f"policies.all\\.policy={good}")
    try:
        with pytest.raises(AssertionError):
            installed.install("policies.all\\.policy=cluster policy all { filtr }")
        kept = cluster.kubectl(
            "get", "configmap", "placet-policies", f"--namespace={NAMESPACE}", "--output=json"
        )
        assert json.loads(kept)["data"] == {"all.policy": good}
    finally:
        installed.install()


def test_definitions_that_are_there_already_stay_as_they_are(installed: Installation) -> None:
    """Of kubectl, or of another release: a second one installs beside the first."""
    installed.install()
    said = installed.helm(
        "install", "second", str(CHART), "--dry-run=server", "--set=scheduler.name=second"
    )
    assert "kind: CustomResourceDefinition" not in said
    assert "The cluster had definitions of policies already" in said
    assert "kind: CustomResourceDefinition" in installed.helm("get", "manifest", RELEASE)


def test_helm_test_runs_a_pod_that_ends_well(installed: Installation) -> None:
    """On the only node without a taint, as it may be in a cluster of one node."""
    installed.install()
    cluster = Cluster(installed.plane, "tested")
    cluster.kubectl("taint", "node", "control", f"{CONTROL_PLANE}-")
    try:
        said = installed.helm("test", RELEASE, f"--timeout={SECONDS:g}s")
    finally:
        cluster.kubectl("taint", "node", "control", f"{CONTROL_PLANE}=:NoSchedule")
    assert re.search(r"^Phase: +Succeeded$", said, re.MULTILINE), said
    (run,) = (each for each in installed.kubelet.pods.values() if each.name == "placet-test")
    assert (run.folder / "placed" / "log").read_text().startswith("placet ")


def test_a_strict_bound_holds_while_placet_is_killed_upgraded_and_scaled(
    installed: Installation,
) -> None:
    """Pods arrive all the while, and all of them are placed."""
    installed.install("bind.enabled=true")
    cluster = opted_in(installed, "busy")
    wait_opted_in(cluster)
    with crowding(installed, cluster, PODS, A_NODE) as observer:
        restarted = installed.kill_leader()
        installed.wait_ready()
        before = {each.uid for each in installed.pods()}
        installed.install("bind.enabled=true", "config.maxInFlight=50")
        # The kubelet may not have seen yet that the last old pod is deleted.
        until(
            lambda: not before & {each.uid for each in installed.pods()},
            SECONDS,
            lambda: "no pod of before",
        )
        before_all = len(observer.nodes)
        installed.install("bind.enabled=true", "config.maxInFlight=50", "replicas=3")
        until(lambda: len(observer.nodes) > before_all, SECONDS, installed.report)
    assert restarted.restarts("placet") > 0


def left_of_placet(cluster: Cluster) -> list[str]:
    """Return the objects of all kinds that are named after Placet, as `kind/name`."""
    kinds = cluster.kubectl("api-resources", "--verbs=list", "--output=name").split()
    # What the API server keeps by itself for an hour, and metrics that nobody serves here.
    kinds = [kind for kind in kinds if not kind.startswith("events") and "metrics" not in kind]
    text = cluster.kubectl("get", ",".join(kinds), "--all-namespaces", "--output=name")
    return sorted(line for line in text.splitlines() if "placet" in line)


def test_nothing_is_left_after_the_commands_of_the_page(
    installed: Installation, tmp_path: Path
) -> None:
    """No webhook, role, Lease or marker, and a new pod is placed by the cluster's own scheduler."""
    installed.uninstall()
    installed.install("bind.enabled=true", "webhooks.policies=true")
    cluster = opted_in(installed, "leaving")
    wait_opted_in(cluster)
    cluster.create_pods([web(cluster, "stays"), tolerant(cluster, "waits", "waits")])
    assert left_of_placet(cluster) != []
    for line in block("sh", "Uninstalling").splitlines():
        installed.command(line, tmp_path)
    until(
        lambda: all("customresourcedefinition" in name for name in left_of_placet(cluster)),
        SECONDS,
        lambda: str(left_of_placet(cluster)),
    )
    cluster.create_pods([web(cluster, "after")])
    until(lambda: "after" in cluster.placements(), SECONDS, installed.report)
    assert cluster.pod("after")["spec"]["schedulerName"] == "default-scheduler"


def test_beside_the_kube_scheduler_of_the_control_plane(installed: Installation) -> None:
    """A strict bound holds while kube-scheduler binds, and Placet is killed."""
    installed.uninstall()
    serve, health, view = (free_port() for _ in range(3))
    ports = (f"ports.serve={serve}", f"ports.health={health}", f"ports.view={view}")
    installed.install("mode=control-plane", *ports)
    cluster = Cluster(installed.plane, "beside")
    with installed.asking(f"--url=http://127.0.0.1:{serve}/api/scheduler"):
        check_one_node(cluster)
        with crowding(installed, cluster, FEW_PODS, FEW_A_NODE) as observer:
            (placet,) = installed.pods()
            placet.containers["placet"].kill()
            until(lambda: placet.restarts("placet") > 0, SECONDS, installed.report)
            installed.wait_ready()
            before = len(observer.nodes)
            until(lambda: len(observer.nodes) > before, SECONDS, installed.report)


def test_behind_a_service(installed: Installation, tmp_path: Path) -> None:
    """kube-scheduler has a certificate, and a strict bound holds while the leader is killed."""
    installed.uninstall()
    clients = CA()
    cluster = Cluster(installed.plane, "behind")
    cluster.apply(config_map("scheduler-ca", clients.cert_pem.bytes().decode()))
    installed.install(
        "mode=service",
        "bind.enabled=true",
        f"service.clusterIP={ADDRESS}",
        f"certificates.ipAddresses={{{ADDRESS}}}",
        "clients.caConfigMap=scheduler-ca",
    )
    authority = tmp_path / "ca.crt"
    secret = json.loads(
        cluster.kubectl("get", "secret", "placet-tls", f"--namespace={NAMESPACE}", "--output=json")
    )
    authority.write_bytes(base64.b64decode(secret["data"]["ca.crt"]))
    own = clients.issue_cert(common_name="system:kube-scheduler")
    own.cert_chain_pems[0].write_to_path(tmp_path / "client.crt")
    own.private_key_pem.write_to_path(tmp_path / "client.key")
    with service(installed.pods, HTTPS_PORT) as port:
        flags = (
            f"--url=https://127.0.0.1:{port}/api/scheduler",
            "--verbs=filter,prioritize,preempt,bind",
            "--tls-paths",
            f"--ca={authority}",
            f"--client-cert={tmp_path / 'client.crt'}",
            f"--client-key={tmp_path / 'client.key'}",
            f"--server-name={HOST}",
        )
        with installed.asking(*flags):
            check_one_node(cluster)
            assert status_without_certificate(port, authority, "/api/scheduler/filter") == 401
            assert status_without_certificate(port, authority, "/readyz") == 200
            with crowding(installed, cluster, FEW_PODS, FEW_A_NODE) as observer:
                restarted = installed.kill_leader()
                before = len(observer.nodes)
                until(lambda: len(observer.nodes) > before, SECONDS, installed.report)
    assert restarted.restarts("placet") > 0

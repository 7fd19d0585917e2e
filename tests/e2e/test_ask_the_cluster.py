"""`kubectl placet explain` on a running cluster: each pending pod gets its cause in one command.

One kube-scheduler has four extenders; which of them are asked about a pod says the extended
resources that it names. Eight policies are applied, three of them broken.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.api import Api
from tests.e2e.cluster import Cluster
from tests.e2e.control_plane import ControlPlane
from tests.e2e.kube_scheduler import extender, kube_scheduler
from tests.e2e.kubelets import Volume
from tests.e2e.manifests import node, pod
from tests.e2e.placet import placet
from tests.e2e.policies import define, policy, wait_ready
from tests.e2e.process import answers_ok, free_port, kubeconfig, until
from tests.e2e.recorder import answering

pytestmark = pytest.mark.e2e

SECONDS = 60.0
NODES = ("n-1", "n-2")
NO_LICENCE = "the later extender has no licence left"
BROKEN = 'filter "broken" { require node.nme == "" }'
# The kind of cause of each pod, and a part of its text.
CAUSES: Mapping[str, tuple[str, str]] = {
    "filter": ("policy", "filter: not of the pool (2 nodes)"),
    "count": ("count", "one of these is there (2 nodes)"),
    "held": ("held back", "only one at a time"),
    "broken": ("policy not in force", "Node has no field `nme`"),
    "rights": ("missing rights", "without-rights` may not "),
    "scheduler": ("other scheduler", "waits for the scheduler `mine`"),
    "plugins": ("kube-scheduler", "Insufficient cpu (2 nodes)"),
    "gated": ("gated", "gated by `example.com/quota`"),
    "later": ("other extender", NO_LICENCE),
    "down": ("unreachable extender", "connection refused"),
}


def resource(name: str) -> str:
    """Return what pods name about which an extender is asked."""
    return f"placet.example/{name}"


def entry(name: str, port: int) -> dict[str, Any]:
    """Return an extender that is asked about the pods that name it."""
    plain = extender(f"http://127.0.0.1:{port}", node_cache_capable=True, preempts=False)
    managed = [{"name": resource(name), "ignoredByScheduler": True}]
    return plain | {"managedResources": managed}


def asked(cluster: Cluster, case: str, *extenders: str, **spec: Any) -> dict[str, Any]:
    """Return the pod of a case, which names extenders."""
    made = pod(case, cluster.namespace, {"case": case}, **spec)
    resources = made["spec"]["containers"][0]["resources"]
    named = {resource(name): "1" for name in extenders}
    resources["requests"] |= named
    resources["limits"] = named
    return made


class _Refusing(BaseHTTPRequestHandler):
    """Refuses every node with one text."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        names = body["NodeNames"]
        answer = {"NodeNames": [], "FailedNodes": dict.fromkeys(names, NO_LICENCE), "Error": ""}
        text = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        """Stay silent."""


class Terminal:
    """A user's terminal: kubectl with Placet as its plugin, and a kubeconfig."""

    def __init__(self, plane: ControlPlane, file: Path) -> None:
        self._kubectl = plane.programs / "kubectl"
        # The plugin `kubectl-placet` is beside the interpreter of the tests.
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        own = {"KUBECONFIG": str(file), "PATH": path}
        self._environment = {**os.environ, **own, "COLUMNS": "200"}

    def kubectl(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self._kubectl, *arguments],
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS,
        )


@pytest.fixture
def policies(cluster: Cluster) -> Iterator[None]:
    """Eight policies, three of which are broken."""
    define(cluster)
    limit = "pods where peer.labels[?'case'] == optional.of(pod.labels['case'])"

    def strict(name: str, rules: str, mode: str = "Strict") -> dict[str, Any]:
        return policy(cluster, name=name, labels={"case": name}, enforcementMode=mode, rules=rules)

    cluster.apply(
        strict("filter", 'filter "pool" { require false message "filter: not of the pool" }'),
        strict(
            "count",
            f'limit "one" {{ {limit} per node at most 1 strict message "one of these is there" }}',
        ),
        strict(
            "held",
            'limit "one" { pods where peer.labels[?"case"].orValue("") in ["held", "first"]'
            ' per cluster at most 1 strict message "only one at a time" }',
        ),
        strict(
            "first",
            'limit "one" { pods where peer.labels[?"case"].orValue("") in ["held", "first"]'
            ' per cluster at most 1 strict message "only one at a time" }',
        ),
        strict("plugins", 'filter "ready" { require node.ready }'),
        strict("broken", BROKEN),
        strict("idle", BROKEN, "BestEffort"),
        strict("unused", BROKEN, "BestEffort"),
    )
    yield
    cluster.kubectl("delete", "placementpolicies", "--all", f"-n={cluster.namespace}")


@pytest.fixture
def scheduled(plane: ControlPlane, cluster: Cluster, tmp_path: Path) -> Iterator[None]:
    """Placet, one without rights, a later extender and one that is down, under kube-scheduler."""
    with ExitStack() as running:

        def served(name: str, token: str, *flags: str) -> int:
            folder = tmp_path / name
            folder.mkdir()
            file = kubeconfig(folder / "config", plane.url, plane.authority, {"token": token})
            flags = (f"--kubeconfig={file}", "--lease=none", *flags)
            server = running.enter_context(placet(folder, None, *flags))
            server.process.wait_ready(lambda: answers_ok(server.port, "/livez"), SECONDS)
            if name == "live":
                server.wait_ready()
            return server.port

        api, path = Api(plane), f"/api/v1/namespaces/{cluster.namespace}/serviceaccounts"
        api.request("POST", path, {"metadata": {"name": "without-rights"}})
        made = api.request("POST", f"{path}/without-rights/token", {"spec": {}})
        ports = {
            "live": served("live", plane.placet_token),
            "rights": served("rights", made["status"]["token"]),
            "later": running.enter_context(answering(_Refusing)),
            "down": free_port(),
        }
        entries = [entry(name, port) for name, port in ports.items()]
        running.enter_context(kube_scheduler(plane, tmp_path, entries))
        yield


@pytest.fixture
def volume(plane: ControlPlane, cluster: Cluster) -> Iterator[Volume]:
    """A claim without a volume."""
    found = Volume(plane, cluster.namespace)
    yield found
    found.delete()


def wait_said(cluster: Cluster, name: str, text: str = "") -> None:
    """Return once kube-scheduler has said why a pod has no node, in a message with a text."""

    def said() -> str:
        return str(cluster.scheduled_condition(name).get("message") or "")

    until(
        lambda: bool(said()) and text in said(),
        SECONDS,
        lambda: f"a condition of {name}: {cluster.pod(name)['status']}",
    )


@pytest.mark.usefixtures("policies", "scheduled")
def test_each_pending_pod_has_its_cause(
    plane: ControlPlane, cluster: Cluster, volume: Volume
) -> None:
    for name in ("filter", "count", "held", "first", "plugins"):
        wait_ready(cluster, name, "True", SECONDS)
    for name in ("broken", "idle", "unused"):
        wait_ready(cluster, name, "False", SECONDS)
    cluster.create_nodes(node(name) for name in NODES)
    bound = [asked(cluster, "count", nodeName=name) for name in NODES]
    for number, each in enumerate(bound):
        each["metadata"]["name"] = f"count-{number}"
    cluster.create_pods(bound)
    # It has a node, and kube-scheduler waits for its volume: so it stays in flight.
    cluster.create_pods([asked(cluster, "first", "live", volumes=[volume.claimed()])])
    until(lambda: volume.chosen() is not None, SECONDS, lambda: "no node is chosen for `first`")
    cluster.create_pods(
        [
            asked(cluster, "filter", "live"),
            asked(cluster, "count", "live"),
            asked(cluster, "held", "live"),
            asked(cluster, "broken", "live"),
            asked(cluster, "rights", "rights"),
            asked(cluster, "scheduler", schedulerName="mine"),
            asked(cluster, "plugins", "live", cpu="100"),
            asked(cluster, "gated", schedulingGates=[{"name": "example.com/quota"}]),
            asked(cluster, "later", "live", "later"),
            asked(cluster, "down", "down"),
        ]
    )
    for name in CAUSES:
        if name not in ("scheduler", "gated"):
            wait_said(cluster, name)
    terminal = Terminal(plane, plane.admin_kubeconfig)
    for name, (kind, text) in CAUSES.items():
        arguments = ("placet", "explain", "-n", cluster.namespace, name)
        done = terminal.kubectl(*arguments, "-o", "json")
        assert done.returncode == 0, (name, done.stderr)
        cause = json.loads(done.stdout)["cause"]
        assert cause["kind"] == kind, (name, cause, cluster.scheduled_condition(name))
        assert text in cause["text"], (name, cause)
    check_values(terminal, cluster)


def check_values(terminal: Terminal, cluster: Cluster) -> None:
    """Assert that what is shown is what the API has: names of pods, of policies and of nodes."""
    done = terminal.kubectl("placet", "explain", "-n", cluster.namespace, "count", "n-1")
    assert done.stderr.startswith("asking `e2e` at https://127.0.0.1:"), done.stderr
    assert "1 on this node, at most 1 with this pod" in done.stdout
    assert f"bound: {cluster.namespace}/count-0" in done.stdout
    every = terminal.kubectl("placet", "explain", "-n", cluster.namespace, "-o", "name")
    assert set(every.stdout.split()) == {f"pod/{name}" for name in (*CAUSES, "first")}
    broken = terminal.kubectl("placet", "explain", "-n", cluster.namespace)
    for name in ("broken", "idle", "unused"):
        assert f"{cluster.namespace}/{name} " in broken.stdout


@pytest.mark.usefixtures("policies", "scheduled")
def test_a_developer_of_one_namespace_sees_what_they_may(
    plane: ControlPlane, cluster: Cluster, tmp_path: Path
) -> None:
    """Rights to pods, events and policies of the namespace, and to nothing else."""
    wait_ready(cluster, "filter", "True", SECONDS)
    cluster.create_nodes(node(name) for name in NODES)
    cluster.create_pods([asked(cluster, "filter", "live")])
    wait_said(cluster, "filter")
    within = f"-n={cluster.namespace}"
    readable = "pods,events,placementpolicies.placement-policy.scheduling.x-k8s.io"
    cluster.kubectl("create", "serviceaccount", "dev", within)
    cluster.kubectl("create", "role", "dev", "--verb=get,list", f"--resource={readable}", within)
    subject = f"--serviceaccount={cluster.namespace}:dev"
    cluster.kubectl("create", "rolebinding", "dev", "--role=dev", subject, within)
    token = cluster.kubectl("create", "token", "dev", within).strip()
    file = kubeconfig(tmp_path / "dev", plane.url, plane.authority, {"token": token})
    done = Terminal(plane, file).kubectl("placet", "explain", within, "filter")
    assert done.returncode == 0, done.stderr
    assert "cause: the last answer was: " in done.stdout
    assert "filter: not of the pool (2 nodes)" in done.stdout
    assert "you may not list nodes" in done.stdout
    assert f"{cluster.namespace}/filter" in done.stdout

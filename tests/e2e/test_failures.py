"""The matrix of failures under the real kube-scheduler: what becomes of the pod of each case.

One kube-scheduler has an extender for each failure, ignorable and not; which of them is asked about
a pod says the extended resource that the pod names.
"""

import http.client
import json
import signal
import time
from collections.abc import Mapping
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.control_plane import ControlPlane
from tests.e2e.kube_scheduler import extender, kube_scheduler
from tests.e2e.manifests import node, pod
from tests.e2e.placet import placet
from tests.e2e.policies import define, wait_ready
from tests.e2e.process import answers_ok, free_port, kubeconfig, until
from tests.e2e.recorder import answering
from tests.support.failures import MATRIX, ON_ERROR, POOL, Case, Failure, Fate, labels, policy

pytestmark = pytest.mark.e2e

# The node that the policies want is the one that kube-scheduler likes less: it is nearly full.
WANTED, INVITING = "wanted", "inviting"
SECONDS = 60.0
STABLE_SECONDS = 5.0
# What kube-scheduler says of the pods that are not placed.
REASONS: Mapping[Failure, str | tuple[str, ...]] = {
    Failure.DOWN: "connection refused",
    Failure.HUNG: "Client.Timeout exceeded",
    Failure.STATUS_500: "code 500",
    Failure.UNSYNCED: "placet: not synced",
    # Our own words, unless kube-scheduler was quicker to give up: the machine is busy then.
    Failure.SLOW: (
        "took longer than the request may",
        "takes too much time to evaluate",
        "Client.Timeout exceeded",
    ),
    Failure.ERROR: "odd",
    Failure.NEVER_HELD: "no valid version loaded yet",
    Failure.UNKNOWN_NODES: "placet: node not yet known",
}


def resource(case: Case) -> str:
    """Return what is named by pods about which the case's extender is asked."""
    return f"placet.example/{case.failure}-{'soft' if case.ignorable else 'firm'}"


def entry(case: Case, port: int) -> dict[str, Any]:
    """Return the extender of a case."""
    plain = extender(f"http://127.0.0.1:{port}", node_cache_capable=True, preempts=False)
    return plain | {
        "ignorable": case.ignorable,
        "httpTimeout": "1s" if case.failure is Failure.HUNG else "5s",
        "managedResources": [{"name": resource(case), "ignoredByScheduler": True}],
    }


def asked(case: Case, namespace: str) -> dict[str, Any]:
    """Return the pod of a case."""
    made = pod(case.name, namespace, labels(case.failure, case.on_error))
    resources = made["spec"]["containers"][0]["resources"]
    resources["requests"][resource(case)] = "1"
    resources["limits"] = {resource(case): "1"}
    return made


class _Refusing(BaseHTTPRequestHandler):
    """Answers every call with 500."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_error(http.client.INTERNAL_SERVER_ERROR)

    def log_message(self, *_: object) -> None:
        """Stay silent."""


class Servers:
    """The Placets of the cases, and what is there in place of one."""

    def __init__(
        self, plane: ControlPlane, cluster: Cluster, folder: Path, running: ExitStack
    ) -> None:
        self._plane = plane
        self._cluster = cluster
        self._folder = folder
        self._running = running

    def start(self) -> dict[Failure, int]:
        """Return the port of each case; nodes are yet to be registered."""
        watching = self._watch("watching")
        return {
            Failure.DOWN: free_port(),
            Failure.HUNG: self._hung(),
            Failure.STATUS_500: self._running.enter_context(answering(_Refusing)),
            Failure.UNSYNCED: self._unsynced(),
            Failure.SLOW: self._watch("slow", "--http-timeout=200ms"),
            Failure.ERROR: watching,
            Failure.BROKEN: watching,
            Failure.NEVER_HELD: watching,
            Failure.UNKNOWN_NODES: self._late(),
        }

    def _watch(self, name: str, *flags: str) -> int:
        reach = f"--kubeconfig={self._plane.placet_kubeconfig}"
        server = self._running.enter_context(
            placet(self._made(name), None, reach, "--lease=none", *flags)
        )
        server.wait_ready()
        return server.port

    def _hung(self) -> int:
        """Stopped: connections are accepted by the kernel, and no byte comes back."""
        folder = self._made("hung")
        file = folder / "a.policy"
        file.write_text("")
        server = self._running.enter_context(placet(folder, file, "--no-cluster"))
        server.wait_ready()
        server.process.child.send_signal(signal.SIGSTOP)
        self._running.callback(server.process.child.send_signal, signal.SIGCONT)
        return server.port

    def _unsynced(self) -> int:
        """Its API server is not there."""
        folder = self._made("unsynced")
        file = kubeconfig(
            folder / "kubeconfig",
            f"https://127.0.0.1:{free_port()}",
            self._plane.authority,
            {"token": self._plane.placet_token},
        )
        flags = (f"--kubeconfig={file}", "--lease=none")
        server = self._running.enter_context(placet(folder, None, *flags))
        server.process.wait_ready(lambda: answers_ok(server.port, "/livez"), SECONDS)
        return server.port

    def _late(self) -> int:
        """Knows the cluster as it is now, and never hears of a node."""
        folder = self._made("late")
        # A snapshot without nodes is refused; no pod fits on this one.
        self._cluster.create_nodes([node("early", cpu="0")])
        snapshot = self._cluster.write_snapshot(folder / "snapshot.json")
        file = folder / "policies.json"
        made = [policy(Failure.UNKNOWN_NODES, each, self._cluster.namespace) for each in ON_ERROR]
        file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": made}))
        server = self._running.enter_context(placet(folder, file, f"--cluster={snapshot}"))
        server.wait_ready()
        return server.port

    def _made(self, name: str) -> Path:
        folder = self._folder / name
        folder.mkdir()
        return folder


def fate(cluster: Cluster, name: str) -> Fate | None:
    """Return what has become of a pod, None where that is not known yet."""
    where = cluster.pod(name)["spec"].get("nodeName")
    if where is not None:
        return {WANTED: Fate.GOVERNED, INVITING: Fate.UNGOVERNED}[where]
    reason = cluster.scheduled_condition(name).get("reason")
    return {"SchedulerError": Fate.WAITS, "Unschedulable": Fate.REFUSED}.get(str(reason))


def test_what_becomes_of_a_pod(plane: ControlPlane, cluster: Cluster, tmp_path: Path) -> None:
    """All cases at once; the table in docs/operations/failures.md is what is found."""
    define(cluster)
    with ExitStack() as running:
        # Other tests' servers would have them too.
        running.callback(
            cluster.kubectl, "delete", "placementpolicies", "--all", f"-n={cluster.namespace}"
        )
        ports = Servers(plane, cluster, tmp_path, running).start()
        prepare(cluster)
        firsts = {(case.failure, case.ignorable): case for case in MATRIX}
        entries = [entry(case, ports[case.failure]) for case in firsts.values()]
        running.enter_context(kube_scheduler(plane, tmp_path, entries))
        cluster.create_pods(asked(case, cluster.namespace) for case in MATRIX)

        def found() -> dict[Case, Fate | None]:
            return {case: fate(cluster, case.name) for case in MATRIX}

        def others() -> str:
            return str({c.name: f for c, f in found().items() if f is not MATRIX[c]})

        until(lambda: found() == MATRIX, SECONDS, others)
        time.sleep(STABLE_SECONDS)
        assert found() == MATRIX, others()
        check_reasons(cluster)


def prepare(cluster: Cluster) -> None:
    """Register the nodes and apply the policies, one of them twice."""
    good = [policy(Failure.BROKEN, each, cluster.namespace, POOL) for each in ON_ERROR]
    cluster.apply(*good)
    for each in ON_ERROR:
        wait_ready(cluster, f"{Failure.BROKEN}-{each.lower()}", "True")
    cluster.apply(*(policy(f, each, cluster.namespace) for f in Failure for each in ON_ERROR))
    for failure in (Failure.BROKEN, Failure.NEVER_HELD):
        for each in ON_ERROR:
            wait_ready(cluster, f"{failure}-{each.lower()}", "False")
    wait_ready(cluster, f"{Failure.ERROR}-fail", "True")
    cluster.create_nodes(
        [
            node(WANTED, {"pool": "web", "zero": "0"}),
            node(INVITING, {"pool": "other", "zero": "0"}, cpu="64"),
        ]
    )
    cluster.create_pods([pod("filler", cluster.namespace, cpu="6", nodeName=WANTED)])


def check_reasons(cluster: Cluster) -> None:
    """Assert that each pod that waits says for what."""
    for case, expected in MATRIX.items():
        if expected in (Fate.WAITS, Fate.REFUSED):
            message = cluster.scheduled_condition(case.name)["message"]
            reasons = REASONS[case.failure]
            known = (reasons,) if isinstance(reasons, str) else reasons
            assert any(reason in message for reason in known), (case, message)

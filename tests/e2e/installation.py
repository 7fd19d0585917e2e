"""Installation: a cluster on which helm installs the chart, and Placet runs from its pods.

A test kubelet runs the pods of the chart on the node `control`, kube-controller-manager makes them,
the stock kube-scheduler places them, and kwok has nodes for the workload. Placet and its own
kube-scheduler have only the rights of the chart's ServiceAccount.
"""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest
import trustme

from tests.e2e.api import Api
from tests.e2e.cluster import Cluster
from tests.e2e.container import REPOSITORY, Image, missing_right, placet_image
from tests.e2e.control_plane import WORKLOADS, ControlPlane, control_plane, controller_manager
from tests.e2e.kube_scheduler import configured_kube_scheduler, kube_scheduler
from tests.e2e.kubelet import Kubelet, RunningPod, kubelet
from tests.e2e.manifests import node
from tests.e2e.process import Process, answers_ok, built, built_tool, free_port, running, until

KWOK_SECONDS = 30.0
LABEL = {"type": "kwok"}
# Keeps pods of the control plane from nodes where nothing runs.
TAINT = {"key": "kwok.x-k8s.io/node", "value": "fake", "effect": "NoSchedule"}
TOLERATION = {"key": TAINT["key"], "operator": "Exists", "effect": TAINT["effect"]}
DELETION = ".metadata.deletionTimestamp"
# What the status of a pod with a node becomes.
RUNS = """\
phase: Running
startTime: {{ Now | Quote }}
conditions:
{{ range (list "Initialized" "ContainersReady" "Ready") }}
  - {type: {{ . }}, status: "True"}
{{ end }}
containerStatuses:
{{ range .spec.containers }}
  - name: {{ .name | Quote }}
    image: {{ .image | Quote }}
    ready: true
    started: true
    restartCount: 0
    state: {running: {startedAt: {{ Now | Quote }}}}
{{ end }}
"""


def stage(
    name: str, when: list[dict[str, Any]], then: dict[str, Any], kind: str = "Pod"
) -> dict[str, Any]:
    """Return a rule of kwok about objects in some state."""
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Stage",
        "metadata": {"name": name},
        "spec": {
            "resourceRef": {"apiGroup": "v1", "kind": kind},
            "selector": {"matchExpressions": when},
            "next": then,
        },
    }


STAGES = (
    stage(
        "runs",
        [
            {"key": DELETION, "operator": "DoesNotExist"},
            {"key": ".status.phase", "operator": "In", "values": ["Pending"]},
        ],
        {"statusTemplate": RUNS},
    ),
    stage("ends", [{"key": DELETION, "operator": "Exists"}], {"delete": True}),
    # kwok looks after pods of the nodes that it manages, and manages none without a rule for nodes.
    stage("leaves", [{"key": DELETION, "operator": "Exists"}], {"delete": True}, "Node"),
)


def kwok_node(name: str) -> dict[str, Any]:
    """Return a node of kwok's."""
    made = node(name, LABEL)
    made["spec"] = {"taints": [TAINT]}
    return made


@dataclass(frozen=True, slots=True)
class Kwok:
    """A running kwok, and the port on which it answers as the kubelet of its nodes."""

    process: Process
    port: int


def forwarded(namespace: str, pod: str, port: int) -> dict[str, Any]:
    """Return what has kwok forward this port of a pod to the same port of this host."""
    target = {"address": "127.0.0.1", "port": port}
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "PortForward",
        "metadata": {"name": pod, "namespace": namespace},
        "spec": {"forwards": [{"ports": [port], "target": target}]},
    }


@contextmanager
def kwok(
    program: Path, plane: ControlPlane, folder: Path, *others: dict[str, Any]
) -> Iterator[Kwok]:
    """Run kwok for pods that have nodes; nodes are ready as they are created.

    `others` are further objects of its configuration.
    """
    (selector,) = LABEL.items()
    file, port = folder / "kwok.config", free_port()
    file.write_text("\n---\n".join(map(json.dumps, (*STAGES, *others))))
    certificate, key = folder / "kwok.crt", folder / "kwok.key"
    made = trustme.CA().issue_cert("127.0.0.1")
    made.cert_chain_pems[0].write_to_path(str(certificate))
    made.private_key_pem.write_to_path(str(key))
    command: list[str | Path] = [
        program,
        f"--config={file}",
        f"--server-address=127.0.0.1:{port}",
        f"--tls-cert-file={certificate}",
        f"--tls-private-key-file={key}",
        f"--kubeconfig={plane.admin_kubeconfig}",
        f"--manage-nodes-with-label-selector={'='.join(selector)}",
        "--node-lease-duration-seconds=0",
    ]
    # It reads a configuration of its user's, if there is one.
    with running(command, folder / "kwok.log", environment={"HOME": str(folder)}) as process:
        process.wait_ready(lambda: answers_ok(port, "/readyz"), KWOK_SECONDS)
        yield Kwok(process, port)


CHART = REPOSITORY / "deploy" / "chart"
# As docs/install.md has them.
RELEASE, NAMESPACE = "placet", "kube-system"
# A label and a taint: the workload stays away.
CONTROL_PLANE = "node-role.kubernetes.io/control-plane"
HELM_SECONDS = 120.0
READY_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Installation:
    """The cluster, and what an operator does on it."""

    plane: ControlPlane
    api: Api
    kubelet: Kubelet
    folder: Path
    _helm: Path
    # What runs the cluster's own kube-scheduler.
    _scheduling: ExitStack

    def command(self, line: str, folder: Path) -> str:
        """Run a command with helm, kubectl or placet as users type it; return what it prints."""
        homes = {
            f"HELM_{each}_HOME": str(self.folder / "helm") for each in ("CACHE", "CONFIG", "DATA")
        }
        programs = [self._helm.parent, self.plane.programs, Path(sys.executable).parent]
        environment = {
            "HOME": str(self.folder),
            "KUBECONFIG": str(self.plane.admin_kubeconfig),
            "PATH": ":".join([*map(str, programs), os.environ["PATH"]]),
            # `placet` is that of this checkout, also where the environment has another one.
            "PYTHONPATH": str(REPOSITORY),
        }
        done = subprocess.run(
            ["/bin/sh", "-c", line],
            cwd=folder,
            env=homes | environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=HELM_SECONDS,
        )
        assert done.returncode == 0, f"{line}: {done.stderr}"
        return done.stdout

    def helm(self, *arguments: str) -> str:
        """Run helm in the namespace of the release; return what it prints."""
        command = ["helm", *arguments, f"--namespace={NAMESPACE}"]
        return self.command(shlex.join(command), REPOSITORY)

    def install(self, *settings: str) -> None:
        """Install the chart, or upgrade it; return once its pods are ready."""
        flags = [f"--set={each}" for each in settings]
        self.helm("upgrade", "--install", "--wait", RELEASE, str(CHART), *flags)
        self.wait_ready()

    def uninstall(self) -> None:
        """Remove the release, if there is one; return once its pods are gone."""
        self.helm("uninstall", RELEASE, "--ignore-not-found")
        until(lambda: not self._workloads() and not self.pods(), READY_SECONDS, self.report)

    def wait_ready(self) -> None:
        """Return once the chart's workload has rolled out."""
        until(self._is_rolled_out, READY_SECONDS, self.report)

    @contextmanager
    def asking(self, *arguments: str) -> Iterator[None]:
        """Let the cluster's own kube-scheduler ask Placet while the block runs.

        Its configuration is what `placet scheduler-config` writes with these arguments.
        """
        account = f"--scheduler-kubeconfig={self.plane.scheduler_kubeconfig}"
        command = [sys.executable, "-m", "cli", "scheduler-config", account, *arguments]
        done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
        self._scheduling.close()
        try:
            with configured_kube_scheduler(self.plane, self.folder, done.stdout) as scheduler:
                scheduler.wait_ready()
                yield
        finally:
            self._scheduling.enter_context(kube_scheduler(self.plane, self.folder, []))

    def pods(self) -> list[RunningPod]:
        """Return the pods that are there and do not end."""
        return [each for each in self.kubelet.pods.values() if not each.deleted.is_set()]

    def leader(self) -> RunningPod:
        """Return the pod whose Placet has the Lease."""
        path = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{RELEASE}"
        holder = self.api.request("GET", path)["spec"]["holderIdentity"]
        (found,) = (each for each in self.pods() if each.name in holder)
        return found

    def kill_leader(self) -> RunningPod:
        """End the leading Placet without a word, and return its pod once it is back."""
        pod = self.leader()
        pod.containers["placet"].kill()
        until(lambda: pod.restarts("placet") > 0, READY_SECONDS, self.report)
        return pod

    def report(self) -> str:
        """Return what the pods say."""
        pods = self.api.request("GET", f"/api/v1/namespaces/{NAMESPACE}/pods")["items"]
        statuses = [each["status"] for each in pods]
        return f"{json.dumps(statuses)}\n{self.kubelet.errors}\n{self.kubelet.logs()}"

    def _is_rolled_out(self) -> bool:
        if self.kubelet.errors:
            raise self.kubelet.errors[0]
        (workload,) = self._workloads()
        status = workload["status"]
        if status.get("observedGeneration", 0) < workload["metadata"]["generation"]:
            return False
        if workload["kind"] == "DaemonSet":
            numbers = ("currentNumberScheduled", "updatedNumberScheduled", "numberAvailable")
            wanted = status["desiredNumberScheduled"]
            return wanted > 0 and all(status.get(each, 0) == wanted for each in numbers)
        wanted = workload["spec"]["replicas"]
        numbers = ("replicas", "updatedReplicas", "availableReplicas")
        return all(status.get(each, 0) == wanted for each in numbers)

    def _workloads(self) -> list[dict[str, Any]]:
        found = []
        for kind in ("DaemonSet", "Deployment"):
            path = f"/apis/apps/v1/namespaces/{NAMESPACE}/{kind.lower()}s"
            items = self.api.request("GET", path)["items"]
            found += [{**each, "kind": kind} for each in items]
        return found


@contextmanager
def installation(config: pytest.Config, folder: Path, workers: int) -> Iterator[Installation]:
    """Run the cluster, with so many nodes of kwok's; skip where a program or right is missing."""
    if (reason := missing_right()) is not None:
        pytest.skip(reason)
    programs, helm = built(config), built_tool(config, "helm")
    kwok_program = built_tool(config, "kwok")
    scheduler = Image("kube-scheduler", ["/programs/kube-scheduler"], {programs: "/programs"})
    images = {"placet": placet_image(), "kube-scheduler": scheduler}
    control = node("control", cpu="64")
    control["metadata"]["labels"][CONTROL_PLANE] = ""
    control["spec"] = {"taints": [{"key": CONTROL_PLANE, "effect": "NoSchedule"}]}
    control["metadata"]["labels"]["topology.kubernetes.io/zone"] = "z"
    with ExitStack() as stack:
        plane = stack.enter_context(control_plane(programs, folder))
        stack.enter_context(controller_manager(plane, folder, WORKLOADS))
        scheduling = stack.enter_context(ExitStack())
        scheduling.enter_context(kube_scheduler(plane, folder, []))
        stack.enter_context(kwok(kwok_program, plane, folder))
        pods = folder / "pods"
        pods.mkdir()
        running = stack.enter_context(kubelet(plane, control, images, pods))
        api = Api(plane)
        api.create("/api/v1/nodes", [kwok_node(f"worker-{number}") for number in range(workers)])
        yield Installation(plane, api, running, folder, helm, scheduling)


def opted_in(installed: Installation, name: str) -> Cluster:
    """Create a namespace whose pods the second kube-scheduler gets."""
    cluster = Cluster(installed.plane, name)
    cluster.kubectl("label", "namespace", name, "placet.dev/scheduling=enabled")
    return cluster


# ---- A Prometheus that scrapes one Placet, for as long as a block runs


PROMETHEUS_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Prometheus:
    """A running Prometheus, asked over HTTP."""

    port: int

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Return the series of an expression now; fail where Prometheus does not evaluate it."""
        result: list[dict[str, Any]] = self._get("query", query=expression)["result"]
        return result

    def rules(self) -> list[dict[str, Any]]:
        """Return the alerts with their health and what they found."""
        return [rule for group in self._get("rules")["groups"] for rule in group["rules"]]

    def _get(self, path: str, **arguments: str) -> dict[str, Any]:
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urlencode(arguments)}"
        with urlopen(url, timeout=60) as response:
            answer: dict[str, Any] = json.load(response)
        assert answer["status"] == "success", answer
        data: dict[str, Any] = answer["data"]
        return data


@contextmanager
def prometheus(program: Path, folder: Path, target: int, rules: Path) -> Iterator[Prometheus]:
    """Scrape the target's port each second, and evaluate a file of rules as often."""
    labels = {"job": "placet", "namespace": "kube-system"}
    configuration = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(rules)],
        "scrape_configs": [
            {
                "job_name": "placet",
                "static_configs": [{"targets": [f"127.0.0.1:{target}"], "labels": labels}],
            }
        ],
    }
    file = folder / "prometheus.yaml"
    file.write_text(json.dumps(configuration))
    port = free_port()
    command: list[str | Path] = [
        program,
        f"--config.file={file}",
        f"--storage.tsdb.path={folder / 'prometheus'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=warn",
    ]
    with running(command, folder / "prometheus.log") as process:
        process.wait_ready(lambda: answers_ok(port, "/-/ready"), PROMETHEUS_SECONDS)
        yield Prometheus(port)

"""A kwok, which says for nodes without machines that their pods run and end, while a block runs."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trustme

from tests.e2e.control_plane import ControlPlane
from tests.e2e.manifests import node
from tests.e2e.process import Process, running
from tests.e2e.waiting import answers_ok, free_port

READY_SECONDS = 30.0
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
        process.wait_ready(lambda: answers_ok(port, "/readyz"), READY_SECONDS)
        yield Kwok(process, port)

"""A kube-scheduler with extenders, for as long as a block runs."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.e2e.control_plane import ControlPlane
from tests.e2e.process import Process, running
from tests.e2e.waiting import answers_ok, free_port

READY_SECONDS = 60.0


def extender(
    address: str, *, node_cache_capable: bool, preempts: bool = True, binds: bool = False
) -> dict[str, Any]:
    """Return the entry for a Placet; unless it binds, kube-scheduler does."""
    return {
        "urlPrefix": f"{address}/api/scheduler",
        "filterVerb": "filter",
        "prioritizeVerb": "prioritize",
        **({"preemptVerb": "preempt"} if preempts else {}),
        **({"bindVerb": "bind"} if binds else {}),
        "weight": 1,
        "nodeCacheCapable": node_cache_capable,
        "ignorable": False,
        "httpTimeout": "5s",
    }


@contextmanager
def kube_scheduler(
    plane: ControlPlane,
    folder: Path,
    extenders: Sequence[dict[str, Any]],
    percentage_of_nodes_to_score: int | None = None,
) -> Iterator[Process]:
    """Run kube-scheduler with these entries under `extenders`; None leaves the percentage unset."""
    configuration: dict[str, Any] = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        # At the default of 50 requests a second, binding would be what a thousand pods wait for.
        "clientConnection": {
            "kubeconfig": str(plane.scheduler_kubeconfig),
            "qps": 5000,
            "burst": 5000,
        },
        "leaderElection": {"leaderElect": False},
        "extenders": list(extenders),
    }
    if percentage_of_nodes_to_score is not None:
        configuration["percentageOfNodesToScore"] = percentage_of_nodes_to_score
    file = folder / "kube-scheduler.config"
    file.write_text(json.dumps(configuration))
    port, certificates = free_port(), folder / "kube-scheduler"
    command: list[str | Path] = [
        plane.programs / "kube-scheduler",
        f"--config={file}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--cert-dir={certificates}",
    ]
    with running(command, folder / "kube-scheduler.log") as process:
        authority = certificates / "kube-scheduler.crt"
        # Readiness includes synced informers: from here on a pod is scheduled against every node.
        process.wait_ready(lambda: answers_ok(port, "/readyz", authority), READY_SECONDS)
        yield process

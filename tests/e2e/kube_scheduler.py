"""A kube-scheduler with extenders, for as long as a block runs."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e.control_plane import ControlPlane
from tests.e2e.process import Process, answers_ok, free_port, running

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


@dataclass(frozen=True, slots=True)
class KubeScheduler:
    """A started kube-scheduler, which may not be ready yet."""

    process: Process
    port: int
    authority: Path

    def wait_ready(self) -> None:
        """Return once informers are synced: from here on a pod is scheduled against every node."""
        self.process.wait_ready(
            lambda: answers_ok(self.port, "/readyz", self.authority), READY_SECONDS
        )


@contextmanager
def kube_scheduler(
    plane: ControlPlane,
    folder: Path,
    extenders: Sequence[dict[str, Any]],
    percentage_of_nodes_to_score: int | None = None,
    flags: Sequence[str] = (),
) -> Iterator[Process]:
    """Run kube-scheduler with these entries under `extenders`; None leaves the percentage unset.

    `flags` are more of its command line.
    """
    more = {}
    if percentage_of_nodes_to_score is not None:
        more["percentageOfNodesToScore"] = percentage_of_nodes_to_score
    with started_kube_scheduler(plane, folder, extenders, more, flags) as scheduler:
        scheduler.wait_ready()
        yield scheduler.process


@contextmanager
def started_kube_scheduler(
    plane: ControlPlane,
    folder: Path,
    extenders: Sequence[dict[str, Any]],
    more: Mapping[str, Any],
    flags: Sequence[str] = (),
) -> Iterator[KubeScheduler]:
    """Start kube-scheduler likewise; `more` is what else its configuration has."""
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
        **more,
    }
    text = json.dumps(configuration)
    with configured_kube_scheduler(plane, folder, text, flags) as scheduler:
        yield scheduler


@contextmanager
def configured_kube_scheduler(
    plane: ControlPlane, folder: Path, text: str, flags: Sequence[str] = ()
) -> Iterator[KubeScheduler]:
    """Start kube-scheduler with a configuration as users write it."""
    file = folder / "kube-scheduler.config"
    file.write_text(text)
    port, certificates = free_port(), folder / "kube-scheduler"
    command: list[str | Path] = [
        plane.programs / "kube-scheduler",
        f"--config={file}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--cert-dir={certificates}",
        *flags,
    ]
    with running(command, folder / "kube-scheduler.log") as process:
        yield KubeScheduler(process, port, certificates / "kube-scheduler.crt")

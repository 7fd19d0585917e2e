"""A kube-controller-manager that acts on workloads, for as long as a block runs."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.e2e.control_plane import ControlPlane
from tests.e2e.process import Process, running
from tests.e2e.waiting import answers_ok, free_port

READY_SECONDS = 60.0
# Others would act on nodes and pods that have no kubelets.
DEPLOYMENTS = ("deployment-controller", "replicaset-controller")
# With the deletion of what belongs to a deleted workload.
WORKLOADS = (
    *DEPLOYMENTS,
    "daemonset-controller",
    "job-controller",
    "garbage-collector-controller",
)


@contextmanager
def controller_manager(
    plane: ControlPlane, folder: Path, controllers: Sequence[str] = DEPLOYMENTS
) -> Iterator[Process]:
    """Run these controllers, in all namespaces."""
    port, certificates = free_port(), folder / "kube-controller-manager"
    command: list[str | Path] = [
        plane.programs / "kube-controller-manager",
        f"--kubeconfig={plane.admin_kubeconfig}",
        f"--controllers={','.join(controllers)}",
        "--leader-elect=false",
        # At the default of 20 requests a second, the controllers would be what pods wait for.
        "--kube-api-qps=1000",
        "--kube-api-burst=1000",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--cert-dir={certificates}",
    ]
    authority = certificates / "kube-controller-manager.crt"
    with running(command, folder / "kube-controller-manager.log") as process:
        process.wait_ready(lambda: answers_ok(port, "/healthz", authority), READY_SECONDS)
        yield process

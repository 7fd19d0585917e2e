"""A kwok, which says for nodes without machines that their pods run and end, while a block runs."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.e2e.control_plane import ControlPlane
from tests.e2e.manifests import node
from tests.e2e.process import Process, running

LABEL = {"type": "kwok"}
# Keeps pods of the control plane from nodes where nothing runs.
TAINT = {"key": "kwok.x-k8s.io/node", "value": "fake", "effect": "NoSchedule"}
TOLERATION = {"key": TAINT["key"], "operator": "Exists", "effect": TAINT["effect"]}


def kwok_node(name: str) -> dict[str, Any]:
    """Return a node of kwok's."""
    made = node(name, LABEL)
    made["spec"] = {"taints": [TAINT]}
    return made


@contextmanager
def kwok(program: Path, plane: ControlPlane, folder: Path) -> Iterator[Process]:
    """Run kwok with its own stages of pods; nodes are ready as they are created."""
    (selector,) = LABEL.items()
    command: list[str | Path] = [
        program,
        f"--kubeconfig={plane.admin_kubeconfig}",
        f"--manage-nodes-with-label-selector={'='.join(selector)}",
        "--node-lease-duration-seconds=0",
    ]
    # It reads a configuration of its user's, if there is one.
    with running(command, folder / "kwok.log", environment={"HOME": str(folder)}) as process:
        yield process

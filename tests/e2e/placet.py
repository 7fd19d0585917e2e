"""A Placet server, started as users start it, for as long as a block runs."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.e2e.process import running
from tests.e2e.waiting import answers_ok, free_port

REPOSITORY = Path(__file__).parents[2]
READY_SECONDS = 30.0


@contextmanager
def placet(folder: Path, policies: Path, snapshot: Path | None = None) -> Iterator[int]:
    """Serve a file of policies and yield the port; `snapshot` is what it knows of the cluster."""
    port = free_port()
    command: list[str | Path] = [
        sys.executable,
        "-m",
        "cli",
        "serve",
        f"--listen=127.0.0.1:{port}",
        f"--policies={policies}",
    ]
    command.append("--no-cluster" if snapshot is None else f"--cluster={snapshot}")
    # No API server here, least of all the one that whoever runs the tests is logged in to.
    environment = {"KUBECONFIG": os.devnull}
    with running(
        command, folder / "placet.log", cwd=REPOSITORY, environment=environment
    ) as process:
        process.wait_ready(lambda: answers_ok(port, "/readyz"), READY_SECONDS)
        yield port

"""Placet while it watches a cluster that is made up, of any size, and that changes when told to."""

from __future__ import annotations

import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.benchmarks import shop
from tests.benchmarks.keep_alive import KeepAlive, keep_alive
from tests.benchmarks.race import ROOT
from tests.e2e.placet import placet
from tests.support.kubeconfig import kubeconfig

PREFIX = "/api/scheduler"


@dataclass(frozen=True, slots=True)
class Watching:
    """A connection to the Placet, and the address of what it watches."""

    connection: KeepAlive
    url: str

    def churn(self, rate: int, seconds: int) -> None:
        """Let pods go and come back from now on: so many events a second, for so long."""
        url = f"{self.url}/changes?count={rate * seconds}&rate={rate}&churn=1"
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(urllib.request.Request(url, method="POST")) as answer:  # noqa: S310 - ours
            answer.read()


@contextmanager
def watching(folder: Path, nodes: int, pods: int) -> Iterator[Watching]:
    """Serve the shop's policies over a cluster of `cluster_server`, synced."""
    folder.mkdir(exist_ok=True)
    with large_cluster(nodes, pods) as url:
        policies = shop.policies(folder / "policies")
        with placet(folder, policies, *flags_for(folder, url)) as server:
            server.wait_ready()
            with keep_alive(server.port, PREFIX) as connection:
                yield Watching(connection, url)


@contextmanager
def large_cluster(nodes: int, pods: int) -> Iterator[str]:
    """The address of a `cluster_server`, which ends with the block."""
    command = [sys.executable, "-m", "tests.benchmarks.cluster_server", str(nodes), str(pods)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True) as cluster:
        try:
            assert cluster.stdout is not None
            yield cluster.stdout.readline().strip()
        finally:
            cluster.terminate()


def flags_for(folder: Path, url: str) -> tuple[str, str]:
    """The flags with which Placet watches the cluster at this address."""
    file = kubeconfig(folder / "kubeconfig", url, {"token": "static"})
    return f"--kubeconfig={file}", "--lease=none"

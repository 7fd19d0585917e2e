"""A large cluster: how long until it is known, what it takes, and what a change to it costs."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.benchmarks.race import ROOT
from tests.benchmarks.results import AtMost, Record, Target

NODES, PODS = 5_000, 150_000
TIMES = 4
FIGURES: dict[str, tuple[Target | None, str]] = {
    "sync": (AtMost(20), "s from the first byte to the last object known, over HTTP"),
    "most resident": (AtMost(600), "MiB, the most that the process ever had"),
    "event": (AtMost(25), "us a pod event of 6 kB, decoded and applied"),
    "read": (None, "us a pod event of 6 kB, read from HTTP, decoded and applied"),
    "snapshot": (AtMost(100), "us after one change"),
    "repeated": (AtMost(0.1), "us a node of a filter call where nothing has changed"),
    "pause": (
        AtMost(50),
        "ms, the longest garbage collection in 10 s of 500 events each and calls",
    ),
}
# A cluster of four times the size may take so many times as much, and the rest is noise.
LINEAR = AtMost(TIMES * 1.15)

pytestmark = pytest.mark.bench


@cache
def measured(nodes: int, pods: int, folder: Path) -> dict[str, float]:
    """Run a server and a client, each in a process of its own."""
    pipe = subprocess.PIPE
    server = [sys.executable, "-m", "tests.benchmarks.cluster_server", str(nodes), str(pods)]
    client = [sys.executable, "-m", "tests.benchmarks.cluster_client"]
    with subprocess.Popen(server, cwd=ROOT, stdin=pipe, stdout=pipe, text=True) as running:
        assert running.stdout is not None
        url = running.stdout.readline().strip()
        command = [*client, url, str(nodes), str(folder)]
        try:
            done = subprocess.run(
                command, cwd=ROOT, check=True, stdout=pipe, text=True, timeout=600
            )
        finally:
            running.terminate()
    found: dict[str, float] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cluster")


@pytest.mark.parametrize("figure", FIGURES)
def test_figure(figure: str, folder: Path, record: Record) -> None:
    """Of a cluster as large as Kubernetes is meant for."""
    found = measured(NODES, PODS, folder)
    target, unit = FIGURES[figure]
    more = f"; {found['before']:.0f} before it began" if figure == "most resident" else ""
    record(f"{NODES:,} nodes, {PODS:,} pods: {figure}", found[figure], target, unit + more)


@pytest.mark.parametrize("figure", ["sync", "most resident", "event"])
def test_growth(figure: str, folder: Path, record: Record) -> None:
    """Four times the nodes and the pods."""
    small, large = measured(NODES, PODS, folder), measured(NODES * TIMES, PODS * TIMES, folder)
    detail = f"{small[figure]:.3g} and {large[figure]:.3g} {FIGURES[figure][1]}"
    record(
        f"{NODES * TIMES:,} nodes against {NODES:,}: {figure}",
        large[figure] / small[figure],
        AtMost(1.15) if figure == "event" else LINEAR,
        detail,
    )

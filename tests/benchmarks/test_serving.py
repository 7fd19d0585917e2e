"""How long kube-scheduler waits for answers about 5,000 nodes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from statistics import quantiles

import pytest

from tests.benchmarks.results import Record
from tests.support import builders

ROOT = Path(__file__).parents[2]
NODES = 5_000
LIBRARY = ROOT / "policies" / "library"
SCORES = """
cluster policy packed {
  score "pack cpu" weight 40 { value node.usage["cpu"] range 0 .. 1 }
  score "zone" weight 20 { value node.zone == "b" missing 0 }
}
"""

pytestmark = pytest.mark.bench


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the address of a Placet that serves the library over the nodes, two pods on each."""
    folder = tmp_path_factory.mktemp("bench")
    nodes = [builders.node(f"node-{i}", zone="abc"[i % 3]) for i in range(NODES)]
    pods = [
        builders.pod(f"pod-{i}", cpu="1", memory="2Gi", on=f"node-{i // 2}")
        for i in range(2 * NODES)
    ]
    (folder / "cluster.json").write_bytes(builders.raw(builders.kubectl_list([*nodes, *pods])))
    (folder / "scores.policy").write_text(SCORES)
    command = [sys.executable, "-m", "cli", "serve", "--listen=127.0.0.1:0"]
    command += ["--cluster", str(folder / "cluster.json"), "--policies", str(LIBRARY)]
    command += [str(folder / "scores.policy")]
    with (
        (folder / "log").open("w+") as log,
        subprocess.Popen(command, cwd=ROOT, stderr=log) as server,
    ):
        try:
            yield _address(folder / "log", server)
        finally:
            server.terminate()


def _address(log: Path, server: subprocess.Popen[bytes]) -> str:
    for _ in range(600):
        if found := re.search(r"listening on (\S+)", log.read_text()):
            return found[1]
        if server.poll() is not None:
            break
        time.sleep(0.1)
    pytest.fail(log.read_text())


@pytest.mark.parametrize("verb", ["filter", "prioritize"])
def test_verb(verb: str, url: str, record: Record) -> None:
    """Over HTTP, names in the request, one caller."""
    pod = builders.pod("web-1", cpu="500m", memory="1Gi")
    body = json.dumps({"Pod": pod, "NodeNames": [f"node-{i}" for i in range(NODES)]}).encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{url}/{verb}", body, headers)  # noqa: S310 - it is ours

    seconds = []
    for _ in range(101):
        started = time.perf_counter()
        with urllib.request.urlopen(request) as answer:  # noqa: S310 - it is ours
            answer.read()
        seconds.append(time.perf_counter() - started)
    half, *_, most = quantiles(seconds[1:], n=100)[49:]  # the first one pays for what is kept
    detail = f"ms over HTTP, median of 100; p99 {most * 1000:.3g}"
    record(f"{verb} {NODES:,} nodes", half * 1000, None, detail)

"""Rules that read many pods, in clusters of the largest sizes: how long until there is an answer.

kube-scheduler calls again after a call without a decision, and so does this. What takes longer than
five seconds from its first call on must be one of the rules that compare each pod with each other.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.benchmarks.live import PREFIX, flags_for, large_cluster
from tests.benchmarks.offers import KeepAlive, Offers, keep_alive
from tests.benchmarks.results import AtMost, Record
from tests.e2e.manifests import large_pod
from tests.e2e.placet import Placet, placet
from tests.e2e.process import until

pytestmark = pytest.mark.bench

# Nodes, pods, and how many nodes kube-scheduler offers.
SIZES = {"large": (5_000, 150_000, 5_000), "largest": (65_000, 500_000, 3_250)}
SYNCED, RELOADED, LONGEST = 600.0, 60.0, 90.0
IN_TIME = AtMost(5)

_APP = 'peer.labels["app"] == pod.labels["app"]'
_NAMESPACE = "peer.namespace == pod.metadata.namespace"
RULES = {
    "a strict share of one namespace": (
        f'share "s" {{ all pods where {_NAMESPACE} on nodes where node.labels["pool"] == "web"'
        " at most 40% strict }"
    ),
    "a strict share of one app": (
        f'share "s" {{ all pods where {_APP} on nodes where node.labels["pool"] == "web"'
        " at most 40% strict }"
    ),
    "a limit per node": f'limit "l" {{ pods where {_APP} per node at most 2 strict }}',
    "a limit per zone": (f'limit "l" {{ pods where {_APP} per zone at most 900 strict }}'),
    "a limit by owner kind and namespace": (
        f'limit "l" {{ pods where peer.workload.kind == pod.workload.kind && {_NAMESPACE}'
        " per node at most 40 strict }"
    ),
    "a spread over zones": (
        f'spread "s" {{ pods where {_APP} over node.zone skew at most 900 strict }}'
    ),
    "a mutual limit over the other apps of the namespace": (
        f'limit "l" {{ pods where {_NAMESPACE} && peer.labels["app"] != pod.labels["app"]'
        " per node at most 40 strict mutual }"
    ),
    "a mutual limit over all apps": (
        f'limit "l" {{ pods where {_APP} per node at most 2 strict mutual }}'
    ),
    "a limit that reads names of pods": (
        'limit "l" { pods where peer.name.startsWith(pod.labels["app"]) per node at most 2 strict }'
    ),
    "a mutual limit that reads names of pods": (
        'limit "l" { pods where peer.name.startsWith(pod.labels["app"]) && peer.name != pod.name'
        " per node at most 2 strict mutual }"
    ),
    "a join of namespace and app over a node's pods": (
        'filter "f" { require !node.pods.exists(p, p.namespace + "/" + p.labels["app"]'
        ' == pod.metadata.namespace + "/" + pod.labels["app"]) }'
    ),
    "a join of namespace labels and workload over a node's pods": (
        'filter "f" { require !node.pods.exists(p, p.namespaceLabels == namespaceObject.labels'
        " && p.workload.kind == pod.workload.kind && p.workload.name == pod.workload.name) }"
    ),
}
# Those that compare each pod with each other: nobody waits for them, and they become `Expensive`.
OF_PAIRS = (
    "a mutual limit over the other apps of the namespace",
    "a mutual limit that reads names of pods",
)


def _policy(number: int) -> str:
    """A policy that selects all pods of the cluster."""
    return f"cluster policy p{number} {{\n  {list(RULES.values())[number]}\n}}\n"


class _Served:
    """A server with one rule at a time, and a connection to it."""

    def __init__(self, server: Placet, connection: KeepAlive, policies: Path) -> None:
        self._server = server
        self._policies = policies
        self.connection = connection

    def have(self, number: int) -> None:
        """Return once only the rule of this number is in force."""
        self._policies.write_text(_policy(number))
        wanted = {f"p{number}"}
        until(lambda: self._server.policies() == wanted, RELOADED, self._server.process.tail)


@contextmanager
def _served(folder: Path, nodes: int, pods: int) -> Iterator[_Served]:
    policies = folder / "p.policy"
    policies.write_text("cluster policy none { }\n")
    with (
        large_cluster(nodes, pods) as url,
        placet(folder, policies, *flags_for(folder, url)) as server,
    ):
        server.process.wait_ready(server.is_ready, SYNCED)
        with keep_alive(server.port, PREFIX) as connection:
            yield _Served(server, connection, policies)


@pytest.mark.parametrize("size", SIZES)
def test_first_answers(size: str, tmp_path: Path, record: Record) -> None:
    """The first pod that a rule selects, right after a start."""
    nodes, pods, offered = SIZES[size]
    names = [f"n{number * (nodes // offered)}" for number in range(offered)]
    with _served(tmp_path, nodes, pods) as served:
        for number, name in enumerate(RULES):
            served.have(number)
            pod = large_pod(f"asked-{number}", f"team-{number}", {"app": f"web-{number:x}"})
            pod["metadata"] |= {"uid": f"{number:036x}"}
            pod["status"] = {"phase": "Pending"}
            body = Offers([], names).body(json.dumps(pod).encode(), names)
            seconds, calls, error = _until_answered(served.connection, body)
            detail = f"s, {calls} calls, {nodes:,} nodes, {pods:,} pods"
            if error:
                detail += f"; no answer: {error[:120]}"
            target = None if name in OF_PAIRS else IN_TIME
            record(f"{name}, first answer", seconds, target, detail)


def _until_answered(connection: KeepAlive, body: bytes) -> tuple[float, int, str]:
    """The seconds and the calls until a decision, and the error if there was none."""
    began = time.perf_counter()
    for calls in range(1, 10_000):
        answer = json.loads(connection.post("filter", body).body)
        seconds = time.perf_counter() - began
        if not answer.get("Error") or seconds > LONGEST:
            return seconds, calls, answer.get("Error", "")
        time.sleep(0.05)
    raise AssertionError("calls without end")

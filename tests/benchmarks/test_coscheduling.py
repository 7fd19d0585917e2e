"""Gangs beside scheduler-plugins' coscheduling: the same groups, one after the other in one run.

`COSCHEDULING` names a kube-scheduler with that plugin. Its module is not among the programs of
`make kube`; without it the test is skipped.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.results import Record
from tests.benchmarks.test_gangs import GROUPS, NODES, emptied, plane
from tests.e2e.api import Api, watched_bindings
from tests.e2e.cluster import Cluster
from tests.e2e.control_plane import ControlPlane
from tests.e2e.gangs import COSCHEDULING_GROUPS, SIZE, by_group, gang_server
from tests.e2e.kube_scheduler import started_kube_scheduler
from tests.e2e.manifests import node, pod
from tests.e2e.test_pod_groups import COSCHEDULING, LABEL

__all__ = ["plane"]

PROGRAM = os.environ.get("COSCHEDULING", "")
ROUNDS, SECONDS = 2, 30.0
POLICY = 'cluster policy groups { gang "group" { for at most 10s } }'
PLUGIN = {
    "profiles": [
        {
            "schedulerName": "default-scheduler",
            "plugins": {
                "multiPoint": {"enabled": [{"name": "Coscheduling"}]},
                "queueSort": {"enabled": [{"name": "Coscheduling"}], "disabled": [{"name": "*"}]},
            },
            "pluginConfig": [{"name": "Coscheduling", "args": {"permitWaitingTimeSeconds": 10}}],
        }
    ]
}
EVERYTHING = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRoleBinding",
    "metadata": {"name": "coscheduling"},
    "roleRef": {
        "apiGroup": "rbac.authorization.k8s.io",
        "kind": "ClusterRole",
        "name": "cluster-admin",
    },
    "subjects": [{"kind": "User", "name": "system:kube-scheduler"}],
}

pytestmark = [
    pytest.mark.bench,
    pytest.mark.skipif(not PROGRAM, reason="COSCHEDULING names no kube-scheduler with the plugin"),
]


@dataclass(frozen=True, slots=True)
class Outcome:
    """When so many pods were bound, None if never; the sizes of groups, and how many in part."""

    seconds: float | None
    whole: int
    part: int


@contextmanager
def scheduler(plane: ControlPlane, folder: Path, *, plugin: bool) -> Iterator[None]:
    """A kube-scheduler with the plugin, or one beside Placet."""
    with ExitStack() as programs:
        if not plugin:
            programs.enter_context(gang_server(plane, folder, POLICY))
            yield
            return
        (folder / "bin").mkdir()
        (folder / "bin" / "kube-scheduler").symlink_to(PROGRAM)
        other = replace(plane, programs=folder / "bin")
        started = programs.enter_context(started_kube_scheduler(other, folder, [], PLUGIN))
        started.wait_ready()
        yield


def create(plane: ControlPlane, cluster: Cluster, name: str, size: int) -> list[dict[str, Any]]:
    """A PodGroup; returns its pods, which are not created yet."""
    path = f"/apis/{COSCHEDULING}/v1alpha1/namespaces/{cluster.namespace}/podgroups"
    group = {
        "apiVersion": f"{COSCHEDULING}/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": cluster.namespace},
        "spec": {"minMember": size, "scheduleTimeoutSeconds": 10},
    }
    Api(plane).request("POST", path, group)
    made = (f"{name}-{number}" for number in range(size))
    return [pod(each, cluster.namespace, {LABEL: name}, cpu="1") for each in made]


def played(
    plane: ControlPlane, cluster: Cluster, pods: list[dict[str, Any]], size: int, wanted: int
) -> Outcome:
    """Creates the pods, and waits until so many are bound."""
    moments: list[float] = []

    def event(line: bytes) -> None:
        if line.startswith(b'{"type":"ADDED"'):
            moments.append(time.monotonic())

    with watched_bindings(plane, cluster.namespace, event):
        began = time.monotonic()
        cluster.create_pods(pods)
        while len(moments) < wanted and time.monotonic() < began + SECONDS:
            time.sleep(0.05)
        time.sleep(2)
        groups: Mapping[str, Any] = by_group(cluster.placements())
    sizes = [each.total() for each in groups.values()]
    seconds = moments[wanted - 1] - began if len(moments) >= wanted else None
    return Outcome(seconds, sizes.count(size), sum(0 < each < size for each in sizes))


def shown(found: list[Outcome]) -> str:
    return "; ".join(
        f"{'never' if each.seconds is None else f'{each.seconds:.1f} s'},"
        f" {each.whole} whole, {each.part} in part"
        for each in found
    )


def test_beside_coscheduling(plane: ControlPlane, tmp_path: Path, record: Record) -> None:
    cluster = Cluster(plane, "coscheduling")
    cluster.apply(COSCHEDULING_GROUPS, EVERYTHING)
    cluster.kubectl("wait", "--for=condition=Established", f"crd/podgroups.{COSCHEDULING}")
    many: dict[bool, list[Outcome]] = {False: [], True: []}
    two: dict[bool, list[Outcome]] = {False: [], True: []}
    for number in range(ROUNDS):
        for plugin in sorted((False, True), reverse=bool(number % 2)):
            folder = tmp_path / f"{number}-{plugin}"
            folder.mkdir()
            with scheduler(plane, folder, plugin=plugin):
                cluster.create_nodes(node(f"n{each}") for each in range(NODES))
                of = [
                    create(plane, cluster, f"g{number}{plugin}x{each}".lower(), SIZE)
                    for each in range(GROUPS)
                ]
                pods = [each for members in of for each in members]
                many[plugin].append(played(plane, cluster, pods, SIZE, NODES * SIZE))
                emptied(cluster)
                for each in range(NODES):
                    cluster.delete_node(f"n{each}")
                cluster.create_nodes(node(f"small{each}", cpu="5") for each in range(2))
                pair = [
                    create(plane, cluster, f"{name}{number}{plugin}".lower(), 6) for name in "ab"
                ]
                mixed = [each for turn in zip(*pair, strict=True) for each in turn]
                two[plugin].append(played(plane, cluster, mixed, 6, 6))
                emptied(cluster)
                for each in range(2):
                    cluster.delete_node(f"small{each}")
    cluster.clear()
    for what, found in (
        (f"{NODES * SIZE} pods bound, of {GROUPS} groups of {SIZE} anywhere", many),
        ("one of two groups of 6 whole on 10 places", two),
    ):
        slowest = [max(o.seconds or SECONDS for o in found[plugin]) for plugin in (False, True)]
        text = f"Placet: {shown(found[False])}. coscheduling: {shown(found[True])}"
        record(f"{what}: Placet / coscheduling, longest time", slowest[0] / slowest[1], None, text)
        assert all(each.part == 0 for each in found[False])

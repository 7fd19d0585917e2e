"""Gangs on a real kube-scheduler: what whole groups cost, and what others lose beside them."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from tests.benchmarks.results import AtLeast, AtMost, Record
from tests.benchmarks.test_throughput import own_plane
from tests.e2e.api import watched_bindings
from tests.e2e.cluster import Cluster
from tests.e2e.control_plane import ControlPlane
from tests.e2e.gangs import SIZE, GangServer, by_group, gang_server, group, hold
from tests.e2e.manifests import node, pod
from tests.e2e.process import until

NODES, GROUPS = 30, 50
ROUNDS = 6
SECONDS = 120.0

pytestmark = pytest.mark.bench


@pytest.fixture(scope="module")
def plane(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    """Return a control plane of the benchmark's own."""
    with own_plane(pytestconfig, tmp_path_factory) as made:
        yield made


@pytest.fixture(scope="module")
def gangs(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GangServer]:
    """One Placet and one kube-scheduler."""
    with gang_server(plane, tmp_path_factory.mktemp("gangs")) as running:
        yield running


class Moments:
    """When each pod was first seen on a node."""

    def __init__(self) -> None:
        self.of: dict[str, float] = {}

    def event(self, line: bytes) -> None:
        if line.startswith(b'{"type":"ADDED"'):
            found = re.search(rb'"name":"([^"]+)"', line)
            assert found is not None
            self.of[found[1].decode()] = time.monotonic()


def seconds_until(
    plane: ControlPlane, cluster: Cluster, pods: Iterable[dict[str, Any]], bound: int
) -> float:
    """How long it takes from the first creation until so many are bound."""
    made = list(pods)
    seen = Moments()
    with watched_bindings(plane, cluster.namespace, seen.event):
        began = time.monotonic()
        cluster.create_pods(made)
        until(lambda: len(seen.of) >= bound, SECONDS, lambda: f"{len(seen.of)} bound", 0.01)
    return sorted(seen.of.values())[bound - 1] - began


def emptied(cluster: Cluster) -> None:
    cluster.delete_pods()
    # What kube-scheduler and Placet have of them goes, too.
    time.sleep(1)


def test_whole_groups(plane: ControlPlane, gangs: GangServer, record: Record) -> None:
    """50 groups of 8, each under one node, and room for 30, against 240 single pods."""
    cluster = Cluster(plane, "whole")
    cluster.create_nodes(node(f"n{number}") for number in range(NODES))
    rounds, held = [], {"given_up": 0.0, "released": 0.0}
    for number in range(ROUNDS):
        seconds = {}
        for together in sorted((False, True), reverse=bool(number % 2)):
            pods = whole(cluster) if together else singles(cluster, NODES * SIZE, "1")
            before = {state: gangs.held_seconds(state=state) for state in held}
            seconds[together] = seconds_until(plane, cluster, pods, NODES * SIZE)
            time.sleep(2)
            for state in held:
                held[state] += gangs.held_seconds(state=state) - before[state]
            if together:
                placed = by_group(cluster.placements())
                assert sorted(sum(each.values()) for each in placed.values()) == [SIZE] * NODES
                assert all(len(each) == 1 for each in placed.values())
            emptied(cluster)
        rounds.append(seconds)
    cluster.clear()
    times = "; ".join(f"{each[True]:.2f} and {each[False]:.2f} s" for each in rounds)
    ratios = [each[True] / each[False] for each in rounds]
    what = "240 pods bound, of 50 groups of 8 with room for 30 / single pods"
    record(what, median(ratios), AtMost(1.5), f"median of {ROUNDS} pairs: {times}")
    what = "held pod-seconds of gangs that were given up / of all"
    lost, every = held["given_up"], sum(held.values())
    record(what, lost / every, AtMost(0.01), f"{lost:.1f} of {every:.1f} s")


def singles(cluster: Cluster, count: int, cpu: str) -> Iterator[dict[str, Any]]:
    """Pods of no gang."""
    return (pod(f"s-{number}", cluster.namespace, cpu=cpu) for number in range(count))


def whole(cluster: Cluster) -> Iterator[dict[str, Any]]:
    """All members of the groups, each of which takes a node."""
    for number in range(GROUPS):
        yield from group(cluster, f"g{number}", kind="in-node")


def processor_seconds(gangs: GangServer) -> float:
    """The processor time of Placet and kube-scheduler since their start."""
    ticks = 0
    for process in (gangs.server.process, gangs.scheduler):
        values = Path(f"/proc/{process.child.pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(values[11]) + int(values[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def filtered(gangs: GangServer) -> int:
    """How often Placet has answered filter."""
    return int(gangs.value("placet_request_duration_seconds_count", verb="filter"))


def test_others_beside_a_waiting_gang(
    plane: ControlPlane, gangs: GangServer, record: Record
) -> None:
    """300 other pods with a held gang and one of which 30 of 31 members fit, and without."""
    cluster = Cluster(plane, "beside")
    cluster.create_nodes(node(f"n{number}", cpu="32") for number in range(NODES))
    count, rounds, calls = 300, [], []
    for number in range(2 * ROUNDS):
        rates, spent = {}, {}
        for with_gang in sorted((False, True), reverse=bool(number % 2)):
            if with_gang:
                cluster.create_pods(group(cluster, f"large-{number}", NODES + 1, cpu="30"))
                hold(cluster, gangs, f"held-{number}")
                time.sleep(2)
            before, asked = processor_seconds(gangs), filtered(gangs)
            pods = singles(cluster, count, "10m")
            rates[with_gang] = count / seconds_until(plane, cluster, pods, count)
            spent[with_gang] = processor_seconds(gangs) - before
            if with_gang:
                calls.append(filtered(gangs) - asked - count)
            emptied(cluster)
        rounds.append((rates, spent))
    cluster.clear()
    for what, index, target in (
        ("throughput of other pods, beside a waiting gang / without", 0, AtLeast(0.95)),
        ("processor time of Placet and kube-scheduler for them, likewise", 1, None),
    ):
        pairs = [each[index] for each in rounds]
        text = "; ".join(f"{each[True]:.3g} and {each[False]:.3g}" for each in pairs)
        ratio = median(each[True] / each[False] for each in pairs)
        record(what, ratio, target, f"median of {len(pairs)} pairs: {text}")
    # kube-scheduler asks about each of the members that wait when its backoff is over.
    record("calls of filter about waiting members, meanwhile", median(calls), None, f"{calls}")


# What others are beside, with the kind of the pods.
BESIDE = {"nothing": "", "a filter": "never", "gangs": "in-node"}


def test_a_tenant_with_gangs_that_can_never_fit(
    plane: ControlPlane, gangs: GangServer, record: Record
) -> None:
    """Others beside 500 gangs of two pods that fit alone, but never one node together.

    kube-scheduler retries pods that an extender has rejected after each binding, whatever the
    reason: so others come as late beside as many pods that a filter rejects.
    """
    cluster, tenant = Cluster(plane, "others"), Cluster(plane, "tenant")
    cluster.create_nodes(node(f"n{number}", cpu="8") for number in range(NODES))
    found: dict[str, list[float]] = {what: [] for what in BESIDE}
    spent: dict[str, list[float]] = {what: [] for what in BESIDE}
    for what in [*BESIDE, *reversed(BESIDE)]:
        if kind := BESIDE[what]:
            tenant.create_pods(m for n in range(500) for m in group(tenant, f"g{n}", 2, kind, "5"))
            time.sleep(30)
        seen, created = Moments(), {}
        before, began = processor_seconds(gangs), time.monotonic()
        with watched_bindings(plane, cluster.namespace, seen.event):
            for number in range(60):
                name = f"s-{len(found[what])}-{number}"
                created[name] = time.monotonic()
                cluster.create_pods([pod(name, cluster.namespace, cpu="10m")])
                time.sleep(0.2)
            used = processor_seconds(gangs) - before
            spent[what].append(used / (time.monotonic() - began))
            cluster.wait_placed(list(created), SECONDS)
            time.sleep(1)
        found[what] += (seen.of[name] - at for name, at in created.items())
        assert gangs.held() == 0
        emptied(cluster)
        emptied(tenant)
    tenant.clear()
    texts = "; ".join(
        f"{what}: median {1000 * median(each):.0f} ms, a tenth longer than"
        f" {1000 * sorted(each)[-len(each) // 10]:.0f} ms,"
        f" {' and '.join(f'{used:.2f}' for used in spent[what])} s of processor time a second"
        for what, each in found.items()
    )
    more = median(found["gangs"]) - median(found["a filter"])
    what = (
        "seconds later, beside 500 gangs that never fit / 1,000 pods that a filter rejects: median"
    )
    record(what, more, AtMost(0.25), texts)

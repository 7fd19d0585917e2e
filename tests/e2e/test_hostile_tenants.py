"""Tenants that may edit two namespaces do all they can; the pods of another one are placed.

It runs for as many minutes as MINUTES says. The memory is that of the server with its processes,
and a memory that two of them share counts once. Beside the time until a pod is placed stands what
Placet's answers took of it, and what the API server takes for a request without Placet: on a
machine that the attacks keep busy, the rest is that of other programs.
"""

import json
import multiprocessing
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.e2e.api import Api
from tests.e2e.cluster import Cluster
from tests.e2e.control_plane import ControlPlane
from tests.e2e.manifests import namespace, node, pod, priority_class
from tests.e2e.placet import Placet
from tests.e2e.policies import API_VERSION, define
from tests.e2e.stage import Stage
from tests.support.attacker import hostile_policies

pytestmark = pytest.mark.e2e

TENANTS = ("aa-hostile", "zz-hostile")
MINUTES = float(os.environ.get("MINUTES") or 2)
MEMORY_BYTES, PLACED_SECONDS, RECOVERED_SECONDS = 512 << 20, 2.0, 30.0
# What an attack may send. The API server keeps all that it got in the last minutes: with ten times
# as much of each it has no memory left, and what is measured is its end.
BYTES_A_SECOND = 200_000
LIMIT = """  limit "few" {
    pods where peer.labels["app"] == "web"
    per node at most 40 strict
  }"""
Attack = Callable[[str, Random, int], Iterator[tuple[str, dict[str, Any]]]]


def policy(tenant: str, name: str, rules: str) -> tuple[str, dict[str, Any]]:
    spec = {"podSelector": {"matchLabels": {"hostile": "yes"}}, "rules": rules}
    made = {"apiVersion": API_VERSION, "kind": "PlacementPolicy", "metadata": {"name": name}}
    path = f"/apis/{API_VERSION}/namespaces/{tenant}/placementpolicies"
    return path, {**made, "spec": spec}


def large(tenant: str, _random: Random, number: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Policies of a megabyte."""
    path, made = policy(tenant, f"large-{number % 150}", 'filter "f" { require node.ready }')
    made["spec"]["parameters"] = {f"p{n}": f"{number}" + "x" * 32_000 for n in range(32)}
    made["metadata"]["annotations"] = {"a": "y" * 200_000}
    yield path, made


def costly(tenant: str, random: Random, number: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Policies that cost what they can."""
    [each] = hostile_policies(random.randrange(1 << 30), 1)
    yield policy(tenant, f"costly-{number % 20}", each.rules)


def wrong(tenant: str, random: Random, number: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Policies of mistakes alone."""
    lines = [f'do not put {random.random()} on "x{n}" if node.lables.a == b' for n in range(200)]
    yield policy(tenant, f"wrong-{number % 20}", "\n".join(lines))


def tables(tenant: str, random: Random, number: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """ConfigMaps of a megabyte, and policies that read them and others that are not there."""
    name = f"rows-{number % 20}"
    rows = "".join(f"n{n},{random.randrange(10**9)}\n" for n in range(60_000))
    made = {"metadata": {"name": name}, "data": {"rows.csv": f"node,v\n{rows}"}}
    yield f"/api/v1/namespaces/{tenant}/configmaps", made
    for source in (name, f"none-{number % 100}"):
        rules = f"""data "t" {{
            from configmap "{source}" file "rows.csv" by "node" columns {{ v: int }} }}
          filter "f" {{ require data.t[node.name].v < 5 missing pass }}"""
        yield policy(tenant, f"reads-{source}", rules)


def groups(tenant: str, _random: Random, number: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Pods of ever new gangs, with all the annotations that a pod can have."""
    rules = 'gang "g" { of pods by peer.labels["g"] at least 3 within node.zone for at most 60s }'
    yield policy(tenant, "gang", rules)
    for each in range(5):
        labels = {"hostile": "yes", "g": f"g{number}", "app": "web"}
        made = pod(f"g-{number % 20}-{each}", tenant, labels, cpu="1m")
        made["metadata"]["annotations"] = {f"a{n}": "x" * 20_000 for n in range(10)}
        yield f"/api/v1/namespaces/{tenant}/pods", made


ATTACKS: Sequence[Attack] = (large, costly, wrong, tables, groups)


def attack(api: Api, tenant: str, over: Any, made: Any) -> None:
    """All attacks in one namespace until they are `over`; counts in `made` what each has made."""
    parent = os.getppid()

    def run(place: int) -> None:
        random = Random(f"{place} of {tenant}")
        for number in count():
            for path, each in ATTACKS[place](tenant, random, number):
                is_over = over.wait(max(0.2, len(json.dumps(each)) / BYTES_A_SECOND))
                if is_over or os.getppid() != parent:
                    return
                # Names are used again, and what is refused is as good.
                with suppress(Exception):
                    api.request("DELETE", f"{path}/{each['metadata']['name']}")
                with suppress(Exception):
                    api.request("POST", path, each)
                    made[place] += 1

    threads = [threading.Thread(target=run, args=(place,)) for place in range(len(ATTACKS))]
    for each in threads:
        each.start()
    for each in threads:
        each.join()


@contextmanager
def attacked(plane: ControlPlane) -> Iterator[Callable[[], dict[str, int]]]:
    """Attacks in both namespaces, each from a process of its own; yields what they have made."""
    processes = multiprocessing.get_context("spawn")
    over, made = processes.Event(), processes.Array("i", len(ATTACKS), lock=False)
    # Whoever measures must not wait for those who write megabytes.
    started = [
        processes.Process(target=attack, args=(Api(plane), tenant, over, made), daemon=True)
        for tenant in TENANTS
    ]
    for each in started:
        each.start()
    try:
        yield lambda: {each.__name__: made[place] for place, each in enumerate(ATTACKS)}
    finally:
        over.set()
        for each in started:
            each.join()


def memory(server: Placet) -> int:
    """The bytes that the processes of the server hold; what two share counts half for each."""
    group, found = server.process.child.pid, 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError):
            if int(stat.read_text().rpartition(")")[2].split()[2]) == group:
                held = stat.with_name("smaps_rollup").read_text()
                found += int(held.partition("\nPss:")[2].split()[0]) << 10
    return found


def test_the_pods_of_another_tenant_are_placed_in_time(
    plane: ControlPlane, cluster: Cluster, served: Stage
) -> None:
    """It is first in the queue of kube-scheduler, where those of the others would be before it."""
    api = Api(plane)
    define(cluster)
    cluster.create_nodes(node(f"n{n}", {"topology.kubernetes.io/zone": "a"}) for n in range(50))
    first = f"first-{secrets.token_hex(3)}"
    api.create("/apis/scheduling.k8s.io/v1/priorityclasses", [priority_class(first, 1000)])
    api.create("/api/v1/namespaces", [namespace(each) for each in TENANTS])
    server = served.watch(LIMIT, None, "--bind")
    server.wait_ready()
    server.wait_leading()
    calls = served.schedule(server, binds=True)
    most, placed, answered, asked = 0, list[float](), list[float](), list[float]()
    end = time.monotonic() + MINUTES * 60
    try:
        with attacked(plane) as made:
            for number in count():
                if time.monotonic() > end:
                    break
                name = f"web-{number}"
                began = time.monotonic()
                api.request("GET", f"/api/v1/namespaces/{cluster.namespace}")
                asked.append(time.monotonic() - began)
                more = {"priorityClassName": first}
                cluster.create_pods(
                    [pod(name, cluster.namespace, {"app": "web"}, cpu="1m", **more)]
                )
                cluster.wait_placed([name], RECOVERED_SECONDS)
                placed.append(time.monotonic() - began)
                verbs = ("filter", "prioritize", "bind")
                answered.append(sum(each.took for v in verbs for each in calls.calls(v, name)))
                most = max(most, memory(server))
                cluster.delete_pod(name)
                time.sleep(1.0)
            attacks = made()
    finally:
        cluster.kubectl("delete", "namespace", *TENANTS, "--wait=false")
    said = f"{len(placed)} pods, at most {most >> 20} MiB"
    for what, took in {"placed": placed, "answers": answered, "API server": asked}.items():
        said += f"; {what} p50 {sorted(took)[len(took) // 2]:.2f} s, longest {max(took):.2f} s"
    print(said, attacks, sep="; ")  # noqa: T201 - `make hostile` shows it
    assert most < MEMORY_BYTES
    assert server.process.child.poll() is None
    assert max(answered) < PLACED_SECONDS, sorted(answered)[-5:]

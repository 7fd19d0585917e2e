"""Tenants that may edit two namespaces do all they can; the pods of another one are placed.

It runs for as many minutes as MINUTES says. The memory is that of the server with its processes.
"""

import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
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
            from configmap "{source}" key "rows.csv" by "node" columns {{ v: int }} }}
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


ATTACKS: tuple[Attack, ...] = (large, costly, wrong, tables, groups)


class Tenant:
    """A thread that attacks in one way, in one namespace, until it is over."""

    def __init__(self, api: Api, tenant: str, attack: Attack, over: threading.Event) -> None:
        self.made = 0
        self._api, self._over = api, over
        self._tenant, self._attack = tenant, attack
        self.name = f"{attack.__name__} of {tenant}"
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        random = Random(self.name)
        for number in count():
            for path, made in self._attack(self._tenant, random, number):
                if self._over.wait(0.2):
                    return
                # Names are used again, and what is refused is as good.
                with suppress(Exception):
                    self._api.request("DELETE", f"{path}/{made['metadata']['name']}")
                with suppress(Exception):
                    self._api.request("POST", path, made)
                    self.made += 1


def memory(server: Placet) -> int:
    """The bytes that the processes of the server hold."""
    group, found = server.process.child.pid, 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError):
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[2]) == group:
                found += int(fields[21]) * os.sysconf("SC_PAGE_SIZE")
    return found


def test_the_pods_of_another_tenant_are_placed_in_time(
    plane: ControlPlane, cluster: Cluster, served: Stage
) -> None:
    """It is first in the queue of kube-scheduler, where those of the others would be before it."""
    api, over = Api(plane), threading.Event()
    define(cluster)
    cluster.create_nodes(node(f"n{n}", {"topology.kubernetes.io/zone": "a"}) for n in range(50))
    first = f"first-{secrets.token_hex(3)}"
    api.create("/apis/scheduling.k8s.io/v1/priorityclasses", [priority_class(first, 1000)])
    api.create("/api/v1/namespaces", [namespace(each) for each in TENANTS])
    server = served.watch(LIMIT, None, "--bind")
    server.wait_ready()
    server.wait_leading()
    served.schedule(server, binds=True)
    tenants = [Tenant(api, tenant, each, over) for tenant in TENANTS for each in ATTACKS]
    most, took, end = 0, [], time.monotonic() + MINUTES * 60
    try:
        for number in count():
            if time.monotonic() > end:
                break
            name = f"web-{number}"
            began = time.monotonic()
            more = {"priorityClassName": first}
            cluster.create_pods([pod(name, cluster.namespace, {"app": "web"}, cpu="1m", **more)])
            cluster.wait_placed([name], RECOVERED_SECONDS)
            took.append(time.monotonic() - began)
            most = max(most, memory(server))
            cluster.delete_pod(name)
            time.sleep(1.0)
    finally:
        over.set()
        for each in tenants:
            each.thread.join()
        cluster.kubectl("delete", "namespace", *TENANTS, "--wait=false")
    slow = sorted(took)
    made = {each.name: each.made for each in tenants}
    half, last = slow[len(slow) // 2], slow[-1]
    said = f"{len(took)} pods, p50 {half:.2f} s, longest {last:.2f} s, at most {most >> 20} MiB"
    print(said, made, sep="; ")  # noqa: T201 - `make hostile` shows it
    assert most < MEMORY_BYTES
    assert server.process.child.poll() is None
    assert slow[-1] < PLACED_SECONDS, slow[-5:]

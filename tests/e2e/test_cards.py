"""Cards on a real control plane: halves of cards in a burst, with a leader and answers lost."""

import json
import os
import random
import signal
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.api import watched_bindings
from tests.e2e.cluster import Cluster
from tests.e2e.control_plane import ControlPlane
from tests.e2e.kube_scheduler import extender, kube_scheduler
from tests.e2e.kubelets import Volume
from tests.e2e.manifests import node, pod
from tests.e2e.placet import Replicas
from tests.e2e.process import kubeconfig, until
from tests.e2e.stage import GOVERNED, Stage
from tests.e2e.test_gate import applied
from tests.support.api_proxy import api_proxy
from tests.support.fake_api_server import Request
from tests.support.tcp_switch import tcp_switch

pytestmark = pytest.mark.e2e

INDEX = "example.com/gpu-index"
TAKEN = "placet.dev/cards"
NODES, CARDS = 25, 4
PODS = 2 * NODES * CARDS
LOST = 0.05
RUNS = int(os.environ.get("RUNS") or 3)
POLICY = f"""
policy gpu {{
  for pods where "milli" in pod.annotations
  cards "gpu" {{
    on node int(node.labels["gpu-count"]) of {{"milli": 1000}}
    take {{"milli": int(pod.annotations["milli"])}}
    index "{INDEX}"
    pick least card.free["milli"]
    message "no card has room"
  }}
}}
"""


def gpu_pod(name: str, where: str, milli: int = 500) -> dict[str, Any]:
    made = pod(name, where, cpu="10m")
    made["metadata"]["annotations"] = {"milli": str(milli)}
    return made


@dataclass
class Taken:
    """What pods take of each card, change by change, in the order of resource versions."""

    cards: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    without: set[str] = field(default_factory=set)
    worst: int = 0

    def event(self, line: bytes) -> None:
        change = json.loads(line)
        if change["type"] not in ("ADDED", "MODIFIED", "DELETED"):
            return
        found, name = change["object"], change["object"]["metadata"]["name"]
        self.cards.pop(name, None)
        if change["type"] == "DELETED":
            return
        annotations = found["metadata"].get("annotations", {})
        if INDEX not in annotations:
            self.without.add(name)
        its = json.loads(annotations.get(TAKEN, "{}"))
        self.cards[name] = [
            (f"{found['spec']['nodeName']}/{index}", each["take"]["milli"])
            for each in its.values()
            for index in each["cards"]
        ]
        sums: Counter[str] = Counter()
        for taken in self.cards.values():
            for card, milli in taken:
                sums[card] += milli
        self.worst = max(self.worst, *sums.values())


@pytest.mark.parametrize("run", range(RUNS))
def test_no_card_is_above_its_capacity(
    plane: ControlPlane, cluster: Cluster, tmp_path: Path, run: int
) -> None:
    """All cards are full in the end; the leader is killed in the middle, and answers get lost.

    `make chaos CARDS=20` does it more often.
    """
    cluster.create_nodes(node(f"n{number}", {"gpu-count": str(CARDS)}) for number in range(NODES))
    dice = random.Random(run)
    lost: list[str] = []

    def loses(request: Request) -> bool:
        if not request.path.endswith("/binding") or dice.random() >= LOST:
            return False
        lost.append(request.path)
        return True

    taken = Taken()
    with ExitStack() as running:
        authority = tmp_path / "proxy.crt"
        proxy = running.enter_context(api_proxy(plane.url, plane.authority, authority))
        file = tmp_path / "placet.kubeconfig"
        reach = kubeconfig(file, proxy.url, authority, {"token": plane.placet_token})
        replicas = Replicas(plane, tmp_path, running, POLICY, "--bind", kubeconfig=reach)
        proxy.loses.append(loses)
        address = f"http://127.0.0.1:{replicas.switch.port}"
        entry = extender(address, node_cache_capable=True, binds=True)
        running.enter_context(kube_scheduler(plane, tmp_path, [entry]))
        running.enter_context(watched_bindings(plane, cluster.namespace, taken.event))

        began = time.monotonic()
        names = [f"half-{number}" for number in range(PODS)]
        cluster.create_pods(gpu_pod(name, cluster.namespace) for name in names)
        asked = replicas.asked()
        until(
            lambda: len(cluster.placements()) > PODS // 4 + 10 * (run % 8), 60.0, asked.process.tail
        )
        asked.process.child.send_signal(signal.SIGKILL)
        where = cluster.wait_placed(names, 180.0)
        print(f"{PODS} pods in {time.monotonic() - began:.1f} s")  # noqa: T201 - for -rP
        until(lambda: len(taken.cards) == PODS, 20.0, lambda: f"{len(taken.cards)} events")

    assert set(Counter(where.values()).values()) == {2 * CARDS}
    assert taken.worst == 1000
    assert taken.without == set()
    assert len(lost) > 2
    methods = Counter(r.method for r in proxy.requests if "/pods/" in r.path)
    assert methods["PATCH"] == methods["PUT"] == 0
    posts = Counter(r.path for r in proxy.requests if r.path.endswith("/binding"))
    assert len(posts) == PODS


def test_whole_cards_and_what_a_pending_pod_is_told(
    plane: ControlPlane, cluster: Cluster, tmp_path: Path
) -> None:
    """A pod for which the sum would do, but no card: the event says so; a deletion frees a card."""
    cluster.create_nodes([node("n0", {"gpu-count": "2"})])
    with ExitStack() as running:
        replicas = Replicas(plane, tmp_path, running, POLICY, "--bind")
        address = f"http://127.0.0.1:{replicas.switch.port}"
        entry = extender(address, node_cache_capable=True, binds=True)
        running.enter_context(kube_scheduler(plane, tmp_path, [entry]))
        where = cluster.namespace
        cluster.create_pods(gpu_pod(name, where, 600) for name in ("a", "b"))
        cluster.wait_placed(["a", "b"])
        assert {cluster.pod(n)["metadata"]["annotations"][INDEX] for n in ("a", "b")} == {"0", "1"}
        cluster.create_pods([gpu_pod("c", where, 600)])
        assert "no card has room" in cluster.wait_refused("c")["message"]
        freed = cluster.pod("b")["metadata"]["annotations"][INDEX]
        cluster.delete_pod("b")
        cluster.wait_placed(["c"])
        assert cluster.pod("c")["metadata"]["annotations"][INDEX] == freed


def test_nobody_but_a_binding_says_what_a_pod_takes(
    plane: ControlPlane, cluster: Cluster, tmp_path: Path
) -> None:
    """With deploy/admission/cards.yaml: neither at creation nor later."""
    shipped = Path(__file__).parents[2] / "deploy" / "admission" / "cards.yaml"
    refused = "only Placet writes the annotation placet.dev/cards: leave it out"
    where, claim = cluster.namespace, f"{TAKEN}={{}}"
    forged = gpu_pod("forged", where)
    forged["metadata"]["annotations"][TAKEN] = "{}"
    cluster.create_nodes([node("n0", {"gpu-count": "2"})])

    def is_refused() -> bool:
        create = ("create", "--dry-run=server", "-f", "-")
        return refused in cluster.try_kubectl(*create, text=json.dumps(forged)).stderr

    with ExitStack() as running:
        # It takes the API server a moment to know of the policy, and of its end.
        running.callback(until, lambda: not is_refused(), 20.0, lambda: "it is still refused")
        running.enter_context(applied(cluster, shipped))
        until(is_refused, 20.0, lambda: "a forged pod would be created")
        replicas = Replicas(plane, tmp_path, running, POLICY, "--bind")
        address = f"http://127.0.0.1:{replicas.switch.port}"
        entry = extender(address, node_cache_capable=True, binds=True)
        running.enter_context(kube_scheduler(plane, tmp_path, [entry]))
        cluster.create_pods([gpu_pod("a", where)])
        cluster.wait_placed(["a"])
        assert TAKEN in cluster.pod("a")["metadata"]["annotations"]
        for change in (claim, f"{TAKEN}-"):
            done = cluster.try_kubectl("-n", where, "annotate", "--overwrite", "pod", "a", change)
            assert refused in done.stderr
        cluster.kubectl("-n", where, "annotate", "pod", "a", "example.com/note=ours")


# ---- A pod with a claim that kube-scheduler waits for, and a Placet that is restarted meanwhile


LIMIT = '  limit "one" { all pods where true per node at most 1 strict }'
# Pods without claims would count no longer after a restart.
LONGER_THAN_OTHERS_SECONDS = 35.0
SECONDS = 90.0


def test_a_pod_that_waits_for_its_volume_counts_after_a_restart(
    plane: ControlPlane, cluster: Cluster, served: Stage, tmp_path: Path
) -> None:
    """Nobody knows then which node kube-scheduler has for it, so the other pod gets none."""
    cluster.create_nodes([node("n0"), node("n1")])
    volume = Volume(plane, cluster.namespace)
    server = served.watch(LIMIT)
    server.wait_ready()
    with tcp_switch([server.port]) as switch:
        entry = extender(f"http://127.0.0.1:{switch.port}", node_cache_capable=True)
        with kube_scheduler(plane, tmp_path, [entry]):
            volumes = [volume.claimed()]
            cluster.create_pods([pod("claims", cluster.namespace, GOVERNED, volumes=volumes)])
            until(lambda: volume.chosen() is not None, SECONDS, server.process.tail)
            server.process.stop()
            server = served.watch(LIMIT)
            switch.ports = (server.port,)
            server.wait_ready()
            cluster.create_pods([pod("other", cluster.namespace, GOVERNED)])
            end = time.monotonic() + LONGER_THAN_OTHERS_SECONDS
            while time.monotonic() < end:
                assert cluster.placements() == {}, server.process.tail()
                time.sleep(1.0)
            volume.bind()
            placed = cluster.wait_placed(["claims", "other"], SECONDS)
    volume.delete()
    assert placed["claims"] == volume.chosen()
    assert placed["other"] != placed["claims"]

"""Two Placets behind one address, restarted and killed under a stream of pods with a strict share.

Placet binds. At no moment are there more pods on spot nodes than 40 % of those that there are.
"""

import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.control_plane import ControlPlane
from tests.e2e.kube_scheduler import extender, kube_scheduler
from tests.e2e.manifests import node, pod
from tests.e2e.placet import Replicas
from tests.e2e.process import until
from tests.e2e.stage import GOVERNED

pytestmark = pytest.mark.e2e

POLICIES = """
policy share in namespace "{namespace}" {{
  for pods where pod.labels["app"] == "web"
  share "on spot" {{
    pods where peer.labels["app"] == "web"
    on nodes where node.labels["capacity"] == "spot"
    exactly 40%
    strict
  }}
}}
policy plain in namespace "{namespace}" {{
  for pods where pod.labels["app"] == "plain"
  filter "ready" {{ require node.ready }}
}}
"""
PAUSE_SECONDS = 0.2
SECONDS = 90.0


class Stream:
    """Pods that come all the time, of both kinds, and how many were on spot nodes at the most."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._ends = threading.Event()
        self._failure: BaseException | None = None
        self.names: dict[str, list[str]] = {"web": [], "plain": []}
        self.passed: list[tuple[int, int]] = []

    @contextmanager
    def flowing(self) -> Iterator[None]:
        """Create pods while the block runs."""
        threads = [threading.Thread(target=self._guard, args=[each]) for each in self._work()]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._ends.set()
            for thread in threads:
                thread.join()
        if self._failure is not None:
            raise self._failure

    def _work(self) -> list[object]:
        return [self._create, self._look]

    def _guard(self, work: object) -> None:
        assert callable(work)
        try:
            while not self._ends.is_set():
                work()
        except BaseException as error:  # noqa: BLE001 - it is raised where the test is
            self._failure = error

    def _create(self) -> None:
        for app, names in self.names.items():
            names.append(f"{app}-{len(names)}")
            self._cluster.create_pods(
                [pod(names[-1], self._cluster.namespace, {"app": app}, cpu="10m")]
            )
        time.sleep(PAUSE_SECONDS)

    def _look(self) -> None:
        self.check_bound()
        time.sleep(PAUSE_SECONDS)

    def check_bound(self) -> None:
        """Note where the bound is passed; pods that come while this looks make it no less."""
        spot = self.on_spot()
        most = len(self.names["web"]) * 40 // 100
        if spot > most:
            self.passed.append((spot, most))

    def on_spot(self) -> int:
        """Return how many of the share's pods are on spot nodes."""
        where = self._cluster.placements().items()
        return sum(name.startswith("web-") and to.startswith("spot-") for name, to in where)


def failed(cluster: Cluster, app: str) -> list[str]:
    """Return the pods of a kind that an attempt to schedule has failed for."""
    events = (each for each in cluster.events("Pod") if each["reason"] == "FailedScheduling")
    names = {each["regarding"]["name"] for each in events}
    return sorted(name for name in names if name.startswith(app))


def test_restarts_and_a_crash_under_load(
    plane: ControlPlane, cluster: Cluster, tmp_path: Path
) -> None:
    """Every pod gets its node; those that no count is about do not even notice the restarts."""
    cluster.create_nodes(node(f"spot-{number}", {"capacity": "spot"}) for number in range(2))
    cluster.create_nodes(node(f"steady-{number}") for number in range(3))
    stream = Stream(cluster)
    with ExitStack() as running:
        policies = POLICIES.format(namespace=cluster.namespace)
        replicas = Replicas(plane, tmp_path, running, policies, "--bind", "--lameduck=2s")
        address = f"http://127.0.0.1:{replicas.switch.port}"
        entry = extender(address, node_cache_capable=True, binds=True)
        running.enter_context(kube_scheduler(plane, tmp_path, [entry]))
        with stream.flowing():
            time.sleep(3.0)
            for _ in range(2):
                assert replicas.restart() == 0
                until(lambda: bool(replicas.leading()), SECONDS, lambda: "a holder")
                time.sleep(3.0)
            plain = failed(cluster, "plain")
            replicas.kill()
            time.sleep(5.0)
        names = [name for each in stream.names.values() for name in each]
        cluster.wait_placed(names, SECONDS)
        stream.check_bound()

        print(f"{len(names)} pods, tried again: {failed(cluster, '')}")  # noqa: T201 - for -rP
        assert stream.passed == []
        assert stream.on_spot() == len(stream.names["web"]) * 40 // 100
        assert plain == []
        for server in replicas.servers:
            assert server.compare()["count"] == 0


# ---- bursts under strict counts with two replicas: nothing happens to them, or the leader is lost


ZONES, A_ZONE = "abc", 5
SHARE = """
  share "on spot" {
    pods where peer.labels["app"] == "web"
    on nodes where node.labels["capacity"] == "spot"
    at most 40%
    strict
  }
"""
ALL_THREE = f"""
  {SHARE}
  spread "zones" {{
    pods where peer.labels["app"] == "web" over node.zone skew at most 1 strict
  }}
  limit "a node" {{ pods where peer.labels["app"] == "web" per node at most 25 strict }}
"""
LOST_IN = 60


@contextmanager
def scheduled(
    plane: ControlPlane, cluster: Cluster, folder: Path, clauses: str
) -> Iterator[Replicas]:
    """Two replicas that bind, and fifteen nodes in three zones, a third of them spot."""
    cluster.create_nodes(
        node(
            f"n{number}",
            {
                "topology.kubernetes.io/zone": ZONES[number % len(ZONES)],
                "capacity": "spot" if number < A_ZONE else "steady",
            },
            cpu="64",
        )
        for number in range(len(ZONES) * A_ZONE)
    )
    policies = (
        f'policy web in namespace "{cluster.namespace}" {{\n'
        f'  for pods where pod.labels["app"] == "web"\n{clauses}\n}}\n'
    )
    with ExitStack() as running:
        replicas = Replicas(plane, folder, running, policies, "--bind")
        address = f"http://127.0.0.1:{replicas.switch.port}"
        entry = extender(address, node_cache_capable=True, binds=True)
        running.enter_context(kube_scheduler(plane, folder, [entry]))
        yield replicas


def create(cluster: Cluster, count: int) -> list[str]:
    """Create so many pods at once; return their names."""
    names = [f"web-{number}" for number in range(count)]
    cluster.create_pods(pod(name, cluster.namespace, GOVERNED, cpu="10m") for name in names)
    return names


def on_spot(where: dict[str, str]) -> int:
    return sum(int(name[1:]) < A_ZONE for name in where.values())


def test_a_large_burst_under_every_kind_of_count(
    plane: ControlPlane, cluster: Cluster, tmp_path: Path
) -> None:
    """About 20 s on a machine that does nothing else; the bounds are exact in the end."""
    with scheduled(plane, cluster, tmp_path, ALL_THREE):
        began = time.monotonic()
        where = cluster.wait_placed(create(cluster, 300), 120.0)
        print(f"300 pods in {time.monotonic() - began:.1f} s")  # noqa: T201 - for -rP

    zones = Counter(int(name[1:]) % len(ZONES) for name in where.values())
    assert zones == {0: 100, 1: 100, 2: 100}
    assert max(Counter(where.values()).values()) <= 25
    assert on_spot(where) <= 120


@pytest.mark.parametrize("loss", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
def test_leader_is_lost_in_a_burst(
    plane: ControlPlane, cluster: Cluster, tmp_path: Path, loss: signal.Signals
) -> None:
    """The other one leads when the Lease has expired, and nothing is bound twice or above."""
    with scheduled(plane, cluster, tmp_path, SHARE) as replicas:
        lost = replicas.asked()
        assert replicas.leading() == [lost]
        (other,) = (each for each in replicas.servers if each is not lost)
        names = create(cluster, LOST_IN)
        until(lambda: len(cluster.placements()) > 3, 60.0, lost.process.tail)

        lost.process.child.send_signal(loss)
        try:
            other.wait_leading()
            # What comes after the loss needs the other one.
            cluster.create_pods([pod("last", cluster.namespace, GOVERNED, cpu="10m")])
            cluster.wait_placed([*names, "last"], 90.0)
        finally:
            lost.process.child.send_signal(signal.SIGCONT)

        assert on_spot(cluster.placements()) <= (LOST_IN + 1) * 40 // 100
        assert other.compare()["count"] == 0

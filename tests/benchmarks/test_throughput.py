"""How many pods a second a real kube-scheduler places on 5,000 nodes, with whom it asks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from tests.benchmarks import shop
from tests.benchmarks.bindings import bindings
from tests.benchmarks.extenders import built_peer, go_peer
from tests.benchmarks.results import AtLeast, Record
from tests.e2e.api import Api
from tests.e2e.cluster import Cluster
from tests.e2e.control_plane import ControlPlane, control_plane
from tests.e2e.kube_scheduler import extender, kube_scheduler
from tests.e2e.manifests import node
from tests.e2e.permissions import create_role
from tests.e2e.placet import placet
from tests.e2e.process import termination_as_interrupt
from tests.e2e.programs import built
from tests.e2e.waiting import until

NODES = 5_000
# The last pods may be late.
LAST = 20
ROUNDS = 3
WORDS = {
    "none": "no extender",
    "go": "Go",
    "nothing": "parse-nothing in Go",
    "placet": "Placet",
    "short": "Placet",
    "full": "Placet with all hosts in answers",
}
PAIRS = 12
TARGETS = {"go": AtLeast(1.0), "nothing": AtLeast(0.8), "none": None}
PLACED_SECONDS = 120.0
# A tenth of the nodes are dedicated.
_OUTSTANDING = f"""policy web in namespace "{shop.NAMESPACE}" {{
  for pods where pod.labels["team"] == "{shop.TEAM}"
  score "outstanding" weight 1 {{ value "dedicated" in node.labels }}
}}
"""

pytestmark = pytest.mark.bench

Extender = Callable[[Path], AbstractContextManager[list[dict[str, Any]]]]


@pytest.fixture(scope="module")
def plane(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    """Return a control plane of the benchmark's own."""
    folder = tmp_path_factory.mktemp("control-plane")
    with termination_as_interrupt(), control_plane(built(pytestconfig), folder) as made:
        create_role(Api(made))
        yield made


@pytest.fixture(scope="module")
def cluster(plane: ControlPlane) -> Cluster:
    """Return a cluster of all the nodes, and of no pods yet."""
    made = Cluster(plane, shop.NAMESPACE)
    arch = {"kubernetes.io/arch": "amd64"}
    made.create_nodes(node(f"n{n}", arch | shop.node_labels(n)) for n in range(NODES))
    return made


@pytest.fixture(scope="module")
def contestants(
    plane: ControlPlane, cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Mapping[str, Extender]:
    """Return how each of those that are measured is started; without Go there are fewer."""
    found: dict[str, Extender] = {"none": _alone, "placet": _placet(plane)}
    if (program := built_peer()) is not None:
        snapshot = cluster.write_snapshot(tmp_path_factory.mktemp("go") / "cluster.json")
        found["go"] = _go(program, f"-snapshot={snapshot}")
        found["nothing"] = _go(program, "-parse-nothing")
    return found


@contextmanager
def _alone(_: Path) -> Iterator[list[dict[str, Any]]]:
    yield []


def _placet(plane: ControlPlane, policy: str = "", program: str = "cli") -> Extender:
    """Placet with the shop's policies, or with another one."""

    @contextmanager
    def serve(folder: Path) -> Iterator[list[dict[str, Any]]]:
        flags = f"--kubeconfig={plane.placet_kubeconfig}", "--lease=none"
        policies = shop.policies(folder / "policies")
        if policy:
            policies = folder / "outstanding.policy"
            policies.write_text(policy)
        with placet(folder, policies, *flags, program=program) as server:
            server.wait_ready()
            yield [_entry(server.port)]

    return serve


def _go(program: Path, *flags: str) -> Extender:
    @contextmanager
    def serve(folder: Path) -> Iterator[list[dict[str, Any]]]:
        with go_peer(program, folder, *flags) as port:
            yield [_entry(port) | {"urlPrefix": f"http://127.0.0.1:{port}"}]

    return serve


def _entry(port: int) -> dict[str, Any]:
    plain = extender(f"http://127.0.0.1:{port}", node_cache_capable=True, preempts=False)
    return plain | {"httpTimeout": "10s"}


@pytest.mark.parametrize(
    # The first pods pay for what is worked out once: more of them where few nodes are offered.
    ("percentage", "offered", "warm", "pods"),
    [(None, "a tenth", 400, 1000), (100, "all", 100, 200)],
    ids=["default", "all"],
)
def test_throughput(
    percentage: int | None,
    offered: str,
    warm: int,
    pods: int,
    contestants: Mapping[str, Extender],
    plane: ControlPlane,
    cluster: Cluster,
    tmp_path: Path,
    record: Record,
) -> None:
    """Every contestant in turn, and that again: they share whatever the machine is doing."""
    rounds = []
    for number in range(ROUNDS):
        rates = {}
        for name, start in contestants.items():
            folder = tmp_path / f"{name}-{number}"
            folder.mkdir()
            with start(folder) as entries:
                rates[name] = _rate(plane, cluster, folder, entries, percentage, warm, pods)
        rounds.append(rates)
    for other, target in TARGETS.items():
        if other in contestants:
            ratio = median(rates["placet"] / rates[other] for rates in rounds)
            what = f"pods a second, {NODES:,} nodes, {offered} offered: Placet / {WORDS[other]}"
            each = _each(rounds, ("placet", other))
            record(what, ratio, target, f"median of the ratios of {ROUNDS} rounds: {each}")


def test_short_answers(
    contestants: Mapping[str, Extender],
    plane: ControlPlane,
    cluster: Cluster,
    tmp_path: Path,
    record: Record,
) -> None:
    """A tenth of the hosts stand out, and the others are left out of answers to prioritize."""
    starts = {
        "short": _placet(plane, _OUTSTANDING),
        "full": _placet(plane, _OUTSTANDING, "tests.support.full_answers"),
    }
    if "go" in contestants:
        starts["go"] = contestants["go"]
    rounds: list[dict[str, float]] = []
    for number in range(PAIRS):
        rates = {}
        # Whoever is first in one round is last in the next.
        for name in sorted(starts, reverse=bool(number % 2)):
            folder = tmp_path / f"{name}-{number}"
            folder.mkdir()
            with starts[name](folder) as entries:
                rates[name] = _rate(plane, cluster, folder, entries, 100, warm=50, pods=200)
        rounds.append(rates)
    for other, target in (("full", AtLeast(1.1)), ("go", AtLeast(1.2))):
        if other in starts:
            ratios = sorted(rates["short"] / rates[other] for rates in rounds)
            detail = (
                f"median of {PAIRS} pairs, {ratios[1]:.2f} to {ratios[-2]:.2f} without the ends"
            )
            what = f"pods a second, {NODES:,} nodes, a tenth stand out: Placet / {WORDS[other]}"
            record(what, median(ratios), target, f"{detail}; {_each(rounds, ('short', other))}")


def _rate(
    plane: ControlPlane,
    cluster: Cluster,
    folder: Path,
    extenders: list[dict[str, Any]],
    percentage: int | None,
    warm: int,
    pods: int,
) -> float:
    """Pods a second. All pods wait when kube-scheduler starts, and are gone in the end."""
    count = warm + pods + LAST
    cluster.create_pods(shop.small_pods(count, cluster.namespace, folder.name))
    try:
        with (
            bindings(plane, cluster.namespace) as seen,
            kube_scheduler(plane, folder, extenders, percentage) as scheduler,
        ):
            until(
                lambda: len(seen) >= count,
                PLACED_SECONDS,
                lambda: f"{len(seen)} of {count}; {scheduler.tail()}",
            )
            return seen.rate(warm, warm + pods)
    finally:
        cluster.delete_pods()


def _each(rounds: Sequence[Mapping[str, float]], names: Sequence[str]) -> str:
    """The rates of some contestants, round by round."""
    listed = (f"{WORDS[name]} {', '.join(f'{r[name]:.0f}' for r in rounds)}" for name in names)
    return "; ".join(listed)

"""Throughput: the pods a second of a real kube-scheduler on 5,000 nodes, by whom it asks."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

import pytest

from tests.benchmarks import shop
from tests.benchmarks.extenders import INFORMERS, built_peer, go_peer
from tests.benchmarks.live import Bindings, bindings
from tests.benchmarks.live import spent as spent_by
from tests.benchmarks.results import AtLeast, AtMost, Record
from tests.e2e.api import Api
from tests.e2e.cluster import Cluster
from tests.e2e.control_plane import ControlPlane, control_plane
from tests.e2e.kube_scheduler import extender, kube_scheduler
from tests.e2e.manifests import node
from tests.e2e.placet import placet
from tests.e2e.process import Process, built, termination_as_interrupt, until
from tests.e2e.service_account import create_role

NODES = 5_000
# The last pods may be late.
LAST = 20
ROUNDS = 5
WORDS = {
    "none": "no extender",
    "go": "Go",
    "nothing": "parse-nothing in Go",
    "informers": "client-go's informers",
    "placet": "Placet",
    "short": "Placet",
    "full": "Placet with all hosts in answers",
    "gate": "Placet behind the gate",
    "fifty": "at most 50 per node",
    "filter": "a plain filter",
}
PAIRS = 12
TARGETS = {"go": AtLeast(1.0), "nothing": AtLeast(0.8), "informers": None, "none": None}
PLACED_SECONDS = 120.0
SAMPLES = 10_000
CONTROL_PLANE = ("kube-scheduler", "kube-apiserver", "etcd")
GATE = "placet.dev/gate"
_OF_TEAM = f'for pods where pod.labels["team"] == "{shop.TEAM}"'
_FILTER = f"""policy web in namespace "{shop.NAMESPACE}" {{
  {_OF_TEAM}
  filter "arch" {{ require node.labels["kubernetes.io/arch"] == "amd64" }}
}}
"""
_FIFTY = f"""policy web in namespace "{shop.NAMESPACE}" {{
  {_OF_TEAM}
  limit "fifty" {{
    pods where peer.labels["team"] == pod.labels["team"] per node at most 50 strict
  }}
}}
"""
# A tenth of the nodes are dedicated.
_OUTSTANDING = f"""policy web in namespace "{shop.NAMESPACE}" {{
  {_OF_TEAM}
  score "outstanding" weight 1 {{ value "dedicated" in node.labels }}
}}
"""

pytestmark = pytest.mark.bench


@dataclass(frozen=True, slots=True)
class Run:
    """Pods a second, and the processor time a pod in seconds: of the machine, and by process."""

    rate: float
    seconds: float
    of: Mapping[str, float]


Extender = Callable[[Path], AbstractContextManager[list[dict[str, Any]]]]


@contextmanager
def own_plane(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    """Run a control plane for the benchmarks of one file."""
    folder = tmp_path_factory.mktemp("control-plane")
    with termination_as_interrupt(), control_plane(built(pytestconfig), folder) as made:
        create_role(Api(made))
        yield made


@pytest.fixture(scope="module")
def plane(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    """Return a control plane of the benchmark's own."""
    with own_plane(pytestconfig, tmp_path_factory) as made:
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
    if (program := built_peer(INFORMERS)) is not None:
        found["informers"] = _go(program, f"-kubeconfig={plane.placet_kubeconfig}")
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


def _gated(start: Extender) -> Extender:
    """The same, asked only about marked pods."""

    @contextmanager
    def serve(folder: Path) -> Iterator[list[dict[str, Any]]]:
        with start(folder) as entries:
            yield [each | {"managedResources": [{"name": GATE}]} for each in entries]

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
        runs = {}
        for name, start in contestants.items():
            folder = tmp_path / f"{name}-{number}"
            folder.mkdir()
            with start(folder) as entries:
                runs[name] = run_once(plane, cluster, folder, entries, percentage, warm, pods)
        rounds.append(runs)
    for other, target in TARGETS.items():
        if other in contestants:
            ratio = median(runs["placet"].rate / runs[other].rate for runs in rounds)
            what = f"pods a second, {NODES:,} nodes, {offered} offered: Placet / {WORDS[other]}"
            each = _each(rounds, ("placet", other))
            record(what, ratio, target, f"median of the ratios of {ROUNDS} rounds: {each}")
    what = f"processor time a pod, {NODES:,} nodes, {offered} offered: Placet / {{}}"
    for other in {"go", "informers"} & contestants.keys():
        ratio = median(
            runs["placet"].of["extender"] / runs[other].of["extender"] for runs in rounds
        )
        most = AtMost(1.3) if (other, percentage) == ("informers", None) else None
        record(what.format(WORDS[other]), ratio, most, _by_process(rounds, ("placet", other)))


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
    rounds = _pairs(starts, plane, cluster, tmp_path, warm=50, pods=200)
    for other, target in (("full", AtLeast(1.1)), ("go", AtLeast(1.2))):
        if other in starts:
            ratios = sorted(runs["short"].rate / runs[other].rate for runs in rounds)
            detail = (
                f"median of {PAIRS} pairs, {ratios[1]:.2f} to {ratios[-2]:.2f} without the ends"
            )
            what = f"pods a second, {NODES:,} nodes, a tenth stand out: Placet / {WORDS[other]}"
            record(what, median(ratios), target, f"{detail}; {_each(rounds, ('short', other))}")


def test_a_wide_bound(
    plane: ControlPlane, cluster: Cluster, tmp_path: Path, record: Record
) -> None:
    """A burst under a ceiling that is far away, beside one under a filter that passes all."""
    starts = {"fifty": _placet(plane, _FIFTY), "filter": _placet(plane, _FILTER)}
    rounds = _pairs(starts, plane, cluster, tmp_path, warm=50, pods=200)
    ratios = [runs["fifty"].rate / runs["filter"].rate for runs in rounds]
    what = f"pods a second, {NODES:,} nodes: {WORDS['fifty']} / {WORDS['filter']}"
    each = _each(rounds, ("fifty", "filter"))
    record(what, median(ratios), AtLeast(0.9), f"median of {PAIRS} pairs; {each}")


def test_the_gate(
    contestants: Mapping[str, Extender],
    plane: ControlPlane,
    cluster: Cluster,
    tmp_path: Path,
    record: Record,
) -> None:
    """Pods without the marker, with Placet behind the gate, and with no extender at all."""
    starts = {"gate": _gated(contestants["placet"]), "none": contestants["none"]}
    rounds = _pairs(starts, plane, cluster, tmp_path, warm=100, pods=600)
    ratios = [runs["gate"].rate / runs["none"].rate for runs in rounds]
    what = f"pods a second, {NODES:,} nodes, pods without the marker: {{}} / {WORDS['none']}"
    detail = f"the lower end of the interval of 95% for the median, {median(ratios):.2f}"
    each = _each(rounds, ("gate", "none"))
    record(what.format(WORDS["gate"]), _low_median(ratios), AtLeast(0.9), f"{detail}; {each}")
    spent = [{name: run.seconds for name, run in runs.items()} for runs in rounds]
    ratio = median(each["gate"] / each["none"] for each in spent)
    both = ", ".join(f"{median(e[n] for e in spent) * 1000:.1f} ms {WORDS[n]}" for n in starts)
    what = f"processor time a pod, all processes: {WORDS['gate']} / {WORDS['none']}"
    record(what, ratio, None, f"median of {PAIRS} pairs: {both}")


def _pairs(
    starts: Mapping[str, Extender],
    plane: ControlPlane,
    cluster: Cluster,
    folder: Path,
    *,
    warm: int,
    pods: int,
) -> Sequence[Mapping[str, Run]]:
    """Every contestant PAIRS times; whoever is first in one round is last in the next."""
    rounds = []
    for number in range(PAIRS):
        runs = {}
        for name in sorted(starts, reverse=bool(number % 2)):
            own = folder / f"{name}-{number}"
            own.mkdir()
            with starts[name](own) as entries:
                runs[name] = run_once(plane, cluster, own, entries, 100, warm, pods)
        rounds.append(runs)
    return rounds


def run_once(
    plane: ControlPlane,
    cluster: Cluster,
    folder: Path,
    extenders: list[dict[str, Any]],
    percentage: int | None,
    warm: int,
    pods: int,
    made: Callable[[int, str, str], Iterable[dict[str, Any]]] = shop.small_pods,
) -> Run:
    """All pods wait when kube-scheduler starts, and are gone in the end.

    `made` gives so many, in a namespace, with a name that they begin with.
    """
    count = warm + pods + LAST
    cluster.create_pods(made(count, cluster.namespace, folder.name))
    try:
        with (
            bindings(plane, cluster.namespace) as seen,
            kube_scheduler(plane, folder, extenders, percentage) as scheduler,
        ):
            _wait(seen, warm, scheduler)
            before, known, begun = _busy_seconds(), _seconds_by_process(), len(seen)
            _wait(seen, count, scheduler)
            number, now = len(seen) - begun, _seconds_by_process()
            of = {name: (seconds - known.get(name, 0.0)) / number for name, seconds in now.items()}
            spent = (_busy_seconds() - before) / number
            return Run(seen.rate(warm, warm + pods), spent, of)
    finally:
        cluster.delete_pods()


def _wait(seen: Bindings, count: int, scheduler: Process) -> None:
    until(
        lambda: len(seen) >= count,
        PLACED_SECONDS,
        lambda: f"{len(seen)} of {count}; {scheduler.tail()}",
    )


def _busy_seconds() -> float:
    """Seconds that the processors of the machine have worked, for whomever."""
    user, nice, system, _idle, _wait, irq, softirq, *_ = map(
        int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    )
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def _seconds_by_process() -> Mapping[str, float]:
    """Seconds of processor time of the programs that this process has started, by their names."""
    found: defaultdict[str, float] = defaultdict(float)
    for line in Path("/proc/self/task").glob("*/children"):
        for child in line.read_text().split():
            name = Path(f"/proc/{child}/comm").read_text().strip()
            found[name if name in CONTROL_PLANE else "extender"] += spent_by(int(child))
    return found


def _by_process(rounds: Sequence[Mapping[str, Run]], names: Sequence[str]) -> str:
    """The median of the milliseconds a pod of each process, for some contestants."""
    texts = []
    for name in names:
        of = [runs[name].of for runs in rounds]
        each = {
            p: 1000 * median(one.get(p, 0.0) for one in of) for p in (*CONTROL_PLANE, "extender")
        }
        listed = ", ".join(f"{process} {ms:.2f}" for process, ms in each.items())
        texts.append(f"{WORDS[name]}: {listed}")
    return f"ms, medians of {len(rounds)} rounds; {'; '.join(texts)}"


def _low_median(values: Sequence[float]) -> float:
    """The lower end of the interval of 95% for the median, by bootstrap."""
    chance = Random(1)
    medians = sorted(median(chance.choices(values, k=len(values))) for _ in range(SAMPLES))
    return medians[round(0.025 * SAMPLES)]


def _each(rounds: Sequence[Mapping[str, Run]], names: Sequence[str]) -> str:
    """The rates of some contestants, round by round."""
    listed = (f"{WORDS[name]} {', '.join(f'{r[name].rate:.0f}' for r in rounds)}" for name in names)
    return "; ".join(listed)

"""Costs of rules about the pods of each node, or about the time: against a label of the node.

Every figure is a ratio of two calls of one run, so that it says something on any machine. A *warm*
call is about another pod of a shape that was asked about before; a *new shape* is about a pod whose
labels were not asked about, while the policy is known; a *first* call is the first one about its
policy. No target holds for the last: it happens once after an edit.
"""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Iterator
from functools import cache
from itertools import count

import msgspec
import pytest

from engine.cache.cache import Cache
from engine.cache.node_table import ListedNames
from engine.decision.registry import Registry
from engine.engine import Engine
from tests.benchmarks.results import AtMost, Record, Target
from tests.support import builders
from tests.support.engines import CODEC, Known, Silent, node_of, peer_of, programs_of

NODES, PODS_A_NODE = 5_000, 30
APPS, TEAMS, ZONES = 3_000, 12, 3
# The least of so many calls counts: what else the machine does only adds to a call.
CALLS = 5
WARM, NEW, NAMED = AtMost(5), AtMost(30), AtMost(10)

PLAIN = 'node.labels["disk"] == "ssd"'
_APP, _TEAM = 'p.labels["app"] == pod.labels["app"]', 'p.labels["team"] == pod.labels["team"]'
_BOTH = '{0}.labels["team"] + "/" + {0}.labels["app"]'
_MEMORY = 'map(p, p.requests["memory"]).sum()'
RULES = {
    "a label against the pod's": 'node.labels["row"] == pod.labels["row"]',
    "exists, a label": f"!node.pods.exists(p, {_APP})",
    "all, a label": f"node.pods.all(p, !({_APP}))",
    "exists, a label and the namespace": (
        f"!node.pods.exists(p, p.namespace == pod.namespace && {_APP})"
    ),
    "exists, joined labels": (
        f"!node.pods.exists(p, {_BOTH.format('p')} == {_BOTH.format('pod')})"
    ),
    "exists, the start of a label": (
        '!node.pods.exists(p, p.labels["app"].startsWith(pod.labels["app"] + "-"))'
    ),
    "number, a label": f"node.pods.filter(p, {_APP}).size() < 3",
    "sum": f'node.pods.{_MEMORY} + pod.requests["memory"] <= node.allocatable["memory"]',
    "sum, a label": f'node.pods.filter(p, {_APP}).{_MEMORY} <= "2Gi"',
    "sum, a label of many pods": f'node.pods.filter(p, {_TEAM}).{_MEMORY} <= "6Gi"',
    "pattern, a label of the node": 'node.labels["row"].matches(pod.labels["pattern"])',
    "pattern, a label that differs on every node": (
        'node.labels["host"].matches(pod.labels["pattern"])'
    ),
}
# What is warm about these stays so while the time passes.
TIMED = {
    "ages": 'filter "f" { require !node.pods.exists(p, p.age < duration("1h")) }',
    "a limit by age": (
        'limit "l" { pods where peer.age < duration("1h") per node at most 3 strict }'
    ),
}
SCORES = {"a score by age": 'score "s" weight 1 { value node.age.getMinutes() range minmax }'}
SPREADS = 10
# Of a group of nodes, by what it is by, and of the node: {0} is the one or the other.
GROUPS = {"a row": 'node.labels["row"]', "a zone": "node.zone"}
GROUPED = {
    "room": 'filter "f" { require {0}.free["memory"] >= 8 * pod.requests["memory"] }',
    "use": 'score "s" weight 1 { value {0}.usage["cpu"] range 1 .. 0 }',
}
AS_MUCH = AtMost(1.3)
# Rules that count pods. The first call of all, and that of another app, is in milliseconds.
_PEER_APP, _PEER_TEAM = _APP.replace("p.", "peer."), _TEAM.replace("p.", "peer.")
_RACK = 'group rack by node.labels["row"] '
COUNTS = {
    "a count per node": (
        f'count c per node = all pods where {_PEER_APP} filter "f" {{ require c < 3 }}'
    ),
    "a count per rack": (
        f'{_RACK}count c per rack = all pods where {_PEER_TEAM} filter "f" {{ require c < 9000 }}'
    ),
    "two counts": (
        f"count a per node = all pods where {_PEER_APP} count b = all pods where {_PEER_TEAM} "
        'filter "f" { require a < 3 && b < 90000 }'
    ),
    "a sum per rack": (
        f'{_RACK}limit "l" {{ sum peer.requests["memory"] of all pods where {_PEER_TEAM}'
        ' per rack at most 0.9 * rack.allocatable["memory"] strict }'
    ),
    "a sum of all pods": (
        'limit "l" { sum peer.requests["cpu"] of all pods where true per node at most 30 strict }'
    ),
    "a limit by priority": (
        'limit "l" { all pods where peer.priority >= pod.priority per node at most 200 strict }'
    ),
    "a mutual limit": (
        f'limit "l" {{ all pods where {_PEER_APP} per node at most 3 strict mutual }}'
    ),
}
FIRST = AtMost(250)

pytestmark = pytest.mark.bench


@cache
def cluster() -> Cache:
    """Return the cluster, which nothing changes."""
    known = Cache()
    for number in range(NODES):
        disk = "hdd" if number % 10 == 0 else "ssd"
        labels = {"disk": disk, "host": f"host-{number}", "row": f"r{number % 40}"}
        zone = f"zone-{number % ZONES}"
        known.put_node(node_of(builders.node(f"n{number}", zone, memory="64Gi", labels=labels)))
    samples = [
        peer_of(builders.pod("p", "shop", cpu="100m", memory="256Mi", on="n", labels=_labels(app)))
        for app in range(APPS)
    ]
    for number in range(NODES * PODS_A_NODE):
        sample, name = samples[number // 50 % APPS], f"p{number}"
        known.put_pod(
            msgspec.structs.replace(
                sample,
                name=name,
                uid=f"u{number}",
                nodeName=f"n{number % NODES}",
                labels={**sample.labels, "statefulset.kubernetes.io/pod-name": name},
            )
        )
    known.snapshot()
    return known


def _labels(app: int) -> dict[str, str]:
    return {"app": f"app-{app}", "team": f"team-{app % TEAMS}"}


class Asking:
    """An engine with one policy, and pods to ask it about: those of one shape have one app."""

    def __init__(self, clauses: str, *, scores: bool = False) -> None:
        programs = programs_of(f"cluster policy p {{ {clauses} }}")
        self._engine = Engine(Registry(programs), Known(cluster()), CODEC, Silent())
        self._names = msgspec.json.encode([f"n{number}" for number in range(NODES)])
        self._ask: Callable[..., object] = self._engine.filter
        if scores:
            self._ask = self._engine.prioritize
        self._number = count()

    def milliseconds(self, shape: int, *, forget: bool = False) -> float:
        """Return the time of a call about a new pod of a shape, which may be bound after it."""
        labels = _labels(shape) | {"row": f"r{shape}", "pattern": f"p-.{shape}.?7"}
        name, memory = f"asked-{next(self._number)}", f"{1024 + shape}Mi"
        asked = builders.raw(builders.pod(name, "shop", memory=memory, labels=labels))
        began = time.thread_time()
        names = ListedNames.of(self._names)
        assert names is not None
        self._ask(asked, names, None, math.inf)
        taken = (time.thread_time() - began) * 1000
        if forget:
            self._engine.in_flight.forget(CODEC.peer(asked).uid)
        return taken


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Keep the garbage collector out of what is measured."""
    cluster()
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.fixture(scope="module")
def plain() -> float:
    """Return the milliseconds of a warm call about a label of the node."""
    asking = Asking(f'filter "f" {{ require {PLAIN} }}')
    return min(asking.milliseconds(0) for _ in range(10 * CALLS))


def _recorded(record: Record, name: str, asking: Asking, plain: float) -> None:
    first = asking.milliseconds(0)
    new = min(asking.milliseconds(shape) for shape in range(1, 1 + CALLS))
    warm = min(asking.milliseconds(0) for _ in range(2 * CALLS))
    figures: list[tuple[str, float, Target | None]] = [
        ("warm", warm, WARM),
        ("new shape", new, NEW),
        ("first", first, None),
    ]
    for state, taken, target in figures:
        detail = f"{taken:.3g} ms; a label of the node, warm: {plain:.3g} ms"
        record(f"{name}, {state} / a label, warm", taken / plain, target, detail)


def test_plain(plain: float, record: Record) -> None:
    """The label itself, for a new shape and for the first time."""
    _recorded(record, "a label of the node", Asking(f'filter "f" {{ require {PLAIN} }}'), plain)


@pytest.mark.parametrize("name", RULES)
def test_rule(name: str, plain: float, record: Record) -> None:
    """A filter of one rule."""
    _recorded(record, name, Asking(f'filter "f" {{ require {RULES[name]} }}'), plain)


@pytest.mark.parametrize("of", GROUPS)
@pytest.mark.parametrize("name", GROUPED)
def test_group(name: str, of: str, record: Record) -> None:
    """A rule about a group of nodes, against the same rule about the node."""
    is_score = name == "use"
    of_node = Asking(GROUPED[name].replace("{0}", "node"), scores=is_score)
    group = f"group g by {GROUPS[of]} "
    of_group = Asking(group + GROUPED[name].replace("{0}", "g"), scores=is_score)
    for state, shapes in (("warm", [0] * 10 * CALLS), ("new shape", range(1, 1 + CALLS))):
        for each in (of_node, of_group):
            each.milliseconds(0, forget=True)
        pairs = [
            (of_node.milliseconds(n, forget=True), of_group.milliseconds(n, forget=True))
            for n in shapes
        ]
        node, taken = (min(each) for each in zip(*pairs, strict=True))
        detail = f"{taken:.3g} ms; of the node: {node:.3g} ms"
        record(f"{name} of {of}, {state} / of the node", taken / node, AS_MUCH, detail)


@pytest.mark.parametrize("name", [*TIMED, *SCORES])
def test_time(name: str, plain: float, record: Record) -> None:
    """A rule that reads the time."""
    clauses = (TIMED | SCORES)[name]
    _recorded(record, name, Asking(clauses, scores=name in SCORES), plain)


@pytest.mark.parametrize("name", COUNTS)
def test_count(name: str, plain: float, record: Record) -> None:
    """A rule that counts pods, each of which has a label of its own; nothing was counted before."""
    cluster.cache_clear()
    asking = Asking(COUNTS[name])
    gc.collect()
    first = asking.milliseconds(0, forget=True)
    others = [asking.milliseconds(shape, forget=True) for shape in range(1, 1 + CALLS)]
    record(f"{name}, first", first, FIRST, "ms")
    record(f"{name}, first of another app", max(others), FIRST, "ms")
    warm = min(asking.milliseconds(0, forget=True) for _ in range(2 * CALLS))
    detail = f"{warm:.3g} ms; a label of the node, warm: {plain:.3g} ms"
    record(f"{name}, warm / a label, warm", warm / plain, WARM, detail)


def test_new_name(plain: float, record: Record) -> None:
    """A rule that compares the name of the pod, asked about a pod of another name each time."""
    asking = Asking(f'filter "f" {{ require {PLAIN} && pod.name != "zz" }}')
    asking.milliseconds(0)
    taken = min(asking.milliseconds(0) for _ in range(2 * CALLS))
    detail = f"{taken:.3g} ms; a label of the node, warm: {plain:.3g} ms"
    record("a comparison with the name, a new name / a label, warm", taken / plain, NAMED, detail)


def test_spreads(plain: float, record: Record) -> None:
    """Ten spreads with a weight, over zones and rows, of pods of the app and of its team."""
    clauses = "\n".join(
        f'spread "s{number}" {{ pods where peer.labels["{("app", "team")[number % 2]}"]'
        f' == pod.labels["{("app", "team")[number % 2]}"]'
        f" over {('node.zone', 'node.labels[' + chr(34) + 'row' + chr(34) + ']')[number % 3 == 0]}"
        f" skew at most {1 + number} weight {10 + number} }}"
        for number in range(SPREADS)
    )
    _recorded(record, f"{SPREADS} spreads", Asking(clauses, scores=True), plain)

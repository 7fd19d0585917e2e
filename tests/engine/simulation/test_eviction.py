"""Eviction: victims as kube-scheduler chooses them, and further ones as policies need them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import chain, combinations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.cache.node_table import with_pods
from engine.objects.disruption_budget import by_namespace, decode_budget
from engine.objects.peer import Peer, importance
from engine.simulation.cycle import PodOutcome, SimulatedEviction, dry_run, preferred
from engine.simulation.result import answer_of, changes, result
from tests.support.builders import Object, node, pod
from tests.support.engines import node_of, peer_of
from tests.support.examples import examples
from tests.support.simulated import simulation

TWO = """
policy web {
  for pods where pod.labels[?"app"].orValue("") == "web"
  limit "two" { pods where peer.labels[?"app"].orValue("") == "web" per node at most 2 strict }
}
"""


def there(
    name: str, priority: int, cpu: str = "1", on: str = "n-1", *, app: str = "", second: int = 0
) -> Object:
    labels = {"app": app} if app else None
    made = pod(name, cpu=cpu, memory="1Gi", on=on, priority=priority, labels=labels)
    made["metadata"]["uid"] = name
    made["status"]["startTime"] = f"2026-11-21T10:00:{second:02}Z"
    return made


def peers(*pods: Object) -> list[Peer]:
    return [peer_of(each) for each in pods]


# ---- the dry run


SMALL = st.tuples(st.integers(0, 4), st.integers(1, 3), st.booleans())


@settings(max_examples=examples(150))
@given(
    pods=st.lists(SMALL, max_size=7),
    priority=st.integers(0, 5),
    wanted=st.integers(1, 6),
    allowed=st.integers(0, 3),
)
def test_the_dry_run_is_the_best_of_all_sets_of_pods(
    pods: list[tuple[int, int, bool]], priority: int, wanted: int, allowed: int
) -> None:
    """Of the sets that make room, the one that spares pods with budgets and important pods."""
    made = []
    for number, (rank, cpu, has_budget) in enumerate(pods):
        each = there(f"p{number}", rank, str(cpu), second=number)
        each["metadata"]["labels"] = {"budget": str(int(has_budget))}
        made.append(each)
    found = peers(*made)
    sizes = {peer.uid: pods[number][1] for number, peer in enumerate(found)}
    free = max(0, 6 - sum(sizes.values()))
    document = {
        "metadata": {"name": "b", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"budget": "1"}}},
        "status": {"disruptionsAllowed": allowed},
    }
    budgets = by_namespace([decode_budget(msgspec.json.encode(document))])

    def fits(gone: Collection[Peer]) -> bool:
        return free + sum(sizes[peer.uid] for peer in gone) >= wanted

    lower = sorted((peer for peer in found if peer.priority < priority), key=importance)
    covered = [peer for peer in lower if peer.labels["budget"] == "1"]
    breaks = [peer.uid for peer in covered[allowed:]]
    order = sorted(lower, key=lambda peer: peer.uid not in breaks)
    every = chain.from_iterable(combinations(lower, size) for size in range(len(lower) + 1))
    enough = [some for some in every if fits(some)]
    victims = dry_run(priority, with_pods(node_of(node("n-1")), found), budgets, fits)
    best = min(enough, key=lambda some: [peer in some for peer in order], default=())
    if not best:
        assert victims is None
        return
    assert victims is not None
    assert set(victims.uids) == {peer.uid for peer in best}
    assert victims.pdb_violations == len({peer.uid for peer in best} & set(breaks))


@pytest.mark.parametrize(
    ("other", "violations", "best"),
    [
        ([there("b", 1)], 0, "n-1"),
        ([there("b", 0)], 0, "n-2"),
        ([there("b", 0)], 1, "n-1"),
        # As many of the highest priority, and more in all.
        ([there("b", 1), there("c", 0)], 0, "n-1"),
        ([there("b", 1, second=30)], 0, "n-2"),
    ],
    ids=["the first", "priority", "budgets", "fewer", "started later"],
)
def test_the_node_that_kube_scheduler_prefers(
    other: Sequence[Object], violations: int, best: str
) -> None:
    candidates = {"n-1": peers(there("a", 1)), "n-2": peers(*other)}
    assert preferred(candidates, {"n-1": 0, "n-2": violations}) == best


# ---- the cycle

WEB = [there("w-1", 10, app="web"), there("w-2", 20, app="web"), there("other", 1)]


def important(name: str = "asked", cpu: str = "1", **spec: object) -> Object:
    return pod(name, cpu=cpu, memory="1Gi", labels={"app": "web"}, priority=100, spec=spec)


def test_a_policy_has_one_more_victim_than_kube_scheduler() -> None:
    """As in the cluster: one pod goes for the CPU, another one for the limit."""
    nodes = [node("n-1", cpu="3")]
    found = simulation(nodes, [important()], TWO, there=WEB, preempts=True)
    assert list(found.run()) == [PodOutcome("default/asked", "web", "n-1")]
    by_kube_scheduler = SimulatedEviction("default/other", "n-1", "default/asked", None, None)
    by_policy = SimulatedEviction("default/w-1", "n-1", "default/asked", "web", "two")
    assert found.evictions == [by_policy, by_kube_scheduler]
    without = simulation(nodes, [important()], "", there=WEB, preempts=True)
    (placed,) = without.run()
    assert placed.node == "n-1"
    assert without.evictions == [by_kube_scheduler]


@pytest.mark.parametrize(
    ("asked", "preempts"),
    [
        (important(), False),
        (important(preemptionPolicy="Never"), True),
        (important(cpu="4"), True),
        (pod("asked", cpu="1", labels={"app": "web"}, priority=1), True),
    ],
    ids=["not asked for", "never", "too large for the node", "not more important"],
)
def test_nobody_is_evicted(asked: Object, preempts: bool) -> None:
    (outcome,) = simulation(
        [node("n-1", cpu="3")], [asked], TWO, there=WEB, preempts=preempts
    ).run()
    assert outcome.node is None


def test_a_node_that_only_a_policy_rejects_is_no_candidate() -> None:
    """C48: kube-scheduler takes the rejections of an extender for final."""
    (outcome,) = simulation(
        [node("n-1", cpu="8")], [important()], TWO, there=WEB, preempts=True
    ).run()
    assert outcome.node is None
    assert list(outcome.reasons) == ["web: two"]


def test_a_pod_that_was_placed_before_can_be_evicted() -> None:
    pods = [pod("early", cpu="2", memory="1Gi", priority=1), important("late", cpu="2")]
    nodes = [node("n-1", cpu="3")]
    plain = result(simulation(nodes, pods))
    found = result(simulation(nodes, pods, preempts=True))
    evicted = PodOutcome("default/early", None, None, evictedFor="default/late")
    placed = PodOutcome("default/late", None, "n-1")
    assert list(found.outcomes) == [evicted, placed]
    assert list(found.placed) == [placed]
    assert found.evictions == [
        SimulatedEviction("default/early", "n-1", "default/late", None, None)
    ]
    assert found.allocation["cpu"].requested == 2000
    assert [each.kind for each in changes(answer_of(plain), answer_of(found))] == [
        "now evicted",
        "now placed",
    ]


@settings(max_examples=examples(60))
@given(
    queue=st.lists(st.tuples(st.integers(0, 3), st.integers(1, 3), st.booleans()), max_size=10),
    sizes=st.lists(st.integers(2, 5), min_size=1, max_size=3),
)
def test_bounds_hold_whoever_is_evicted(
    queue: list[tuple[int, int, bool]], sizes: list[int]
) -> None:
    """At the end no node has more than two pods of web, or less than nothing of a resource."""
    priorities = {f"default/p{i}": rank for i, (rank, _, _) in enumerate(queue)}
    kinds = {f"default/p{i}": (cpu, web) for i, (_, cpu, web) in enumerate(queue)}
    pods = [
        pod(f"p{i}", cpu=str(cpu), priority=rank, labels={"app": "web"} if web else {"app": "db"})
        for i, (rank, cpu, web) in enumerate(queue)
    ]
    nodes = [node(f"n-{i}", cpu=str(size)) for i, size in enumerate(sizes)]
    found = result(simulation(nodes, pods, TWO, preempts=True))
    assert len(found.outcomes) == len(queue)
    for name, size in ((f"n-{i}", size) for i, size in enumerate(sizes)):
        here = [kinds[o.pod] for o in found.placed if o.node == name]
        assert sum(cpu for cpu, _ in here) <= size
        assert sum(web for _, web in here) <= 2
    for each in found.evictions:
        assert priorities[each.pod] < priorities[each.preemptor]
    used = sum(kinds[o.pod][0] for o in found.placed)
    assert found.allocation["cpu"].requested == 1000 * used

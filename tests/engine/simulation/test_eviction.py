"""Eviction: the victims that kube-scheduler proposes on each node."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import chain, combinations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.cache.node_table import with_pods
from engine.decision.preemption import Victims
from engine.objects.disruption_budget import by_namespace, decode_budget
from engine.objects.peer import Peer, importance
from engine.simulation.cycle import dry_run, waiting
from tests.support.books import examples
from tests.support.builders import Object, node, pod, raw
from tests.support.engines import CODEC, node_of, peer_of
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


# ---- a cluster

WEB = [there("w-1", 10, app="web"), there("w-2", 20, app="web"), there("other", 1)]


def important(name: str = "asked", cpu: str = "1", **spec: object) -> Object:
    return pod(name, cpu=cpu, memory="1Gi", labels={"app": "web"}, priority=100, spec=spec)


def proposed(nodes: Sequence[Object], asked: Object) -> Mapping[str, Victims]:
    return simulation(nodes, (), TWO, there=WEB).proposed(waiting(raw(asked), CODEC))


def test_of_pods_without_need_the_least_important_one_is_proposed() -> None:
    assert proposed([node("n-1", cpu="3")], important()) == {"n-1": Victims(["other"], 0)}


@pytest.mark.parametrize(
    ("asked", "cpu"),
    [
        (important(preemptionPolicy="Never"), "3"),
        (important(cpu="4"), "3"),
        (pod("asked", cpu="1", labels={"app": "web"}, priority=1), "3"),
        (important(), "8"),
    ],
    ids=["never", "too large for the node", "not more important", "a policy alone rejects it"],
)
def test_nobody_is_proposed(asked: Object, cpu: str) -> None:
    """C48: kube-scheduler takes the rejections of an extender for final."""
    assert proposed([node("n-1", cpu=cpu)], asked) == {}

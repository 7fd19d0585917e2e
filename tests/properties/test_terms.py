"""Whatever ends, starts, stops or is late, no strict bound is passed, and no pod waits for ever."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from engine.counting.in_flight_pods import Schedulers
from tests.support.builders import Object, node
from tests.support.engines import registry_of
from tests.support.terms import World

WEB = 'pods where peer.labels["app"] == "web"'
ZONE = "topology.kubernetes.io/zone"
NODES = [node(f"n{i}", f"z{i % 2}") for i in range(4)]


def _on(bound: list[Object]) -> Counter[str]:
    return Counter(each["spec"]["nodeName"] for each in bound)


def _zones(bound: list[Object]) -> Counter[str]:
    of = {each["metadata"]["name"]: each["metadata"]["labels"][ZONE] for each in NODES}
    return Counter(of[each["spec"]["nodeName"]] for each in bound)


def _too_many_on_a_node(bound: list[Object]) -> str | None:
    return str(_on(bound)) if max(_on(bound).values()) > 1 else None


def _too_skewed(bound: list[Object]) -> str | None:
    found = _zones(bound)
    return str(found) if abs(found["z0"] - found["z1"]) > 1 else None


def _too_many_in_a_zone(bound: list[Object]) -> str | None:
    return str(_zones(bound)) if _zones(bound)["z0"] > 2 else None


class Bound(NamedTuple):
    """A clause, what passes it, and how many of many pods get a node."""

    clause: str
    broken: object
    most: int


BOUNDS = {
    "limit": Bound(f'limit "b" {{ {WEB} per node at most 1 strict }}', _too_many_on_a_node, 4),
    "spread": Bound(
        f'spread "b" {{ {WEB} over node.zone skew at most 1 strict }}', _too_skewed, 99
    ),
    "share": Bound(
        f'share "b" {{ of {WEB} on nodes where node.zone == "z0" at most 2 strict }}',
        _too_many_in_a_zone,
        99,
    ),
}


def world_of(bound: Bound, seed: int, schedulers: Schedulers) -> World:
    text = f'policy p {{ for pods where pod.labels["app"] == "web"\n{bound.clause} }}'
    broken = bound.broken
    assert callable(broken)
    return World(registry_of(text), NODES, broken, Random(seed), schedulers)


EXAMPLES = 40

# What happens, and how often compared with the others.
STEPS = [
    *["create_pod", "schedule", "schedule_slowly", "burst", "see_some", "pass_second"] * 3,
    "schedule_in_vain",
    *["create_gated", "create_foreign", "create_oversized", "pass_seconds", "see_all"],
    *["ask_the_other", "restart_asked", "restart_other", "freeze_asked", "thaw", "cut_off"],
    *["replace_scheduler", "delete_pod"],
]
# A decides, B decides, A decides again from what it remembers.
_BACK = [
    *["create_pod", "schedule_in_vain", *["pass_second"] * 4, "see_all", "schedule_in_vain"],
    *["pass_second"] * 4,
    *["schedule_in_vain", "ask_the_other", *["pass_second", "schedule_slowly"] * 20],
    *["restart_asked", "ask_the_other", "pass_seconds", "create_pod"],
    *["schedule", "pass_second"] * 9,
]
# A leader is killed while its pods are on their way, and the next one decides at once.
_KILLED = [
    *["create_pod", "schedule_slowly", "restart_asked", "pass_seconds"],
    *["create_pod", *["burst", "pass_second"] * 6],
]
# Pods that nobody places are there when a leader starts.
_STUCK = [
    *["create_gated", "create_foreign", "create_oversized", "restart_asked", "pass_seconds"],
    *["create_pod"] * 4,
]
# kube-scheduler binds a pod and ends, and no watch shows the pod in time.
_UNSEEN = ["create_pod", "burst", "pass_second", "create_pod", "replace_scheduler", "burst"]


@pytest.mark.parametrize("call_bind", [False, True], ids=["without bind", "with bind"])
@pytest.mark.parametrize("kind", BOUNDS)
@settings(max_examples=EXAMPLES, deadline=None)
@given(steps=st.lists(st.sampled_from(STEPS), max_size=60), seed=st.integers(0, 99))
@example(steps=_BACK, seed=2)
@example(steps=_BACK, seed=5)
@example(steps=_KILLED, seed=10)
@example(steps=_KILLED, seed=11)
@example(steps=_STUCK, seed=0)
@example(steps=_UNSEEN, seed=5)
def test_no_bound_is_passed_and_no_pod_waits_for_ever(
    kind: str, call_bind: bool, steps: list[str], seed: int
) -> None:
    bound = BOUNDS[kind]
    world = world_of(bound, seed, Schedulers(call_bind=call_bind, is_watched=True))
    try:
        for step in steps:
            getattr(world, step)()
        assert world.passed == []
        world.settle()
    finally:
        world.close()
    assert world.passed == []
    placed = sum(1 for o in world.server.objects.values() if o["spec"].get("nodeName"))
    wanted = min(bound.most, placed + len(set(world.left)))
    assert placed == wanted, f"{world.left} wait for ever"


# ---- the cases that docs/operations/replicas.md names


def _arrives_late(world: World) -> None:
    """The leader is killed, and a Binding arrives after the window of the next one."""
    world.create_pod()
    world.schedule_slowly()
    world.late(80.0)
    world.restart_asked()
    for _ in range(3):
        world.pass_seconds()
    world.see_all()
    world.create_pod()
    for _ in range(8):
        world.burst()
        world.pass_second()
    world.pass_seconds()


def _freezes(world: World) -> None:
    """kube-scheduler stops, another process places pods, and the first one goes on."""
    for _ in range(4):
        world.create_pod()
    world.see_all()
    world.schedule_slowly()
    held = world.freeze_scheduler()
    for _ in range(4):
        world.schedule()  # the pod was not bound where it was offered a node, so it has to wait
    world.pass_second()
    world.thaw_scheduler(held)


@pytest.mark.parametrize("case", [_arrives_late, _freezes])
@pytest.mark.parametrize("call_bind", [False, True], ids=["without bind", "with bind"])
def test_a_documented_case_passes_a_bound_only_without_bind(
    case: Callable[[World], None], call_bind: bool
) -> None:
    passed = []
    for seed in range(40):
        world = world_of(BOUNDS["limit"], seed, Schedulers(call_bind=call_bind, is_watched=True))
        case(world)
        passed += world.passed
        world.close()
    assert bool(passed) is not call_bind

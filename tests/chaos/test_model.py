"""The model of a simulated cluster: which nodes a pod may be offered, whatever comes of others."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

import pytest

from tests.chaos import workload
from tests.chaos.observer import HOSTILE, TAKEN
from tests.chaos.schedule import NODES, Action
from tests.chaos.simulated.model import Model


def _node(name: str) -> dict[str, Any]:
    return {**workload.node_named(name), "spec": {}}


def _pod(app: str, node: str = "", *, ends: bool = False, phase: str = "", label: str = "") -> Any:
    action = Action(0.0, "create", {"name": "p", "app": app, "count": "1"})
    (made,) = workload.pods_of(action, "chaos")
    made["metadata"]["labels"][label] = "true"
    made["spec"]["nodeName"] = node
    made["status"] = {"phase": phase}
    if ends:
        made["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return made


def _open_to(app: str, *others: Any, on_their_way: Collection[str] = ()) -> list[str]:
    """Those of three nodes of different zones, of which the last one is steady."""
    names = (NODES[0], NODES[1], NODES[8])
    pods = {f"{number}": pod for number, pod in enumerate(others)}
    flights = {"flight": on_their_way} if on_their_way else {}
    if flights:
        pods["flight"] = _pod(app)
    nodes = {name: _node(name) for name in names}
    model = Model(nodes, pods, flights, budget=2, pool="x")
    return sorted(model.open_to(app, names), key=NODES.index)


@pytest.mark.parametrize("app", ["limited", "summed"])
def test_a_limit_counts_pods_that_end_and_those_on_their_way(app: str) -> None:
    there, ends = _pod(app, "n0"), _pod(app, "n0", ends=True)
    assert _open_to(app, there) == ["n0", "n1", "n8"]
    assert _open_to(app, there, ends) == ["n1", "n8"]
    assert _open_to(app, there, on_their_way=["n0", "n1"]) == ["n1", "n8"]
    assert _open_to(app, there, _pod(app, "n0", phase="Failed")) == ["n0", "n1", "n8"]
    assert _open_to(app, there, _pod(app, "n0", label=HOSTILE)) == ["n0", "n1", "n8"]


def test_floors_need_the_pods_that_are_left() -> None:
    """Of one pod, and of three, one is in each zone: the third of the nodes is in another one."""
    assert _open_to("floored") == ["n0", "n1"]
    assert _open_to("floored", _pod("floored", "n0")) == ["n1"]
    assert _open_to("floored", _pod("floored", "n0"), _pod("floored", "n1")) == ["n0", "n1", "n8"]
    left = _pod("floored")
    assert _open_to("floored", _pod("floored", "n0"), left) == ["n0", "n1", "n8"]
    assert _open_to("floored", _pod("floored", "n0"), on_their_way=["n1", "n8"]) == ["n1"]
    assert _open_to("floored", _pod("floored", "n0", ends=True)) == ["n0", "n1"]


def test_a_mutual_limit_holds_for_those_that_come_and_for_those_that_are_there() -> None:
    crowd, guarded = _pod("crowd", "n0"), _pod("guarded", "n0")
    assert _open_to("guarded", crowd) == ["n0", "n1", "n8"]
    assert _open_to("guarded", crowd, crowd) == ["n1", "n8"]
    assert _open_to("crowd", guarded) == ["n0", "n1", "n8"]
    assert _open_to("crowd", guarded, crowd) == ["n1", "n8"]
    assert _open_to("crowd", crowd, crowd) == ["n0", "n1", "n8"]


def test_a_budget_is_of_the_cluster() -> None:
    assert _open_to("budget", _pod("budget", "n0")) == ["n0", "n1", "n8"]
    assert _open_to("budget", _pod("budget", "n0"), on_their_way=["n8"]) == []


def test_a_share_is_of_all_pods_that_do_not_end() -> None:
    """Of one pod none may be on a spot node, of three one, and of five two."""
    ended = [_pod("shared", ends=True)] * 4
    assert _open_to("shared", *ended) == ["n8"]
    assert _open_to("shared", *[_pod("shared")] * 2) == ["n0", "n1", "n8"]
    assert _open_to("shared", _pod("shared", "n0"), _pod("shared")) == ["n8"]
    assert _open_to("shared", _pod("shared"), on_their_way=["n0"]) == ["n8"]


def test_a_spread_compares_with_what_is_there_for_sure() -> None:
    assert _open_to("even") == ["n0", "n1", "n8"]
    assert _open_to("even", _pod("even", "n0")) == ["n1", "n8"]
    assert _open_to("even", _pod("even", "n0", ends=True)) == ["n0", "n1", "n8"]
    assert _open_to("even", on_their_way=["n1", "n8"]) == ["n0"]
    # Where the pod on its way ends in the emptiest zone, that has as many as the others.
    others = _pod("even", "n0"), _pod("even", "n1")
    assert _open_to("even", *others, on_their_way=["n8"]) == ["n8"]
    assert _open_to("even", *others, on_their_way=["n1", "n8"]) == ["n8"]


def test_a_pool_and_cards() -> None:
    assert _open_to("pooled") == ["n0", "n8"]
    taken = _pod("cards", "n0")
    takes = {"cards/gpu": {"cards": [0, 1], "take": {"milli": 600}}}
    taken["metadata"]["annotations"][TAKEN] = json.dumps(takes)
    assert _open_to("cards", taken) == ["n1", "n8"]

"""Disruption budgets: which pods they cover, and whose eviction would violate one."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from engine.objects.disruption_budget import by_namespace, decode_budget, violating
from engine.objects.peer import Peer
from tests.support import builders
from tests.support.engines import peer_of


def budget(selector: object, allowed: int = 0, name: str = "b", **status: Any) -> bytes:
    document = {
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {} if selector is None else {"selector": selector},
        "status": {"disruptionsAllowed": allowed, **status},
    }
    return msgspec.json.encode(document)


def pod(name: str, namespace: str = "shop", **labels: str) -> Peer:
    made = builders.pod(name, namespace, on="n1", labels=labels or None)
    made["metadata"]["uid"] = name
    return peer_of(made)


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": [*values]}]}


@pytest.mark.parametrize(
    ("selector", "covered"),
    [
        ({"matchLabels": {"app": "web"}}, "a"),
        (expression("app", "In", "web", "db"), "a b"),
        (expression("app", "NotIn", "web"), "b other"),
        (expression("app", "Exists"), "a b"),
        (expression("app", "DoesNotExist"), "other"),
        ({"matchLabels": {"app": "web"}, **expression("tier", "Exists")}, ""),
        # As in kube-scheduler: an empty selector selects nothing, and so does an invalid one.
        ({}, ""),
        (None, ""),
        ({"matchLabels": {}}, ""),
        (expression("app", "Like", "web"), ""),
        (expression("app", "In"), ""),
        (expression("app", "Exists", "web"), ""),
    ],
)
def test_which_pods_a_budget_covers(selector: object, covered: str) -> None:
    pods = [
        pod("a", app="web"),
        pod("b", app="db"),
        pod("other", color="red"),
        pod("bare"),
        pod("elsewhere", "far", app="web"),
    ]
    found = decode_budget(budget(selector))
    assert [each.name for each in pods if found.covers(each)] == covered.split()


def test_a_budget_allows_the_first_ones() -> None:
    """kube-scheduler: each pod takes one of what is allowed, in the order of importance."""
    pods = [pod(name, app="web") for name in "abcd"]
    one = decode_budget(budget({"matchLabels": {"app": "web"}}, 2))
    assert violating(pods, by_namespace([one])) == {"c", "d"}
    assert violating(reversed(pods), by_namespace([one])) == {"a", "b"}
    assert violating(pods, {}) == frozenset()


def test_a_pod_that_is_disrupted_already_takes_nothing() -> None:
    pods = [pod(name, app="web") for name in "abc"]
    disrupted = {"a": "2026-11-21T10:00:00Z"}
    one = decode_budget(budget({"matchLabels": {"app": "web"}}, 1, disruptedPods=disrupted))
    assert violating(pods, by_namespace([one])) == {"c"}


def test_each_of_several_budgets_counts() -> None:
    pods = [pod("a", app="web", tier="x"), pod("b", app="web"), pod("c", tier="x")]
    web = decode_budget(budget({"matchLabels": {"app": "web"}}, 1, "web"))
    tier = decode_budget(budget({"matchLabels": {"tier": "x"}}, 0, "tier"))
    # The first takes the one of `web` although `tier` allows none.
    assert violating(pods, by_namespace([web, tier])) == {"a", "b", "c"}


def test_a_new_budget_without_a_status_allows_nothing() -> None:
    document = {"metadata": {"name": "b", "namespace": "shop"}}
    found = decode_budget(msgspec.json.encode(document))
    assert (found.allowed, found.disrupted) == (0, frozenset())

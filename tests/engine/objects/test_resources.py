"""Resources, eligibility and budgets of pods, compared with kube-scheduler's own code."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from engine.objects.disruption_budget import by_namespace, decode_budget, violating
from engine.objects.eligibility import matches_affinity, tolerates
from engine.objects.peer import Peer
from engine.objects.request_pod import ObjectCodec
from engine.objects.resources import (
    PodRequests,
    pod_limits,
    pod_requests,
    total_requests,
)
from grammar.meaning.schema import load_schema
from grammar.values.quantity import Quantity, Resources
from tests.support import builders
from tests.support.builders import Object, node, pod, raw
from tests.support.engines import CODEC, node_of, peer_of

TESTS = Path(__file__).parents[2]
# Written by tests/support/schema/requests with the Go code that kube-scheduler 1.36 runs.
CASES_FILE = TESTS / "contract" / "pod_resources.json"
CASES: list[dict[str, Any]] = json.loads(CASES_FILE.read_text("utf-8"))


def quantities(amounts: dict[str, str]) -> dict[str, Quantity]:
    return {name: Quantity.parse(text) for name, text in amounts.items()}


@pytest.fixture(scope="module")
def codec() -> ObjectCodec:
    return ObjectCodec(load_schema())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_sums_equal_those_of_kube_scheduler(codec: ObjectCodec, case: dict[str, Any]) -> None:
    data = msgspec.json.encode(case["pod"])
    for read in (codec.pod(data), codec.peer(data)):
        assert read.requests == quantities(case["requests"])
        assert read.limits == quantities(case["limits"])


def test_a_pod_without_a_spec_has_no_requests() -> None:
    assert pod_requests(None, None) == {}
    assert pod_limits(None, None) == {}


def test_the_quantities_of_the_object_do_not_change(codec: ObjectCodec) -> None:
    container = {"resources": {"requests": {"cpu": "1"}}}
    pod = codec.pod(
        msgspec.json.encode(
            {
                "spec": {
                    "containers": [container, container],
                    "initContainers": [container | {"restartPolicy": "Always"}],
                    "overhead": {"cpu": "5"},
                }
            }
        )
    )
    assert pod.requests == quantities({"cpu": "8"})
    assert pod.spec.containers[0].resources.requests == quantities({"cpu": "1"})
    assert pod.spec.overhead == quantities({"cpu": "5"})


def test_an_absent_resource_is_zero() -> None:
    amounts = Resources(quantities({"cpu": "1"}))
    assert amounts["memory"] == Quantity.parse("0")
    assert "memory" not in amounts
    assert len(amounts) == 1


def test_a_pod_takes_one_pod_without_a_request() -> None:
    requests = PodRequests()
    assert requests["pods"] == Quantity.parse("1")
    assert requests["cpu"] == Quantity.parse("0")
    assert not requests


def test_totals_count_the_pods() -> None:
    pods = [
        PodRequests(quantities({"cpu": "100m"})),
        PodRequests(quantities({"cpu": "1", "a/b": "2"})),
    ]
    assert total_requests(pods) == quantities({"cpu": "1100m", "a/b": "2", "pods": "2"})
    assert total_requests([]) == quantities({"pods": "0"})


@pytest.mark.e2e
def test_the_recorded_sums_are_those_of_go() -> None:
    go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    if go is None:
        pytest.skip("needs Go")
    with CASES_FILE.open("rb") as cases:
        command = [go, "run", "./requests"]
        folder = TESTS / "support" / "schema"
        printed = subprocess.run(command, cwd=folder, check=True, capture_output=True, stdin=cases)
    assert printed.stdout == CASES_FILE.read_bytes()


# ---- eligibility: node affinity and tolerations where they are easily misread


def requirement(operator: str, *values: str, key: str = "k") -> Object:
    return {"key": key, "operator": operator, "values": list(values)}


def matches(terms: list[Object], label: str | None) -> bool:
    """Whether a node with the label `k`, or without it, matches one of the terms."""
    selector = {"nodeSelectorTerms": terms}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": selector}
    asked = pod("p", spec={"affinity": {"nodeAffinity": required}})
    labels = {} if label is None else {"k": label}
    return matches_affinity(CODEC.pod(raw(asked)), node_of(node("n", labels=labels)))


@pytest.mark.parametrize(
    ("operator", "values", "label", "wanted"),
    [
        ("Gt", ["5"], "10", True),
        ("Gt", ["5"], "5", False),
        ("Lt", ["5"], "-10", True),
        ("Gt", ["5"], "+10", True),
        ("Gt", ["5"], "1_0", False),
        ("Gt", ["5"], " 10", False),
        ("Gt", ["5"], "\u0661\u0660", False),
        ("Gt", ["5"], "9223372036854775808", False),
        ("Gt", ["5"], None, False),
        ("Gt", ["-10"], "10", False),
        ("Gt", ["1_0"], "100", False),
        ("Gt", ["1", "2"], "3", False),
        ("NotIn", ["-a"], "b", False),
        ("NotIn", ["a" * 64], "b", False),
        ("NotIn", [], "b", False),
        ("NotIn", [""], "b", True),
        ("In", ["a_b.c-d"], "a_b.c-d", True),
        ("Exists", ["a"], "a", False),
        ("DoesNotExist", [], None, True),
    ],
)
def test_requirement(operator: str, values: list[str], label: str | None, wanted: Any) -> None:
    assert matches([{"matchExpressions": [requirement(operator, *values)]}], label) is wanted


def test_a_requirement_that_is_not_valid_drops_its_term_alone() -> None:
    broken = {"matchExpressions": [requirement("NotIn", "-1"), requirement("Exists")]}
    assert not matches([broken], "a")
    assert matches([broken, {"matchExpressions": [requirement("Exists")]}], "a")


def test_a_field_has_one_value() -> None:
    def fields(*values: str) -> list[Object]:
        return [{"matchFields": [requirement("In", *values, key="metadata.name")]}]

    assert matches(fields("n"), None)
    assert not matches(fields("n", "m"), None)


@pytest.mark.parametrize(
    ("toleration", "wanted"),
    [
        ({"key": "k", "value": "5"}, True),
        ({"key": "k", "operator": "Exists"}, True),
        ({"operator": "Exists"}, True),
        ({"operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "k", "operator": "Gt", "value": "5"}, False),
        ({"key": "k", "operator": "Lt", "value": "6"}, False),
    ],
)
def test_toleration(toleration: Object, wanted: Any) -> None:
    """Gt and Lt are behind a feature gate that is off."""
    made = node("n")
    made["spec"]["taints"] = [{"key": "k", "value": "5", "effect": "NoSchedule"}]
    asked = pod("p", spec={"tolerations": [toleration]})
    assert tolerates(CODEC.pod(raw(asked)), node_of(made)) is wanted


@pytest.mark.parametrize("operator", [{}, {"operator": "Equal"}, {"operator": ""}])
@pytest.mark.parametrize("tolerated", [{}, {"value": ""}])
@pytest.mark.parametrize(
    ("there", "wanted"), [({}, True), ({"value": ""}, True), ({"value": "a"}, False)]
)
def test_a_toleration_without_a_value_is_for_a_taint_without_one(
    operator: Object, tolerated: Object, there: Object, wanted: Any
) -> None:
    """An empty value is one like others, and no `Exists`."""
    made = node("n")
    made["spec"]["taints"] = [{"key": "k", "effect": "NoSchedule", **there}]
    asked = pod("p", spec={"tolerations": [{"key": "k", **operator, **tolerated}]})
    assert tolerates(CODEC.pod(raw(asked)), node_of(made)) is wanted


# ---- disruption budgets: which pods they cover, and whose eviction would violate one


def budget(selector: object, allowed: int = 0, name: str = "b", **status: Any) -> bytes:
    document = {
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {} if selector is None else {"selector": selector},
        "status": {"disruptionsAllowed": allowed, **status},
    }
    return msgspec.json.encode(document)


def pod_of_disruption_budget(name: str, namespace: str = "shop", **labels: str) -> Peer:
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
        pod_of_disruption_budget("a", app="web"),
        pod_of_disruption_budget("b", app="db"),
        pod_of_disruption_budget("other", color="red"),
        pod_of_disruption_budget("bare"),
        pod_of_disruption_budget("elsewhere", "far", app="web"),
    ]
    found = decode_budget(budget(selector))
    assert [each.name for each in pods if found.covers(each)] == covered.split()


def test_a_budget_allows_the_first_ones() -> None:
    """kube-scheduler: each pod takes one of what is allowed, in the order of importance."""
    pods = [pod_of_disruption_budget(name, app="web") for name in "abcd"]
    one = decode_budget(budget({"matchLabels": {"app": "web"}}, 2))
    assert violating(pods, by_namespace([one])) == {"c", "d"}
    assert violating(reversed(pods), by_namespace([one])) == {"a", "b"}
    assert violating(pods, {}) == frozenset()


def test_a_pod_that_is_disrupted_already_takes_nothing() -> None:
    pods = [pod_of_disruption_budget(name, app="web") for name in "abc"]
    disrupted = {"a": "2026-11-21T10:00:00Z"}
    one = decode_budget(budget({"matchLabels": {"app": "web"}}, 1, disruptedPods=disrupted))
    assert violating(pods, by_namespace([one])) == {"c"}


def test_each_of_several_budgets_counts() -> None:
    pods = [
        pod_of_disruption_budget("a", app="web", tier="x"),
        pod_of_disruption_budget("b", app="web"),
        pod_of_disruption_budget("c", tier="x"),
    ]
    web = decode_budget(budget({"matchLabels": {"app": "web"}}, 1, "web"))
    tier = decode_budget(budget({"matchLabels": {"tier": "x"}}, 0, "tier"))
    # The first takes the one of `web` although `tier` allows none.
    assert violating(pods, by_namespace([web, tier])) == {"a", "b", "c"}


def test_a_new_budget_without_a_status_allows_nothing() -> None:
    document = {"metadata": {"name": "b", "namespace": "shop"}}
    found = decode_budget(msgspec.json.encode(document))
    assert (found.allowed, found.disrupted) == (0, frozenset())

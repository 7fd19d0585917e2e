"""Sums: what each pod adds, and the rules of counts with amounts in the place of ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from engine.cache.pods_excluding import PodsExcluding
from engine.cache.tallies import FULL
from engine.program.operations import added, sum_bound
from grammar.values.errors import EvaluationError
from grammar.values.quantity import Quantity
from tests.engine.counting.helpers import Reports, clause_of, counting_of, groups_of, update
from tests.support.builders import Object, controller, node, pod
from tests.support.engines import peer_of
from tests.support.rows import rows

NODES = [node("n1", "a"), node("n2", "a"), node("n3", "b"), node("n4")]
CPU = 'limit "l" { sum peer.requests["cpu"] of pods where true per %s strict }'
SLOTS = 'limit "l" { sum int(peer.labels["slots"]) of pods where true per node at most 9 strict %s}'
HUGE = "9E"
ASKED = pod("asked", cpu="1500m")


def slots(name: str, number: str | None, **fields: Any) -> Object:
    return pod(name, labels={} if number is None else {"slots": number}, **fields)


def opened(text: str, pods: Sequence[Object], asked: Object, reports: Reports) -> str:
    """The nodes with headroom, and after a slash those that have it without in-flight pods."""
    (found,) = counting_of(NODES, pods).headrooms(text, asked, report=reports)
    names = [made["metadata"]["name"] for made in NODES]
    masks = (found.open, found.hopeful)
    shown = (" ".join(n for n, m in zip(names, mask, strict=True) if m) for mask in masks)
    return " / ".join(shown)


# ---- what a pod adds


def test_each_amount_of_the_same_pods_has_its_own_sum() -> None:
    counting = counting_of(NODES, [pod("p", cpu="2", memory="3", on="n1")])
    for resource, sum_ in (("cpu", 2000), ("memory", 3000), ("cpu", 2000)):
        clause = clause_of((CPU % 'node at most "9"').replace("cpu", resource))
        assert counting.count(clause, pod("asked", cpu="1", memory="1")).high == {"n1": sum_}


@rows(
    ("value", "wanted"),
    {
        "a quantity": (Quantity.parse("2"), 2000),
        "thousandths": (Quantity.parse("1500m"), 1500),
        "less is rounded up": (Quantity.parse("1n"), 1),
        "so is the rest of a division": (Quantity.parse("1000001n"), 2),
        "nothing": (Quantity.parse("0"), 0),
        "bytes": (Quantity.parse("1Gi"), 2**30 * 1000),
        "an int": (3, 3000),
        "a double as it is written": (0.1, 100),
        "a small double": (0.0001, 1),
    },
)
def test_amounts_are_in_thousandths(value: object, wanted: int) -> None:
    assert added(value) == wanted


@rows(
    ("value", "said"),
    {
        "an int": (-1, "the amount is negative: -1"),
        "a double": (-0.5, "the amount is negative: -0.5"),
        "however small it is": (Quantity.parse("-1n"), "the amount is negative: -1n"),
        "not a number": (float("nan"), "an amount is a number or a quantity"),
        "infinite": (float("inf"), "an amount is a number or a quantity"),
        "a text": ("1", "an amount is a number or a quantity"),
        "a bool": (True, "an amount is a number or a quantity"),
    },
)
def test_other_values_are_no_amounts(value: object, said: str) -> None:
    with pytest.raises(EvaluationError) as raised:
        added(value)
    assert str(raised.value) == said


@rows(
    ("value", "down", "up"),
    {
        "a part of a thousandth": (Quantity.parse("1500u"), 1, 2),
        "bytes": (Quantity.parse("4Gi"), 4 * 2**30 * 1000, 4 * 2**30 * 1000),
        "a double": (1.5, 1500, 1500),
        "a negative one is 0": (-3, 0, 0),
        "never full": (2**63 - 1, FULL - 1, FULL - 1),
    },
)
def test_bounds_of_sums_are_rounded_to_the_safe_side(value: object, down: int, up: int) -> None:
    assert (sum_bound(value, up=False), sum_bound(value, up=True)) == (down, up)


# ---- sums by group


def test_a_pod_adds_its_amount_where_it_is_or_may_be() -> None:
    """Bound and in-flight pods, those that are assumed, and nominated ones; the pod itself not."""
    nominated = pod("nominated", cpu="7", priority=5)
    nominated["status"]["nominatedNodeName"] = "n4"
    pods = [pod("p", cpu="1", on="n1"), pod("q", cpu="250m", on="n1"), pod("r", cpu="2", on="n2")]
    counting = counting_of(NODES, [*pods, nominated, ASKED, pod("none", on="n3")])
    counting.offer(pod("offered", cpu="3"), "n2", "n3")
    counting.offer(pod("alike", cpu="3"), "n3")
    counting.cache.assume(peer_of(pod("assumed", cpu="500m")), "n1", 60.0)
    found = counting.count(clause_of(CPU % "node at most 4"), ASKED)
    assert found.high == {"n1": 1750, "n2": 5000, "n3": 6000, "n4": 7000}
    assert found.low == {"n1": 1250, "n2": 2000}
    assert found.own == 1500


@rows(
    ("scope", "wanted"),
    {
        "node": ("node", {"n1": 1000, "n2": 2000, "n3": 4000}),
        "domain": ("node.zone", {"0": 3000, "1": 4000}),
        "cluster": ("cluster", {"0": 7000}),
    },
)
def test_sums_are_per_node_domain_and_cluster(scope: str, wanted: dict[str, int]) -> None:
    pods = [pod(f"p{n}", cpu=str(2**n), on=f"n{n + 1}") for n in range(3)]
    found = counting_of(NODES, pods).count(clause_of(CPU % f"{scope} at most 9"), ASKED)
    assert found.high == wanted


def test_without_pods_where_the_pods_of_the_workload_add_up() -> None:
    web = controller("ReplicaSet", "web")
    pods = [pod("p", cpu="2", on="n1", owner=web), pod("other", cpu="4", on="n1")]
    clause = clause_of('limit "l" { sum peer.requests["cpu"] per node at most 9 strict }')
    found = counting_of(NODES, pods).count(clause, pod("asked", cpu="1", owner=web))
    assert (found.high, found.own) == ({"n1": 2000}, 1000)


def test_a_count_and_a_sum_of_one_workload_are_apart() -> None:
    """Tallies of workloads are shared between clauses, but not between these."""
    web = controller("ReplicaSet", "web")
    counting = counting_of(NODES, [pod("p", cpu="2", on="n1", owner=web)])
    asked = pod("asked", cpu="1", owner=web)
    count = clause_of('limit "l" { per node at most 9 strict }')
    total = clause_of('limit "l" { sum peer.requests["cpu"] per node at most 9 strict }')
    assert counting.count(count, asked).high == {"n1": 1}
    assert counting.count(total, asked).high == {"n1": 2000}
    assert counting.count(count, asked).high == {"n1": 1}


def test_victims_that_are_gone_add_nothing() -> None:
    pods = [pod("p", cpu="1", on="n1"), pod("q", cpu="2", on="n1")]
    counting = counting_of(NODES, pods)
    left = PodsExcluding(counting.cache, [peer_of(pods[1])])
    assert counting.count(clause_of(CPU % "node at most 9"), ASKED, pods=left).high == {"n1": 1000}


# ---- amounts that are missing or negative


@rows(
    ("number", "said"),
    {
        "missing": (None, "l: there is no key `slots`"),
        "negative": ("-1", "l: the amount is negative: -1"),
        "an error": ("many", "l: `many` is not an int"),
    },
)
def test_a_pod_without_an_amount_fits_nowhere_and_is_reported(
    number: str | None, said: str
) -> None:
    reports = Reports()
    assert opened(SLOTS % "", [], slots("asked", number), reports) == " / "
    assert set(reports.heard) == {said}


def test_missing_pass_counts_an_amount_without_a_value_as_nothing() -> None:
    reports, full = Reports(), slots("p", "9", on="n1")
    assert opened(SLOTS % "missing pass ", [full], slots("asked", None), reports) == (
        "n1 n2 n3 n4 / n1 n2 n3 n4"
    )
    assert set(reports.heard) == {"l: there is no key `slots`"}
    assert opened(SLOTS % "missing pass ", [full], slots("asked", "-1"), Reports()) == (
        "n1 n2 n3 n4 / n1 n2 n3 n4"
    )


@pytest.mark.parametrize("number", [None, "-1"])
def test_other_pods_without_an_amount_add_nothing_and_are_reported(number: str | None) -> None:
    reports, there = Reports(), [slots("p", number, on="n1"), slots("q", "8", on="n1")]
    assert opened(SLOTS % "", there, slots("asked", "1"), reports) == "n1 n2 n3 n4 / n1 n2 n3 n4"
    assert len(reports.heard) == 1
    assert opened(SLOTS % "", there, slots("asked", "2"), Reports()) == "n2 n3 n4 / n2 n3 n4"


def test_a_pod_that_the_clause_does_not_count_needs_no_amount() -> None:
    text = (
        'limit "l" { sum int(peer.labels["slots"]) of pods where peer.name != "asked"'
        " per node at most 9 strict }"
    )
    assert opened(text, [], slots("asked", None), Reports()) == "n1 n2 n3 n4 / n1 n2 n3 n4"


# ---- sums beyond 64 bits


@pytest.mark.parametrize("scope", ["node", "node.zone", "cluster"])
def test_a_sum_that_is_too_large_is_full(scope: str) -> None:
    """Also together with in-flight pods, and with a bound beyond it."""
    pods = [pod(f"p{number}", cpu=HUGE, on="n1") for number in range(9)]
    counting = counting_of(NODES, pods)
    for number in range(5):
        counting.offer(pod(f"q{number}", cpu=HUGE), "n3")
    found = counting.count(clause_of(CPU % f"{scope} at most 9"), ASKED)
    assert set(found.high.values()) == {FULL}
    (headroom,) = counting.headrooms(CPU % f"{scope} at most {2**63 - 1}", ASKED, ["n1"])
    assert headroom.open.tolist() == [False]


def test_a_full_sum_has_room_again_when_pods_leave() -> None:
    counting = counting_of(NODES, [pod("small", cpu="2", on="n1")])
    clause = clause_of(CPU % "node.zone at most 9")
    groups = groups_of(CPU % "node.zone at most 9")
    update(groups, counting.table, ASKED)

    def high() -> int:
        update(groups, counting.table, ASKED)
        return int(counting.counter(ASKED).count(groups.clause, groups, predicted=False).high[0])

    sums = [high()]
    for number in range(5):
        counting.cache.put_pod(peer_of(pod(f"p{number}", cpu=HUGE, on=f"n{1 + number % 2}")))
        sums.append(high())
    for number in range(5):
        counting.cache.remove_pod(f"default/p{number}")
        sums.append(high())
    assert sums == [2000, *[FULL] * 9, 2000]
    assert counting.count(clause, ASKED).high == {"0": 2000}

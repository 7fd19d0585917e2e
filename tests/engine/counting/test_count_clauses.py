"""Count clauses: where strict ones let a pod go, the points of the others, and deletion costs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from engine.counting.bounds import Mask
from engine.counting.count_clauses import CountClauses, most_pods
from engine.objects.peer import TEMPLATE_HASH, template_of
from tests.engine.counting.helpers import (
    ASKED,
    LIMIT,
    Counting,
    Reports,
    clause_of,
    clauses_of,
    counting_of,
)
from tests.support.books import integers, table
from tests.support.builders import Object, controller, node, pod, web
from tests.support.engines import evaluation_of, frame_of
from tests.support.rows import rows

IS_WEB = 'peer.labels["app"] == "web"'
NODES = [
    node("a", labels={"cap": "spot", "zone": "x"}),
    node("b", labels={"cap": "od", "zone": "x"}),
    node("c", labels={"cap": "od", "zone": "y"}),
    node("d"),
]


def share(bound: str) -> str:
    return (
        f'share "s" {{ pods where {IS_WEB} on nodes where node.labels["cap"] == "spot"'
        f" {bound} strict }}"
    )


def spread(rest: str = "strict") -> str:
    return f'spread "z" {{ pods where {IS_WEB} over node.labels["zone"] skew at most 1 {rest} }}'


def names(mask: Mask) -> str:
    return "".join(name for name, is_open in zip("abcd", mask, strict=True) if is_open)


# ---- spreads over the same domains


def test_spreads_share_their_groups() -> None:
    """Each gives the points that it gives alone, and reports what fails."""
    bad = 'node.labels["cap"] == "spot" ? string(1 / size(node.spec.taints)) : node.labels["zone"]'
    zones = 'spread "{}" {{ pods where {} nodes {} over {} skew at most 1 weight {} }}'
    written = [
        zones.format("a", IS_WEB, "eligible", 'node.labels["zone"]', 1),
        zones.format("b", 'peer.labels["app"] == "db"', "eligible", 'node.labels["zone"]', 2),
        zones.format("c", IS_WEB, "all", 'node.labels["zone"]', 3),
        zones.format("d", IS_WEB, "eligible", "node.name", 4),
        zones.format("e", IS_WEB, "eligible", bad, 5),
        zones.format("f", 'peer.labels["app"] == "db"', "eligible", bad, 6),
    ]
    pods = [web("p", on="a"), pod("q", labels={"app": "db"}, on="c")]
    found, heard = reported_terms(counting_of(NODES, pods), " ".join(written))
    alone = [reported_terms(counting_of(NODES, pods), each) for each in written]
    assert found == [term for terms_, _ in alone for term in terms_]
    assert heard == [line for _, lines in alone for line in lines]
    assert {line[0] for line in heard} == {"e", "f"}


def test_spreads_over_other_nodes_have_other_groups() -> None:
    """They count in the same domains, but one leaves out a cordoned node."""
    nodes = [*NODES[:2], node("c", labels={"zone": "y"}, unschedulable=True), NODES[3]]
    every = spread("nodes all weight 5")
    eligible = every.replace("nodes all", "nodes eligible").replace('"z"', '"y"')
    counting = counting_of(nodes, [web("p", on="a")])
    assert terms(counting, every + eligible) == terms(counting, every) + terms(counting, eligible)
    assert terms(counting, every) != terms(counting, eligible)


def reported_terms(
    counting: Counting, text: str
) -> tuple[list[tuple[float, list[float]]], list[str]]:
    """The weights and points, and the errors that were reported."""
    rows, reports = counting.table.find(list("abcd")), Reports()
    evaluation = evaluation_of(frame_of(ASKED), report=reports)
    clauses = CountClauses(clauses_of(text), evaluation)
    found = clauses.terms(counting.counter(), counting.table, rows, evaluation)
    return [(weight, points.tolist()) for weight, points in found], reports.heard


# ---- where there is headroom


def test_the_first_pod_of_its_kind_may_go_to_any_domain() -> None:
    """One that waits, or is on a node without the domain, is nobody to be near to."""
    near = f'limit "l" {{ pods where {IS_WEB} per node.labels["zone"] at least 1 strict }}'
    (found,) = counting_of(NODES, [web("p", on="d"), web("q")]).headrooms(near)
    assert names(found.open) == "abc"
    (found,) = counting_of(NODES, [web("p", on="d"), web("q", on="c")]).headrooms(near)
    assert names(found.open) == "c"


def test_headroom_is_in_the_order_that_is_asked_for() -> None:
    (found,) = counting_of(NODES).headrooms(share("at most 0"), nodes=["c", "a", "c", "unknown"])
    assert found.open.tolist() == [True, False, True, False]
    assert found.groups.tolist() == [0, 1, 0, -1]


def test_hopeful_is_without_the_pods_in_flight() -> None:
    """Where only these stand in the way, the pod waits for them and is not rejected."""
    counting = counting_of(NODES)
    counting.offer(web("p"), "a", "b")
    (found,) = counting.headrooms(share("at most 1"))
    assert (names(found.open), names(found.hopeful)) == ("bcd", "abcd")


@rows(
    ("text", "asked", "wanted", "reports"),
    {
        "a clause without `when`": (share("at most 1"), ASKED, ["s"], []),
        "`when` is true": (
            share("at most 1").replace('"s"', '"s" when pod.priority > 0'),
            pod("asked", priority=1),
            ["s"],
            [],
        ),
        "`when` is false": (
            share("at most 1").replace('"s"', '"s" when pod.priority > 0'),
            pod("asked", priority=0),
            [],
            [],
        ),
        "`when` is missing": (
            share("at most 1").replace('"s"', '"s" when pod.labels["tier"] == "x"'),
            pod("asked"),
            [],
            [],
        ),
        "`when` is an error, which is reported": (
            share("at most 1").replace('"s"', '"s" when 1 / pod.priority > 0'),
            pod("asked", priority=0),
            [],
            ["s: division by zero"],
        ),
        "a best-effort clause closes nothing": (
            f"{share('at most 1')} {spread('weight 5')}",
            ASKED,
            ["s"],
            [],
        ),
    },
)
def test_strict_clauses_that_apply(
    text: str, asked: Object, wanted: list[str], reports: list[str]
) -> None:
    counting, heard = counting_of(NODES), Reports()
    evaluation = evaluation_of(frame_of(asked), report=heard)
    clauses = CountClauses(clauses_of(text), evaluation)
    counter = counting.counter(asked)
    found = clauses.headrooms(counter, counting.table, np.array([1]), evaluation)
    assert [headroom.clause.count.name for headroom in found] == wanted
    assert heard.heard == reports
    assert clauses.strict is bool(wanted)
    assert clauses.soft is ("weight" in text)


# ---- points of best-effort clauses


def terms(counting: Counting, text: str) -> list[tuple[float, list[float]]]:
    evaluation = evaluation_of(frame_of(ASKED))
    clauses = CountClauses(clauses_of(text), evaluation)
    rows = counting.table.find(list("abcd"))
    found = clauses.terms(counting.counter(), counting.table, rows, evaluation)
    return [(weight, points.tolist()) for weight, points in found]


@rows(
    ("text", "wanted"),
    {
        "by domain, and 0 for a node without one": (
            spread("weight 5"),
            [(5, [0, 0, 100, 0])],
        ),
        "`missing 30` for a node without one": (
            spread("weight 5 missing 30"),
            [(5, [0, 0, 100, 30])],
        ),
        "by side": (
            share("at most 1").replace("strict", "weight 2"),
            [(2, [0, 100, 100, 100])],
        ),
        "a strict clause has none": (spread(), []),
    },
)
def test_terms_of_the_mean(text: str, wanted: list[tuple[float, list[float]]]) -> None:
    assert terms(counting_of(NODES, [web("p", on="a")]), text) == wanted


def test_points_count_in_flight_pods_where_they_likely_end() -> None:
    counting = counting_of(NODES)
    counting.offer(web("p"), "a", "c", best="c")
    assert terms(counting, spread("weight 5")) == [(5, [100, 100, 0, 0])]


# ---- what finds a place within several shares


@rows(
    ("room", "cells", "wanted"),
    {
        "a pod on one share takes no room of another": ((1, 3), (0b01, 0b10), 4),
        "a pod on two shares takes room of both": ((1, 3), (0b11,), 1),
        "whichever of the cells it goes to": ((1, 3), (0b01, 0b11), 1),
        "cells on fewer shares have more pods": ((1, 1), (0b01, 0b10, 0b11), 2),
        "nodes on no share have room for all": ((0, 0), (0b00, 0b11), 5),
        "no more than there are": ((4, 4), (0b01, 0b10), 5),
    },
)
def test_the_most_pods_that_find_a_place(
    room: tuple[int, ...], cells: tuple[int, ...], wanted: int
) -> None:
    assert most_pods(room, cells, 5) == wanted


# ---- the cost of deleting a pod


EXACT = share("exactly 40%")


def filling(bound: str) -> str:
    """The sides of the first ten slots, 1 for on: each has one side where it is the next one."""
    there, found = [0, 0], ""
    for slot in range(1, 11):
        (side,) = [side for side in (0, 1) if cost(share(bound), side, there) == -slot]
        there[side] += 1
        found += str(side)
    return found


def cost(
    clauses: str,
    side: int,
    there: Sequence[int],
    asked: Object = ASKED,
    more: Sequence[Object] = (),
) -> int | None:
    """Of a pod that joins others, so many off and on, on one side: 0 is off and 1 is on."""
    off, on = there
    pods = [web(f"p{i}", on=n) for i, n in enumerate(["b"] * off + ["a"] * on)]
    return counting_of(NODES, [*pods, *more]).deletion_cost(clauses, "ba"[side], asked)


@rows(
    ("bound", "wanted"),
    {
        "40%: off off on off on, and so on": ("exactly 40%", "0010100101"),
        "at most 40%: the same": ("at most 40%", "0010100101"),
        "at least 40%: on comes first": ("at least 40%", "1010010100"),
        "50%: off on off on": ("exactly 50%", "0101010101"),
        "80%: off on on on on": ("exactly 80%", "0111101111"),
    },
)
def test_order_in_which_slots_fill(bound: str, wanted: str) -> None:
    """The nth slot is on where 'target of n pods' > 'target of n - 1 pods'; its cost is -n.

    ReplicaSets delete the pod of the lowest cost first: any number of pods that is left is a share.
    """
    assert filling(bound) == wanted


@rows(
    ("clauses", "side", "wanted"),
    {
        "no share": ("", 1, None),
        "a spread": (spread(), 1, None),
        "a share of a number": (share("exactly 4"), 1, None),
        "the first slot on of 40% is the third": (EXACT, 1, -3),
        "the first slot off of 40% is the first": (EXACT, 0, -1),
        "the first share decides": (EXACT + spread(), 1, -3),
        "the first of two shares decides": (
            EXACT + share("exactly 50%").replace('"s"', '"t"'),
            1,
            -3,
        ),
        "a slot that never comes has the lowest cost": (share("exactly 100%"), 0, -100_000),
    },
)
def test_deletion_cost(clauses: str, side: int, wanted: int | None) -> None:
    assert cost(clauses, side, (0, 0)) == wanted


def test_a_pod_that_the_share_does_not_count_has_no_cost() -> None:
    assert cost(EXACT, 1, (0, 0), pod("asked")) is None


def test_a_node_that_is_not_known_has_no_cost() -> None:
    assert counting_of(NODES).deletion_cost(EXACT, "gone") is None


@pytest.mark.parametrize(
    ("labels", "template"),
    [
        ({}, "uid"),
        ({"rollouts-pod-template-hash": "a"}, "uid"),
        ({TEMPLATE_HASH: "a"}, "a"),
        ({"controller-revision-hash": "b"}, "b"),
    ],
)
def test_a_template_has_a_label_or_a_controller(labels: dict[str, str], template: str) -> None:
    """Each template of an Argo Rollout has a ReplicaSet, whose pods have a label of its own."""
    assert template_of(labels, "uid") == template


@pytest.mark.parametrize("of", [f"pods where {IS_WEB}", "replicas"])
def test_each_revision_has_its_order(of: str) -> None:
    """A controller deletes pods of one revision: the places of those that stay must have no gap."""
    deployment = controller("ReplicaSet", "web", replicas=10)

    def revised(name: str, revision: str, on: str | None = None) -> Object:
        labels = {"app": "web", TEMPLATE_HASH: revision}
        return pod(name, labels=labels, on=on, owner=deployment)

    clauses = EXACT.replace(f"pods where {IS_WEB}", of)
    old = [revised(f"old-{i}", "1", n) for i, n in enumerate("bbbbbbaaa")]
    first, second = revised("new-0", "2"), revised("new-1", "2")
    assert cost(clauses, 1, (0, 0), first, old) == -3
    assert cost(clauses, 1, (0, 0), second, [*old, revised("new-0", "2", "a")]) == -5


# ---- the formula of a count: members, there, assumed, in flight and nominated, as a table


COUNT_FORMULA_NODES = ["n1", "n2", "n3"]
PER_NODE = clause_of(LIMIT % "node at most 9")
CORES = clause_of(
    'limit "l" { sum peer.requests["cpu"] of pods where peer.labels["app"] == "web" per node'
    ' at most "64" strict }'
)

# `high` and `low` are by node, and so is `likely`, which is `high` if each pod in flight ends where
# it probably does. `all` are the pods of the cluster with the one in question.
COUNTS = table(
    """
    case             | members  | there | assumed | flying   | ahead | high  | low   | likely | all
    nobody           |          |       |         |          |       | 0 0 0 | 0 0 0 | 0 0 0  | 1
    members          | n1 n1 n2 |       |         |          |       | 2 1 0 | 2 1 0 | 2 1 0  | 4
    some that wait   | n1 - -   |       |         |          |       | 1 0 0 | 1 0 0 | 1 0 0  | 4
    itself on a node | n1       | n1    |         |          |       | 1 0 0 | 1 0 0 | 1 0 0  | 2
    itself waiting   | n1       | -     |         |          |       | 1 0 0 | 1 0 0 | 1 0 0  | 2
    assumed on nodes | n1       |       | n1 n2   |          |       | 2 1 0 | 1 0 0 | 2 1 0  | 4
    in flight to two | n1       |       |         | n1/n2    |       | 2 1 0 | 1 0 0 | 2 0 0  | 2
    two in flight    |          |       |         | n1/n2 n2 |       | 1 2 0 | 0 0 0 | 1 1 0  | 1
    nominated to two | n1       |       |         |          | n1 n3 | 2 0 1 | 1 0 0 | 2 0 1  | 4
    all of these     | n2 -     | n2    | n1      | n2/n3    | n3    | 1 2 2 | 0 1 0 | 1 2 1  | 5
    """,
    high=integers,
    low=integers,
    likely=integers,
    all=int,
)


def web_of_count_formula(name: str, on: str = "-", *, nominated: bool = False) -> Object:
    made = pod(name, labels={"app": "web"}, cpu="2", on=None if nominated or on == "-" else on)
    return made | {"status": {"phase": "Pending", "nominatedNodeName": on}} if nominated else made


def counting(members: str, there: str, assumed: str, in_flight: str, nominated: str) -> Counting:
    pods = [web_of_count_formula(f"member-{i}", on) for i, on in enumerate(members.split())]
    pods += [web_of_count_formula(ASKED["metadata"]["name"], on) for on in there.split()]
    pods += [web_of_count_formula(f"assumed-{i}") for i, _ in enumerate(assumed.split())]
    pods += [
        web_of_count_formula(f"ahead-{i}", on, nominated=True)
        for i, on in enumerate(nominated.split())
    ]
    found = counting_of(map(node, COUNT_FORMULA_NODES), pods)
    for i, on in enumerate(assumed.split()):
        known = found.cache.pod(f"default/assumed-{i}")
        assert known is not None
        found.cache.assume(known, on, until=60.0)
    for i, offered in enumerate(in_flight.split()):
        found.offer(web_of_count_formula(f"flying-{i}"), *offered.split("/"))
    return found


def by_node(numbers: Sequence[int], times: int = 1) -> dict[str, int]:
    return {
        n: times * number for n, number in zip(COUNT_FORMULA_NODES, numbers, strict=True) if number
    }


@COUNTS
def test_a_count(
    members: str,
    there: str,
    assumed: str,
    flying: str,
    ahead: str,
    high: list[int],
    low: list[int],
    likely: list[int],
    all: int,  # noqa: A002 - the name of a column
) -> None:
    """Of ones, and of two cores each, which are 2,000 thousandths."""
    cluster = counting(members, there, assumed, flying, ahead)
    found = cluster.count(PER_NODE, web_of_count_formula("asked"))
    assert (found.high, found.low) == (by_node(high), by_node(low))
    assert found.own == 1
    share = cluster.count(clause_of(EXACT), web_of_count_formula("asked"))
    assert (share.own, share.total, share.pods) == (1, all, all)
    found = cluster.count(PER_NODE, web_of_count_formula("asked"), predicted=True)
    assert (found.high, found.low) == (by_node(likely), by_node(low))
    summed = cluster.count(CORES, web_of_count_formula("asked"))
    assert (summed.high, summed.low) == (by_node(high, 2000), by_node(low, 2000))
    assert summed.own == 2000

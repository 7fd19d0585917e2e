"""Groups of a clause: the number that a bound means, the groups that are open, and their points."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.cache.node_table import NodeTable
from engine.cache.tallies import Tally
from engine.counting.groups import (
    OFF,
    ON,
    OUTSIDE,
    CountGroups,
    GroupCounts,
    bounds_every_group,
    fewest,
    open_groups,
    points,
    target,
)
from engine.errors import DeadlineExceededError
from engine.program.program import SpreadProgram
from tests.engine.counting.helpers import (
    Reports,
    bound_of,
    clause_of,
    groups_of,
    numbers,
    update,
)
from tests.support.builders import Object, node, pod
from tests.support.engines import cache_of, node_of, peer_of, snapshot_of, table_of

WEB = 'pods where peer.labels["app"] == "web"'
ON_SPOT = 'on nodes where node.labels["cap"] == "spot"'
SHARE = f'share "s" {{ of {WEB} {ON_SPOT} %s strict }}'
SPREAD = f'spread "z" {{ {WEB} over node.labels["zone"] skew at most %s strict }}'
BROKEN = "1 / (size(node.labels) - 2)"
LIMIT = f'limit "l" {{ {WEB} per %s strict }}'


# ---- the number that a bound means


@pytest.mark.parametrize(
    ("bound", "total", "wanted"),
    [
        pytest.param("at most 40%", 5, 2, id="at most 40% of 5 pods is 2"),
        pytest.param("at most 40%", 4, 1, id="at most 40% of 4 pods is 1.6, rounded down to 1"),
        pytest.param("at most 40%", 2, 0, id="at most 40% of 2 pods is 0.8, rounded down to 0"),
        pytest.param("exactly 40%", 4, 1, id="exactly 40% of 4 pods is 1.6, rounded down to 1"),
        pytest.param("at least 40%", 4, 2, id="at least 40% of 4 pods is 1.6, rounded up to 2"),
        pytest.param("at least 40%", 5, 2, id="at least 40% of 5 pods is 2, nothing to round"),
        pytest.param("at least 1%", 1, 1, id="at least 1% of 1 pod is that pod"),
        pytest.param("at most 99%", 1, 0, id="at most 99% of 1 pod is none"),
        pytest.param("at most 0%", 9, 0, id="at most 0% is none"),
        pytest.param("at least 0%", 9, 0, id="at least 0% is none"),
        pytest.param("at most 100%", 9, 9, id="at most 100% is all"),
        pytest.param("at least 100%", 9, 9, id="at least 100% is all"),
        pytest.param("at most 50%", 0, 0, id="at most 50% of no pods is none"),
        pytest.param("at least 50%", 0, 0, id="at least 50% of no pods is none"),
        pytest.param("at most 29%", 100, 29, id="at most 29% of 100 is 29, which floats make 28"),
        pytest.param("at least 7%", 100, 7, id="at least 7% of 100 is 7, which floats make 8"),
        pytest.param("at most 14.5%", 200, 29, id="at most 14.5% of 200 is 29"),
        pytest.param("at most 32.3%", 1000, 323, id="at most 32.3% of 1000 is 323, not 322"),
        pytest.param("at least 32.2%", 500, 161, id="at least 32.2% of 500 is 161, not 162"),
        pytest.param("at least 33.3%", 10, 4, id="at least 33.3% of 10 is 3.33, rounded up to 4"),
        pytest.param("at most 3", 10, 3, id="at most 3 of 10 is 3"),
        pytest.param("at least 3", 10, 3, id="at least 3 of 10 is 3"),
        pytest.param("exactly 3", 10, 3, id="exactly 3 of 10 is 3"),
        pytest.param("at most 3", 2, 2, id="at most 3 of 2 is both of them"),
        pytest.param("at least 3", 2, 2, id="at least 3 of 2 is both of them"),
        pytest.param("exactly 3", 2, 2, id="exactly 3 of 2 is both of them"),
        pytest.param("exactly 0", 5, 0, id="exactly 0 is none"),
    ],
)
def test_target(bound: str, total: int, wanted: int) -> None:
    """'target' = 'percentage' * 'total' / 100, rounded to the safe side, or 'number'; <= 'total'.

    The safe side is down for `at most` and `exactly`, and up for `at least`.
    """
    assert target(bound_of(bound), total) == wanted


@settings(deadline=None)
@given(st.integers(0, 1000), st.integers(0, 500))
def test_target_is_within_one_pod_of_the_part(tenths: int, total: int) -> None:
    """`at most` is the greatest number not above the part, `at least` the least not below it."""
    part = Fraction(tenths, 1000) * total
    text = f"{tenths / 10}%"
    most, least = (target(bound_of(f"{kind} {text}"), total) for kind in ("at most", "at least"))
    assert most <= part < most + 1
    assert least - 1 < part <= least
    assert target(bound_of(f"exactly {text}"), total) == most


# ---- the groups that are open


def sides(bound: str, counts: GroupCounts) -> str:
    """`on`, `off`, both, or neither: the sides of a share that are open."""
    found = open_groups(clause_of(SHARE % bound), counts).tolist()
    return " ".join(side for side, is_open in zip(("off", "on"), found, strict=True) if is_open)


@pytest.mark.parametrize(
    ("bound", "counts", "wanted"),  # counts are of the pods off and on
    [
        pytest.param(
            "at most 40%", numbers([0, 1], total=5), "off on", id="at most: the second of 2 fits"
        ),
        pytest.param(
            "at most 40%", numbers([0, 2], total=5), "off", id="at most: a third one of 2 does not"
        ),
        pytest.param(
            "at most 40%",
            numbers([0, 2], [0, 0], total=5),
            "off",
            id="at most: pods that only may be there take room",
        ),
        pytest.param(
            "at most 40%",
            numbers([0, 2], own=0, total=5),
            "off on",
            id="at most: a pod that is not counted takes no room",
        ),
        pytest.param(
            "at most 40%",
            numbers([0, 3], own=0, total=5),
            "off",
            id="at most: a side that is over its bound is closed to all",
        ),
        pytest.param("at most 0", numbers([9, 0], total=9), "off", id="at most 0: never on"),
        pytest.param(
            "at least 40%", numbers([0, 1], total=5), "on", id="at least: off waits for 2 on"
        ),
        pytest.param(
            "at least 40%", numbers([0, 2], total=5), "off on", id="at least: 2 on open off"
        ),
        pytest.param(
            "at least 40%",
            numbers([0, 2], [0, 1], total=5),
            "on",
            id="at least: pods that only may be on do not open off",
        ),
        pytest.param(
            "at least 40%",
            numbers([0, 1], own=0, total=5),
            "on",
            id="at least: off waits for a pod that is not counted too",
        ),
        pytest.param("at least 0", numbers([0, 0], total=5), "off on", id="at least 0: always off"),
        pytest.param(
            "exactly 40%", numbers([2, 1], total=5), "off on", id="exactly: one left on each side"
        ),
        pytest.param("exactly 40%", numbers([3, 1], total=5), "on", id="exactly: off is full"),
        pytest.param("exactly 40%", numbers([2, 2], total=5), "off", id="exactly: on is full"),
        pytest.param("exactly 40%", numbers([3, 2], total=5), "", id="exactly: both are full"),
        pytest.param(
            "exactly 40%",
            numbers([3, 2], [0, 0], total=5),
            "",
            id="exactly: pods that only may be there take room on both sides",
        ),
        pytest.param(
            "exactly 40%",
            numbers([3, 2], own=0, total=5),
            "off on",
            id="exactly: a pod that is not counted takes no room",
        ),
        pytest.param("exactly 9", numbers([0, 0], total=3), "on", id="exactly all: never off"),
    ],
)
def test_open_sides_of_a_share(bound: str, counts: GroupCounts, wanted: str) -> None:
    """`at most`: on is open if 'pods that may be on' + 'self-match (1 or 0)' <= 'target'.

    `at least`: off is open if 'pods that are on' >= 'target'.
    `exactly`: on as for `at most`, off if 'pods that may be off' + 'self-match' <= 'total' -
    'target'.
    """
    assert sides(bound, counts) == wanted


@pytest.mark.parametrize(
    ("skew", "counts", "wanted"),
    [
        pytest.param(1, numbers([0, 0, 0]), [0, 1, 2], id="empty domains are all open"),
        pytest.param(1, numbers([1, 0, 0]), [1, 2], id="a domain one ahead is closed at skew 1"),
        pytest.param(2, numbers([1, 0, 0]), [0, 1, 2], id="a domain one ahead is open at skew 2"),
        pytest.param(1, numbers([1, 1, 1]), [0, 1, 2], id="even domains are all open"),
        pytest.param(1, numbers([1, 0], own=0), [0, 1], id="a pod that is not counted adds none"),
        pytest.param(1, numbers([2, 0], own=0), [1], id="a domain over the skew is closed to all"),
        pytest.param(
            1, numbers([1, 1], [1, 0]), [], id="pods that may be there take room and raise no least"
        ),
        pytest.param(
            1,
            numbers([2, 1, 0], domains=[True, True, False]),
            [1, 2],
            id="an ineligible domain does not lower the least count",
        ),
    ],
)
def test_open_domains_of_a_spread(skew: int, counts: GroupCounts, wanted: list[int]) -> None:
    """'matching pods that may be there' + 'self-match' - 'global minimum' <= 'max skew'."""
    assert np.flatnonzero(open_groups(clause_of(SPREAD % skew), counts)).tolist() == wanted


@pytest.mark.parametrize(
    ("bound", "counts", "wanted"),
    [
        pytest.param("at most 2", numbers([0, 1, 2, 3]), [0, 1], id="at most: room for this one"),
        pytest.param(
            "at most 2", numbers([1, 2], [0, 0]), [0], id="at most: pods that may be there count"
        ),
        pytest.param(
            "at most 2",
            numbers([0, 1, 2, 3], own=0),
            [0, 1, 2],
            id="at most: a pod that is not counted takes no room",
        ),
        pytest.param(
            "at most 0", numbers([0, 1], own=0), [0], id="at most 0: where none of them is"
        ),
        pytest.param(
            "at least 1", numbers([0, 1, 2], own=0), [1, 2], id="at least: where enough of them are"
        ),
        pytest.param(
            "at least 1",
            numbers([1, 1], [0, 1], own=0),
            [1],
            id="at least: pods that only may be there are not enough",
        ),
        pytest.param(
            "at least 1",
            numbers([0, 0], anywhere=False),
            [0, 1],
            id="at least: the first pod of its own kind may go anywhere",
        ),
        pytest.param(
            "at least 1",
            numbers([0, 0], anywhere=True),
            [],
            id="at least: the second one of its kind may not",
        ),
        pytest.param(
            "at least 1",
            numbers([0, 0], own=0, anywhere=False),
            [],
            id="at least: a pod that is not of the kind waits for the first",
        ),
        pytest.param(
            "exactly 2", numbers([1, 2, 3], own=0), [1], id="exactly: not below and not above"
        ),
        pytest.param(
            "exactly 2", numbers([1, 2, 3]), [], id="exactly: one of them would be one too many"
        ),
    ],
)
def test_open_groups_of_a_limit(bound: str, counts: GroupCounts, wanted: list[int]) -> None:
    """`at most`: 'pods that may be there' + 'self-match' <= 'number'.

    `at least`: 'pods that are there' >= 'number', or it is the first of its own kind anywhere.
    `exactly`: both.
    """
    clause = clause_of(LIMIT % f"node {bound}")
    assert np.flatnonzero(open_groups(clause, counts)).tolist() == wanted


def test_hopeful_counts_each_in_flight_pod_where_it_suits_best() -> None:
    """Upper bounds see only pods that are there, lower bounds all that may be."""
    hopeful = numbers([3, 2], [1, 0], own=1, total=5).hopeful()
    assert (hopeful.high.tolist(), hopeful.low.tolist()) == ([1, 0], [3, 2])
    assert (hopeful.own, hopeful.total, hopeful.anywhere) == (1, 5, True)
    assert sides("exactly 40%", numbers([3, 2], [1, 0], total=5)) == ""
    assert sides("exactly 40%", hopeful) == "off on"


@pytest.mark.parametrize(
    ("least_domains", "counts", "wanted"),
    [
        pytest.param("", numbers([3, 1, 2]), 1, id="the least of all domains"),
        pytest.param("", numbers([3, 1, 2], [3, 0, 2]), 0, id="of pods that a watch has shown"),
        pytest.param(
            "", numbers([3, 1, 2], domains=[True, False, True]), 2, id="of eligible domains only"
        ),
        pytest.param("", numbers([], domains=[]), 0, id="0 where there is no domain"),
        pytest.param(
            "min domains 3", numbers([3, 1, 2]), 1, id="the least where there are as many domains"
        ),
        pytest.param("min domains 4", numbers([3, 1, 2]), 0, id="0 where domains are too few"),
        pytest.param(
            "min domains 3",
            numbers([3, 1, 2], domains=[True, False, True]),
            0,
            id="0 where too few of the domains are eligible",
        ),
    ],
)
def test_global_minimum_of_a_spread(least_domains: str, counts: GroupCounts, wanted: int) -> None:
    """The least count over the eligible domains; 0 if there are fewer than `min domains`."""
    clause = clause_of(SPREAD % f"1 {least_domains}")
    assert isinstance(clause, SpreadProgram)
    assert fewest(clause, counts) == wanted


def test_too_few_domains_close_those_that_have_the_skew() -> None:
    """As KEP-3022 has it: with the global minimum at 0, no domain gets more than the skew."""
    counts = numbers([1, 1])
    assert open_groups(clause_of(SPREAD % "1"), counts).tolist() == [True, True]
    assert open_groups(clause_of(SPREAD % "1 min domains 3"), counts).tolist() == [False, False]


@pytest.mark.parametrize(
    ("clause", "wanted"),
    [
        pytest.param(SHARE % "at most 40%", False, id="a share at most leaves one side free"),
        pytest.param(SHARE % "at least 40%", False, id="a share at least leaves one side free"),
        pytest.param(SHARE % "exactly 40%", True, id="a share exactly bounds both sides"),
        pytest.param(SPREAD % "1", True, id="a spread bounds every domain"),
        pytest.param(LIMIT % "node at most 1", True, id="a limit at most bounds every node"),
        pytest.param(LIMIT % "node exactly 1", True, id="a limit exactly bounds every node"),
        pytest.param(LIMIT % "node at least 1", False, id="a limit at least bounds none"),
    ],
)
def test_whether_a_bound_can_close_every_group(clause: str, wanted: bool) -> None:
    assert bounds_every_group(clause_of(clause)) is wanted


@pytest.mark.parametrize(
    ("clause", "counts", "wanted"),
    [
        pytest.param(SPREAD % "1", numbers([0, 2, 4]), [100, 50, 0], id="a spread falls evenly"),
        pytest.param(SPREAD % "1", numbers([2, 2]), [100, 100], id="even domains have 100"),
        pytest.param(SPREAD % "1", numbers([1, 2]), [100, 0], id="one pod apart is all of it"),
        pytest.param(
            SPREAD % "1 min domains 3", numbers([2, 4]), [50, 0], id="too few domains count from 0"
        ),
        pytest.param(
            SPREAD % "1",
            numbers([1, 3, 9, 0], domains=[True, True, False, False]),
            [100, 0, 0, 100],
            id="ineligible domains keep within 0 and 100",
        ),
        pytest.param(
            SPREAD % "1",
            numbers([2, 1, 2], [0, 1, 2]),
            [0, 50, 0],
            id="pods that may be there count in a domain, and not in the minimum",
        ),
        pytest.param(SPREAD % "1", numbers([5], domains=[False]), [0], id="no domain to compare"),
        pytest.param(SHARE % "at most 1", numbers([0, 1], total=5), [100, 0], id="an open side"),
        pytest.param(LIMIT % "node at most 1", numbers([0, 1]), [100, 0], id="an open node"),
    ],
)
def test_points(clause: str, counts: GroupCounts, wanted: list[float]) -> None:
    """A spread: 100 * (1 - ('count' - 'minimum') / ('maximum' - 'minimum')), within 0 and 100.

    Other clauses: 100 where open, else 0.
    """
    assert points(clause_of(clause), counts).tolist() == wanted


# ---- the group of each node


def by_name(groups: CountGroups, rows: dict[str, int]) -> dict[str, int]:
    return {name: int(groups.ids[row]) for name, row in rows.items()}


def size(groups: CountGroups, table: NodeTable) -> int:
    """The number of groups."""
    return len(groups.count_of(Tally(lambda _: True), table))


NODES = [
    node("a", labels={"cap": "spot", "zone": "x"}),
    node("b", labels={"cap": "od", "zone": "y"}),
    node("c", labels={"zone": "x"}),
    node("d", labels={"cap": "spot"}),
]


@pytest.mark.parametrize(
    ("clause", "wanted"),
    [
        pytest.param(
            SHARE % "at most 1",
            {"a": ON, "b": OFF, "c": OFF, "d": ON},
            id="a share has two sides, and a node without the label is off",
        ),
        pytest.param(
            SPREAD % "1",
            {"a": 0, "b": 1, "c": 0, "d": OUTSIDE},
            id="a spread has a group for each value, and a node without one is outside",
        ),
        pytest.param(
            LIMIT % "node at most 1",
            {"a": 1, "b": 2, "c": 3, "d": 4},
            id="a limit per node has a group for each row",
        ),
        pytest.param(
            LIMIT % "cluster at most 1",
            {"a": 0, "b": 0, "c": 0, "d": 0},
            id="a limit per cluster has one group",
        ),
        pytest.param(
            LIMIT % 'domain node.labels["zone"] at most 1',
            {"a": 0, "b": 1, "c": 0, "d": OUTSIDE},
            id="a limit per domain has a group for each value",
        ),
        pytest.param(
            LIMIT % 'domain size(node.labels["zone"]) at most 1',
            {"a": 0, "b": 0, "c": 0, "d": OUTSIDE},
            id="a number is a domain",
        ),
        pytest.param(
            LIMIT % "domain node.name == 'a' at most 1",
            {"a": 0, "b": 1, "c": 1, "d": 1},
            id="a bool is a domain",
        ),
        pytest.param(
            LIMIT % "domain [dyn(1), dyn('1'), dyn(true), dyn(1)]"
            "[{'a': 0, 'b': 1, 'c': 2, 'd': 3}[node.name]] at most 1",
            {"a": 0, "b": 1, "c": 2, "d": 0},
            id="1 and '1' and true are three domains",
        ),
    ],
)
def test_group_of_each_node(clause: str, wanted: dict[str, int]) -> None:
    table = snapshot_of(NODES).table
    reports = Reports()
    groups = groups_of(clause)
    update(groups, table, report=reports)
    assert by_name(groups, dict(table.rows)) == wanted
    assert groups.ids[0] == OUTSIDE, "the row of unknown nodes is in no group"
    assert size(groups, table) == max(wanted.values()) + 1
    assert reports.heard == [], "a missing value is no error"


@pytest.mark.parametrize(
    ("clause", "group", "error"),
    [
        pytest.param(
            f'share "s" {{ of {WEB} on nodes where {BROKEN} > 0 at most 1 strict }}',
            OFF,
            "s: division by zero",
            id="a share puts it off",
        ),
        pytest.param(
            LIMIT % f"domain {BROKEN} at most 1",
            OUTSIDE,
            "l: division by zero",
            id="a limit leaves it outside",
        ),
        pytest.param(
            LIMIT % "domain dyn(1.5) at most 1",
            OUTSIDE,
            "l: a domain is a string, an int or a bool",
            id="a value that is no domain is an error",
        ),
    ],
)
def test_a_node_with_an_error_is_reported(clause: str, group: int, error: str) -> None:
    table = snapshot_of([node("a", labels={"x": "1"})]).table
    reports = Reports()
    groups = groups_of(clause)
    update(groups, table, report=reports)
    assert by_name(groups, dict(table.rows)) == {"a": group}
    assert reports.heard == [error]


TAINT = {"taints": [{"key": "gpu", "effect": "NoSchedule"}]}


@pytest.mark.parametrize(
    ("other", "spec", "wanted"),
    [
        pytest.param({}, {}, [True, True], id="both domains count"),
        pytest.param({"spec": {"unschedulable": True}}, {}, [True, False], id="not a cordoned one"),
        pytest.param({"spec": TAINT}, {}, [True, False], id="not one whose taint forbids the pod"),
        pytest.param(
            {"spec": TAINT},
            {"tolerations": [{"operator": "Exists"}]},
            [True, True],
            id="one whose taint the pod tolerates",
        ),
        pytest.param(
            {}, {"nodeSelector": {"zone": "x"}}, [True, False], id="not one outside its selector"
        ),
    ],
)
def test_domains_are_those_with_an_eligible_node(
    other: Object, spec: Object, wanted: list[bool]
) -> None:
    """Both nodeInclusionPolicies of PodTopologySpread at `Honor`."""
    nodes = [node("a", labels={"zone": "x"}), node("b", labels={"zone": "y"}) | other]
    groups = groups_of(SPREAD % "1")
    update(groups, snapshot_of(nodes).table, pod("asked", spec=spec))
    assert groups.domains().tolist() == wanted


def test_a_domain_counts_while_one_of_its_nodes_is_eligible() -> None:
    nodes = [
        node("a", labels={"zone": "x"}, unschedulable=True),
        node("b", labels={"zone": "x"}),
    ]
    groups = groups_of(SPREAD % "1")
    update(groups, snapshot_of(nodes).table)
    assert groups.domains().tolist() == [True]


# ---- headroom

MISSING_PASSES = (SPREAD % "1").replace("strict", "strict missing pass")


@pytest.mark.parametrize(
    ("clause", "counts", "wanted", "hopeful"),
    [
        pytest.param(SHARE % "at most 1", numbers([0, 0], total=5), "abcd", "abcd", id="no pod"),
        pytest.param(SHARE % "at most 1", numbers([0, 1], total=5), "bc", "bc", id="a closed side"),
        pytest.param(
            SHARE % "at most 1",
            numbers([0, 1], [0, 0], total=5),
            "bc",
            "abcd",
            id="a side that only pods in flight close is hopeful",
        ),
        pytest.param(
            SPREAD % "1", numbers([0, 0]), "abc", "abc", id="a node outside is closed, and hopeless"
        ),
        pytest.param(SPREAD % "1", numbers([1, 0], [0, 0]), "b", "abc", id="a hopeful domain"),
        pytest.param(
            MISSING_PASSES, numbers([0, 0]), "abcd", "abcd", id="`missing pass`: open outside"
        ),
        pytest.param(
            MISSING_PASSES, numbers([1, 0]), "bd", "bd", id="`missing pass`: whatever is closed"
        ),
    ],
)
def test_headroom(clause: str, counts: GroupCounts, wanted: str, hopeful: str) -> None:
    """A node has the headroom of its group; one that is in no group has that of `missing`."""
    table = snapshot_of(NODES).table
    groups = groups_of(clause)
    update(groups, table)
    found = groups.headroom(counts, table.find(list("abcd")))
    masks = (found.open, found.hopeful)
    opened, hoped = (
        "".join(n for n, is_open in zip("abcd", m, strict=True) if is_open) for m in masks
    )
    assert (opened, hoped) == (wanted, hopeful)


@pytest.mark.parametrize(
    ("clause", "counts", "narrow"),
    [
        pytest.param(SPREAD % "1", numbers([0, 0]), True, id="narrow, all open"),
        pytest.param(SPREAD % "1", numbers([1, 0]), True, id="narrow, one closed"),
        pytest.param(SHARE % "at most 1", numbers([0, 0], total=5), False, id="wide, all open"),
        pytest.param(SHARE % "at most 1", numbers([0, 1], total=5), False, id="wide, one closed"),
    ],
)
def test_headroom_keeps_what_it_is_of(clause: str, counts: GroupCounts, narrow: bool) -> None:
    table = snapshot_of(NODES).table
    groups = groups_of(clause)
    update(groups, table)
    rows = table.find(["b", "unknown", "a", "b"])
    found = groups.headroom(counts, rows)
    assert found.clause is groups.clause
    assert found.counts is counts
    assert found.narrow is narrow
    assert found.groups.tolist() == groups.ids[rows].tolist()
    assert len(found.open) == len(found.hopeful) == len(rows)


# ---- node tables that change


def test_only_nodes_that_changed_are_looked_at_again() -> None:
    cache = cache_of(NODES)
    groups = groups_of(SPREAD % "1")
    assert update(groups, cache.snapshot().table) == ["a", "b", "c", "d"]
    before = groups.ids
    assert update(groups, cache.snapshot().table) == []
    assert groups.ids is before

    cache.put_node(node_of(node("b", labels={"zone": "x"})))
    assert update(groups, cache.snapshot().table) == ["b"]
    assert by_name(groups, dict(cache.snapshot().table.rows)) == {
        "a": 0,
        "b": 0,
        "c": 0,
        "d": OUTSIDE,
    }
    assert groups.ids is not before
    assert groups.domains().tolist() == [True, False], "no node is in `y` any more"


def test_a_change_that_moves_no_node_keeps_the_array() -> None:
    """What others keep by this array stays valid."""
    cache = cache_of(NODES)
    groups = groups_of(SPREAD % "1")
    update(groups, cache.snapshot().table)
    before = groups.ids
    cache.put_pod(peer_of(pod("p", on="a")))
    assert update(groups, cache.snapshot().table) == ["a"]
    assert groups.ids is before


def test_groups_grow_with_the_table() -> None:
    cache = cache_of(NODES)
    per_zone, per_node = groups_of(SPREAD % "1"), groups_of(LIMIT % "node at most 1")
    for groups in (per_zone, per_node):
        update(groups, cache.snapshot().table)
    for name, zone in (("e", "y"), ("f", "w")):
        cache.put_node(node_of(node(name, labels={"zone": zone})))
    table = cache.snapshot().table
    for groups in (per_zone, per_node):
        assert update(groups, table) == ["e", "f"]
    zones, rows = (by_name(groups, dict(table.rows)) for groups in (per_zone, per_node))
    assert (zones["e"], zones["f"], size(per_zone, table)) == (1, 2, 3)
    assert rows == dict(table.rows)
    assert size(per_node, table) == max(table.rows.values()) + 1


def test_a_node_that_takes_the_row_of_another_has_its_own_group() -> None:
    cache = cache_of(NODES)
    groups = groups_of(SPREAD % "1")
    update(groups, cache.snapshot().table)
    row = cache.snapshot().table.rows["b"]
    cache.remove_node("b")
    update(groups, cache.snapshot().table)
    cache.put_node(node_of(node("e", labels={"zone": "x"})))
    table = cache.snapshot().table
    assert table.rows["e"] == row
    assert update(groups, table) == ["e"]
    assert groups.ids[row] == 0
    assert groups.domains().tolist() == [True, False]


@pytest.mark.xfail(
    strict=True, reason="the row of a removed node keeps its version, so its domain stays eligible"
)
def test_a_domain_is_gone_with_its_last_node() -> None:
    """Else the global minimum stays 0, and no pod fits the domains that are left."""
    cache = cache_of(NODES)
    groups = groups_of(SPREAD % "1")
    update(groups, cache.snapshot().table)
    cache.remove_node("b")
    update(groups, cache.snapshot().table)
    assert groups.domains().tolist() == [True, False]


def test_another_table_owner_is_looked_at_from_the_start() -> None:
    groups = groups_of(SPREAD % "1")
    views = snapshot_of(NODES).nodes.values()
    update(groups, table_of(views))
    assert update(groups, table_of(views)) == ["a", "b", "c", "d"]


def test_what_the_deadline_cuts_short_is_looked_at_again() -> None:
    def late() -> None:
        raise DeadlineExceededError("too late")

    table = snapshot_of(NODES).table
    groups = groups_of(SPREAD % "1")
    with pytest.raises(DeadlineExceededError):
        update(groups, table, check=late)
    assert update(groups, table) == ["a", "b", "c", "d"]


# ---- counts of a tally by group


def test_pods_are_counted_in_the_group_of_their_node() -> None:
    table = snapshot_of(NODES).table
    groups = groups_of(SPREAD % "1")
    update(groups, table)
    tally = Tally(lambda _: True)
    for name, on in {"p": "a", "q": "c", "r": "b", "s": "d", "t": "gone"}.items():
        tally.arrives(f"default/{name}", peer_of(pod(name, on=on)))
    assert groups.count_of(tally, table).tolist() == [2, 1]


def test_counts_follow_the_tally_and_the_nodes() -> None:
    """Whatever is kept between two calls, the counts are those of a fresh start."""
    cache = cache_of(NODES)
    groups = groups_of(SPREAD % "1")
    tally = Tally(lambda _: True)

    def counts() -> list[int]:
        update(groups, cache.snapshot().table)
        found: list[int] = groups.count_of(tally, cache.snapshot().table).tolist()
        return found

    first = peer_of(pod("p", on="a"))
    tally.arrives("default/p", first)
    assert counts() == [1, 0]
    tally.arrives("default/q", peer_of(pod("q", on="b")))
    assert counts() == [1, 1]
    tally.leaves("default/p", first)
    assert counts() == [0, 1]
    cache.put_node(node_of(node("b", labels={"zone": "x"})))
    assert counts() == [1, 0]
    for number in range(600):
        tally.arrives(f"default/p{number}", peer_of(pod(f"p{number}", on="a")))
    assert counts() == [601, 0], "more changes than a tally remembers"
    tally = Tally(lambda _: True)
    assert counts() == [0, 0], "another tally"


def test_who_gets_counts_may_change_them() -> None:
    table = snapshot_of(NODES).table
    groups = groups_of(SPREAD % "1")
    update(groups, table)
    tally = Tally(lambda _: True)
    groups.count_of(tally, table)[0] += 7
    assert groups.count_of(tally, table).tolist() == [0, 0]

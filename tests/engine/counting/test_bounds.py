"""Bounds: the number that one means, the groups that it leaves open, and the points of groups."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.counting.groups import (
    GroupCounts,
    bounds_every_group,
    fewest,
    open_groups,
    points,
    target,
)
from engine.program.program import SpreadProgram
from tests.engine.counting.helpers import (
    LIMIT,
    SHARE,
    SPREAD,
    bound_of,
    clause_of,
    numbers,
)

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
        # a rollout of ten pods has up to thirteen
        pytest.param(
            "exactly 40%",
            numbers([6, 4], total=10, pods=11),
            "off",
            id="exactly: a pod of a surge goes off",
        ),
        pytest.param(
            "exactly 40%",
            numbers([7, 3], total=10, pods=11),
            "on",
            id="exactly: no more than those of a surge go off",
        ),
        pytest.param(
            "exactly 40%",
            numbers([8, 4], total=10, pods=13),
            "off",
            id="exactly: on is for those that are wanted",
        ),
        pytest.param(
            "at most 40%",
            numbers([6, 4], total=10, pods=13),
            "off",
            id="at most: on is for those that are wanted",
        ),
        pytest.param(
            "exactly 100%",
            numbers([0, 10], total=10, pods=11),
            "on",
            id="exactly 100%: all of them",
        ),
        pytest.param(
            "at most 100%", numbers([0, 10], total=10, pods=11), "off on", id="at most 100%: any"
        ),
        pytest.param(
            "at least 100%", numbers([0, 10], total=10, pods=11), "on", id="at least 100%: all"
        ),
        pytest.param(
            "at most 5", numbers([0, 3], total=3, pods=4), "off on", id="at most 5 is no part of 3"
        ),
        pytest.param(
            "exactly 5", numbers([0, 3], total=3, pods=4), "on", id="exactly 5: all four of them"
        ),
    ],
)
def test_open_sides_of_a_share(bound: str, counts: GroupCounts, wanted: str) -> None:
    """`at most`: on is open if 'pods that may be on' + 'self-match (1 or 0)' <= 'target'.

    `at least`: off is open if 'pods that are on' >= 'target'.
    `exactly`: on as for `at most`, off if 'pods that may be off' + 'self-match' <= 'all pods' -
    'target'. The target is a percentage of the wanted pods; a number, and 100%, is of all pods.
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

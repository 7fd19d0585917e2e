"""Bounds: the number that one means, the groups that it leaves open, and the points of groups."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from engine.counting.bounds import (
    GroupCounts,
    bounds_every_group,
    fewest,
    open_groups,
    points,
    target,
)
from tests.engine.counting.helpers import (
    LIMIT,
    SHARE,
    SPREAD,
    bound_of,
    clause_of,
    numbers,
)
from tests.support.books import integers, optional, table
from tests.support.rows import rows

# ---- the number that a bound means


@table(
    """
    case                                            | bound                    | total | wanted
    at most 40% of 2 pods, rounded up, is 1         | at most 40% rounding up  | 2   | 1
    exactly 60% of 3 pods, rounded up, is 2         | exactly 60% rounding up  | 3   | 2
    at least 40% of 2 pods, rounded down, is 0      | at least 40% rounding down | 2 | 0
    a whole number of pods is not rounded           | exactly 40% rounding up  | 5     | 2
    all pods are at most all                        | at most 99% rounding up  | 1     | 1
    at most 40% of 5 pods is 2                      | at most 40%    | 5     | 2
    at most 40% of 4 pods is 1.6, rounded down to 1 | at most 40%    | 4     | 1
    at most 40% of 2 pods is 0.8, rounded down to 0 | at most 40%    | 2     | 0
    exactly 40% of 4 pods is 1.6, rounded down to 1 | exactly 40%    | 4     | 1
    at least 40% of 4 pods is 1.6, rounded up to 2  | at least 40%   | 4     | 2
    at least 40% of 5 pods is 2, nothing to round   | at least 40%   | 5     | 2
    at least 1% of 1 pod is that pod                | at least 1%    | 1     | 1
    at most 99% of 1 pod is none                    | at most 99%    | 1     | 0
    at most 0% is none                              | at most 0%     | 9     | 0
    at least 0% is none                             | at least 0%    | 9     | 0
    at most 100% is all                             | at most 100%   | 9     | 9
    at least 100% is all                            | at least 100%  | 9     | 9
    at most 50% of no pods is none                  | at most 50%    | 0     | 0
    at least 50% of no pods is none                 | at least 50%   | 0     | 0
    at most 29% of 100 is 29, which floats make 28  | at most 29%    | 100   | 29
    at least 7% of 100 is 7, which floats make 8    | at least 7%    | 100   | 7
    at most 14.5% of 200 is 29                      | at most 14.5%  | 200   | 29
    at most 32.3% of 1000 is 323, not 322           | at most 32.3%  | 1000  | 323
    at least 32.2% of 500 is 161, not 162           | at least 32.2% | 500   | 161
    at least 33.3% of 10 is 3.33, rounded up to 4   | at least 33.3% | 10    | 4
    at most 3 of 10 is 3                            | at most 3      | 10    | 3
    at least 3 of 10 is 3                           | at least 3     | 10    | 3
    exactly 3 of 10 is 3                            | exactly 3      | 10    | 3
    at most 3 of 2 is both of them                  | at most 3      | 2     | 2
    at least 3 of 2 is both of them                 | at least 3     | 2     | 2
    exactly 3 of 2 is both of them                  | exactly 3      | 2     | 2
    exactly 0 is none                               | exactly 0      | 5     | 0
    """,
    total=int,
    wanted=int,
)
def test_target(bound: str, total: int, wanted: int) -> None:
    """'target' = 'percentage' * 'total' / 100, rounded to the safe side, or 'number'; <= 'total'.

    The safe side is down for `at most` and `exactly`, and up for `at least`; `rounding` says
    otherwise.
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


@table(
    """
    case                               | bound         | high | low | own | total | pods | wanted
    at most: the second of 2 fits      | at most 40%   | 0 1  |     | 1   | 5     |      | off on
    at most: a third one of 2 does not | at most 40%   | 0 2  |     | 1   | 5     |      | off
    at most: pods that only may be there take room
                                       | at most 40%   | 0 2  | 0 0 | 1   | 5     |      | off
    at most: a pod that is not counted takes no room
                                       | at most 40%   | 0 2  |     | 0   | 5     |      | off on
    at most: a side that is over its bound is closed to all
                                       | at most 40%   | 0 3  |     | 0   | 5     |      | off
    at most 0: never on                | at most 0     | 9 0  |     | 1   | 9     |      | off
    at least: off has what on leaves   | at least 40%  | 2 0  |     | 1   | 5     |      | off on
    at least: the last two are for on  | at least 40%  | 3 0  |     | 1   | 5     |      | on
    at least: pods that only may be off take its room
                                       | at least 40%  | 3 0  | 2 0 | 1   | 5     |      | on
    at least: a pod that is not counted takes no room
                                       | at least 40%  | 3 0  |     | 0   | 5     |      | off on
    at least: a pod of a surge goes on | at least 40%  | 6 4  |     | 1   | 10    | 11   | on
    at least 0: always off             | at least 0    | 0 0  |     | 1   | 5     |      | off on
    exactly: one left on each side     | exactly 40%   | 2 1  |     | 1   | 5     |      | off on
    exactly: off is full               | exactly 40%   | 3 1  |     | 1   | 5     |      | on
    exactly: on is full                | exactly 40%   | 2 2  |     | 1   | 5     |      | off
    exactly: both are full             | exactly 40%   | 3 2  |     | 1   | 5     |      |
    exactly: pods that only may be there take room on both sides
                                       | exactly 40%   | 3 2  | 0 0 | 1   | 5     |      |
    exactly: a pod that is not counted takes no room
                                       | exactly 40%   | 3 2  |     | 0   | 5     |      | off on
    exactly all: never off             | exactly 9     | 0 0  |     | 1   | 3     |      | on
    # a rollout of ten pods has up to thirteen
    exactly: a pod of a surge goes off | exactly 40%   | 6 4  |     | 1   | 10    | 11   | off
    exactly: no more than those of a surge go off
                                       | exactly 40%   | 7 3  |     | 1   | 10    | 11   | on
    exactly: on is for those that are wanted
                                       | exactly 40%   | 8 4  |     | 1   | 10    | 13   | off
    at most: on is for those that are wanted
                                       | at most 40%   | 6 4  |     | 1   | 10    | 13   | off
    exactly 100%: all of them          | exactly 100%  | 0 10 |     | 1   | 10    | 11   | on
    at most 100%: any                  | at most 100%  | 0 10 |     | 1   | 10    | 11   | off on
    at least 100%: all                 | at least 100% | 0 10 |     | 1   | 10    | 11   | on
    at most 5 is no part of 3          | at most 5     | 0 3  |     | 1   | 3     | 4    | off on
    exactly 5: all four of them        | exactly 5     | 0 3  |     | 1   | 3     | 4    | on
    """,
    high=integers,
    low=optional(integers),
    own=int,
    total=int,
    pods=optional(int),
)
def test_open_sides_of_a_share(
    bound: str,
    high: list[int],
    low: list[int] | None,
    own: int,
    total: int,
    pods: int | None,
    wanted: str,
) -> None:
    """`at most`: on is open if 'pods that may be on' + 'self-match (1 or 0)' <= 'target'.

    `at least`: off is open if 'pods that may be off' + 'self-match' <= 'wanted pods' - 'target'.
    `exactly`: on as for `at most`, off if 'pods that may be off' + 'self-match' <= 'all pods' -
    'target'. The target is a percentage of the wanted pods; a number, and 100%, is of all pods.
    `high` and `low` are the pods that may be, and that are, off and on; `own` is the self-match.
    """
    counts = numbers(high, low, own=own, total=total, pods=pods)
    assert sides(bound, counts) == wanted


@rows(
    ("skew", "counts", "wanted"),
    {
        "empty domains are all open": (1, numbers([0, 0, 0]), [0, 1, 2]),
        "a domain one ahead is closed at skew 1": (1, numbers([1, 0, 0]), [1, 2]),
        "a domain one ahead is open at skew 2": (2, numbers([1, 0, 0]), [0, 1, 2]),
        "even domains are all open": (1, numbers([1, 1, 1]), [0, 1, 2]),
        "a pod that is not counted adds none": (1, numbers([1, 0], own=0), [0, 1]),
        "a domain over the skew is closed to all": (1, numbers([2, 0], own=0), [1]),
        "pods on their way raise no others' least": (1, numbers([2, 1, 1], [1, 1, 0]), [2]),
        "an ineligible domain does not lower the least count": (
            1,
            numbers([2, 1, 0], domains=[True, True, False]),
            [1, 2],
        ),
    },
)
def test_open_domains_of_a_spread(skew: int, counts: GroupCounts, wanted: list[int]) -> None:
    """'matching pods that may be there' + 'self-match' - 'global minimum' <= 'max skew'."""
    assert np.flatnonzero(open_groups(clause_of(SPREAD % skew), counts)).tolist() == wanted


@table(
    """
    case
                                              | bound      | high    | low | own | anywhere | wanted
    at most: room for this one                   | at most 2  | 0 1 2 3 |     | 1   | yes      | 0 1
    at most: pods that may be there count        | at most 2  | 1 2     | 0 0 | 1   | yes      | 0
    at most: a pod that is not counted takes no room
                                               | at most 2  | 0 1 2 3 |     | 0   | yes      | 0 1 2
    at most 0: where none of them is             | at most 0  | 0 1     |     | 0   | yes      | 0
    at least: where enough of them are           | at least 1 | 0 1 2   |     | 0   | yes      | 1 2
    at least: pods that only may be there are not enough
                                                 | at least 1 | 1 1     | 0 1 | 0   | yes      | 1
    at least: the first pod of its own kind may go anywhere
                                                 | at least 1 | 0 0     |     | 1   | no       | 0 1
    at least: the second one of its kind may not | at least 1 | 0 0     |     | 1   | yes      |
    at least: a pod that is not of the kind waits for the first
                                                 | at least 1 | 0 0     |     | 0   | no       |
    exactly: not below and not above             | exactly 2  | 1 2 3   |     | 0   | yes      | 1
    exactly: one of them would be one too many   | exactly 2  | 1 2 3   |     | 1   | yes      |
    """,
    high=integers,
    low=optional(integers),
    own=int,
    wanted=integers,
)
def test_open_groups_of_a_limit(
    bound: str,
    high: list[int],
    low: list[int] | None,
    own: int,
    anywhere: str,
    wanted: list[int],
) -> None:
    """`at most`: 'pods that may be there' + 'self-match' <= 'number'.

    `at least`: 'pods that are there' >= 'number', or it is the first of its own kind anywhere.
    `exactly`: both.
    """
    clause = clause_of(LIMIT % f"node {bound}")
    counts = numbers(high, low, own=own, anywhere=anywhere == "yes")
    assert np.flatnonzero(open_groups(clause, counts)).tolist() == wanted


def test_hopeful_counts_each_in_flight_pod_where_it_suits_best() -> None:
    """Upper bounds see only pods that are there, lower bounds all that may be."""
    hopeful = numbers([3, 2], [1, 0], own=1, total=5).hopeful()
    assert (hopeful.high.tolist(), hopeful.low.tolist()) == ([1, 0], [3, 2])
    assert (hopeful.own, hopeful.total, hopeful.anywhere) == (1, 5, True)
    assert sides("exactly 40%", numbers([3, 2], [1, 0], total=5)) == ""
    assert sides("exactly 40%", hopeful) == "off on"


@rows(
    ("least_domains", "counts", "wanted"),
    {
        "the least of all domains": ("", numbers([3, 1, 2]), 1),
        "of eligible domains only": ("", numbers([3, 1, 2], domains=[True, False, True]), 2),
        "0 where there is no domain": ("", numbers([], domains=[]), 0),
        "the least where there are as many domains": ("at least 3", numbers([3, 1, 2]), 1),
        "0 where domains are too few": ("at least 4", numbers([3, 1, 2]), 0),
        "0 where too few of the domains are eligible": (
            "at least 3",
            numbers([3, 1, 2], domains=[True, False, True]),
            0,
        ),
    },
)
def test_global_minimum_of_a_spread(least_domains: str, counts: GroupCounts, wanted: int) -> None:
    """The least count over the eligible domains; 0 if there are fewer than `min_domains`."""
    clause = clause_of(SPREAD % f"1 {least_domains}")
    assert clause.kind == "spread"
    assert (fewest(clause, counts) == wanted).all()


@rows(
    ("counts", "wanted"),
    {
        "of pods that a watch has shown": (numbers([3, 1, 2], [3, 0, 2]), [0, 1, 0]),
        "as many as in the next one": (numbers([3, 2, 1], [0, 2, 1]), [1, 0, 0]),
        "as many as may be there": (numbers([1, 3, 3], [0, 3, 3]), [1, 0, 0]),
        "of the only domain, all that may be there": (numbers([2], [0]), [2]),
    },
)
def test_the_emptiest_domain_is_compared_with_the_others(
    counts: GroupCounts, wanted: list[int]
) -> None:
    """Not with itself: wherever a pod in flight ends, both sides would have it."""
    assert fewest(clause_of(SPREAD % "1"), counts).tolist() == wanted


@pytest.mark.parametrize("skew", [1, 2])
@pytest.mark.parametrize("there", [(0, 0, 0), (0, 1, 1), (0, 0, 1), (1, 1, 0), (2, 2, 0)])
@pytest.mark.parametrize("offers", [[{0}], [{2}, {2}], [{0, 1}], [{0}, {1, 2}], [{0}, {0}, {1}]])
def test_a_domain_of_a_spread_is_open_if_the_skew_holds_wherever_pods_in_flight_end(
    skew: int, there: tuple[int, ...], offers: list[set[int]]
) -> None:
    """Each ends in a domain that it was offered, or nowhere, and independently of the others."""
    worlds = []
    for ends in product(*([None, *offer] for offer in offers)):
        counts = Counter(each for each in ends if each is not None)
        worlds.append([number + counts[domain] for domain, number in enumerate(there)])

    def holds(counts: list[int], domain: int) -> bool:
        placed = [number + (each == domain) for each, number in enumerate(counts)]
        return placed[domain] - min(placed) <= skew

    wanted = [domain for domain in range(3) if all(holds(world, domain) for world in worlds)]
    may_be = [number + sum(at in each for each in offers) for at, number in enumerate(there)]
    found = open_groups(clause_of(SPREAD % skew), numbers(may_be, list(there)))
    assert np.flatnonzero(found).tolist() == wanted


def test_a_spread_within_a_group_compares_the_domains_of_each_group_alone() -> None:
    clause = clause_of((SPREAD % "1").replace("skew", "within node.region skew"))
    counts = replace(numbers([0, 1, 5, 7, 6]), sections=np.array([0, 0, 1, 1, 1], np.int32))
    assert open_groups(clause, counts).tolist() == [True, False, True, False, False]
    assert points(clause, counts).tolist() == [100, 0, 100, 0, 50]


def test_too_few_domains_close_those_that_have_the_skew() -> None:
    """As KEP-3022 has it: with the global minimum at 0, no domain gets more than the skew."""
    counts = numbers([1, 1])
    assert open_groups(clause_of(SPREAD % "1"), counts).tolist() == [True, True]
    assert open_groups(clause_of(SPREAD % "1 at least 3"), counts).tolist() == [False, False]


@rows(
    ("clause", "wanted"),
    {
        "a share at most leaves one side free": (SHARE % "at most 40%", False),
        "a share at least leaves one side free": (SHARE % "at least 40%", False),
        "a share exactly bounds both sides": (SHARE % "exactly 40%", True),
        "a spread bounds every domain": (SPREAD % "1", True),
        "a limit at most bounds every node": (LIMIT % "node at most 1", True),
        "a limit exactly bounds every node": (LIMIT % "node exactly 1", True),
        "a limit at least bounds none": (LIMIT % "node at least 1", False),
    },
)
def test_whether_a_bound_can_close_every_group(clause: str, wanted: bool) -> None:
    assert bounds_every_group(clause_of(clause)) is wanted


@rows(
    ("clause", "counts", "wanted"),
    {
        "a spread falls evenly": (SPREAD % "1", numbers([0, 2, 4]), [100, 50, 0]),
        "even domains have 100": (SPREAD % "1", numbers([2, 2]), [100, 100]),
        "one pod apart is all of it": (SPREAD % "1", numbers([1, 2]), [100, 0]),
        "too few domains count from 0": (SPREAD % "1 at least 3", numbers([2, 4]), [50, 0]),
        "ineligible domains keep within 0 and 100": (
            SPREAD % "1",
            numbers([1, 3, 9, 0], domains=[True, True, False, False]),
            [100, 0, 0, 100],
        ),
        "pods that are probably there count as those that are": (
            SPREAD % "1",
            numbers([3, 2, 10], [0, 2, 10]),
            [87.5, 100, 0],
        ),
        "no domain to compare": (SPREAD % "1", numbers([5], domains=[False]), [0]),
        "an open side": (SHARE % "at most 1", numbers([0, 1], total=5), [100, 0]),
        "at least: the nodes of the share until it has its pods": (
            SHARE % "at least 1",
            numbers([0, 0], total=5),
            [0, 100],
        ),
        "at least: any after that": (SHARE % "at least 1", numbers([0, 1], total=5), [100, 100]),
        "an open node": (LIMIT % "node at most 1", numbers([0, 1]), [100, 0]),
    },
)
def test_points(clause: str, counts: GroupCounts, wanted: list[float]) -> None:
    """A spread: 100 * (1 - ('count' - 'minimum') / ('maximum' - 'minimum')), within 0 and 100.

    Other clauses: 100 where open, else 0.
    """
    assert points(clause_of(clause), counts).tolist() == wanted

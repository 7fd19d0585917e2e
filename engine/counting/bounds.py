"""Bounds: the formulas by which counts are compared with bounds, group by group.

A count is a sum of ones, or of amounts in thousandths. The formulas are the same for both, and read
nothing but the counts and the clause. GroupCounts are of one call.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, assert_never

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import structs

from engine.cache.tallies import FULL
from engine.counting.in_flight_pods import GroupIds
from engine.program.operations import sum_bound
from engine.program.program import BoundProgram, CountClause
from grammar.values.errors import EvaluationError

Counts = npt.NDArray[np.int64]
# Numbers of bounds by group: ints, or floats for percentages.
Bounds = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]

# The groups of a share: the nodes for which its `on` is not true, and the nodes for which it is
# true. For a limit that counts places, OFF has the nodes that do not count, and each other group is
# a place.
OFF, ON = 0, 1
NO_DOMAINS = np.zeros(0, np.bool_)
# A computed number is never larger. Groups without a node have it, so that they are open.
LARGEST = 2**62


class GroupCounts(msgspec.Struct, frozen=True, eq=False):
    """The pods in each group, without the asked pod.

    `high` adds up every pod that is or may be in a group, `low` only the pods that a watch has
    shown there. `own` is what the asked pod adds: 0 if the clause does not count the pod, else 1,
    or the amount of the pod, or FULL where that is not known. Of a share, `total` is the number of
    wanted pods, of which a percentage is a part, and `pods` is the number of all pods to place: a
    rollout has more pods than are wanted. Both include the asked pod. `anywhere` says, for a limit
    with a lower bound, whether any other pod is or may be in a group. `waits` is the number of the
    other pods that the clause counts and that have no node and no offer yet; an idle pod is none of
    them. With `is_member` these are the other members of the pod's PodGroup, which are placed with
    it. `domains` marks the groups that a spread compares. `bounds` has the number of the bound of
    each group, in what is added up; None where it is a constant of the clause. `min_domains` is
    that of a spread, None where it is a constant. `eased` are the bounds if every in-flight pod
    ends nowhere, None where that makes no difference. `sections` has for each domain the number of
    those that it is compared with, None where all are compared.

    Where a limit counts places, `high` and `low` are the most and the fewest places in use once the
    asked pod is in the group, 0 where it takes no further one; `total` is the number of the places
    that count. So it is with what nodes add.
    """

    high: Counts
    low: Counts
    own: int
    total: int = 0
    pods: int = 0
    anywhere: bool = True
    domains: Mask = NO_DOMAINS
    bounds: Bounds | None = None
    min_domains: float | None = None
    waits: int = 0
    is_member: bool = False
    eased: Bounds | None = None
    sections: GroupIds | None = None

    def hopeful(self) -> GroupCounts:
        """The counts if every in-flight pod ends where it helps, and nowhere else."""
        bounds = self.bounds if self.eased is None else self.eased
        return structs.replace(self, high=self.low, low=self.high, bounds=bounds, eased=None)

    def bound_of(self, clause: CountClause, group: int) -> BoundProgram:
        """The bound of one group, with its number."""
        if self.bounds is None:
            return clause.bound
        return replace(clause.bound, amount=self.bounds[group].item())


@lru_cache(4096)
def target(bound: BoundProgram, total: int) -> int:
    """The number of pods that a bound with its number means, of `total`: at most all of them."""
    assert bound.amount is not None, "the caller has asked for the bound of a group"
    if not bound.percent:
        return min(int(bound.amount), total)
    # percent * total / 100, exactly: as binary fractions, 7 % of 100 is more than 7.
    part = Fraction(str(bound.amount)) * total / 100
    return min(total, math.ceil(part) if bound.rounds_up else math.floor(part))


def wanted_on(bound: BoundProgram, total: int, pods: int) -> int:
    """The number of pods that a bound means on the nodes of a share.

    A percentage is of the pods that are wanted. A count, and 100 %, bound all pods that there are:
    a rollout has more pods than are wanted, and each must have a place.
    """
    part = bound.percent and bound.amount != 100
    return target(bound, total if part else pods)


def share_bounds(clause: CountClause, counts: GroupCounts) -> tuple[int, int]:
    """The fewest and the most pods on the nodes of a share."""
    assert clause.kind == "share", "only shares are judged together"
    bound = counts.bound_of(clause, ON)
    wanted = wanted_on(bound, counts.total, counts.pods)
    low = 0 if bound.kind == "at most" else wanted
    return low, LARGEST if bound.kind == "at least" else wanted


def open_groups(clause: CountClause, counts: GroupCounts) -> Mask:
    """The groups in which the asked pod would break no bound."""
    match clause.kind:
        case "share":
            return _open_sides(counts.bound_of(clause, ON), counts)
        case "spread":
            # pods in the domain + this pod - pods in the emptiest domain <= maximum skew
            skew = _number(clause.bound.amount, counts)
            return counts.high + counts.own - fewest(clause, counts) <= skew
        case "limit":
            if clause.groups_are == "used places":
                return _within_places(clause, counts)
            return _within_limit(clause.bound, counts)
        case _:
            assert_never(clause.kind)


def open_or_hopeful(clause: CountClause, counts: GroupCounts, *, alone: bool) -> tuple[Mask, Mask]:
    """The open groups, and those that are open if every in-flight pod ends where it helps.

    They are one array where every group is open, as is usual: then no bound is near. A share that
    is not `alone` leaves the lower bound, and so the nodes off the share, to Floors.
    """
    opened = open_groups(clause, counts)
    if not alone:
        opened[OFF] = True
    if np.count_nonzero(opened) == len(opened):
        return opened, opened
    hopeful = open_groups(clause, counts.hopeful())
    if not alone:
        hopeful[OFF] = True
    return opened, hopeful


def _open_sides(bound: BoundProgram, counts: GroupCounts) -> Mask:
    wanted = wanted_on(bound, counts.total, counts.pods)
    # pods on the nodes of the share + this pod <= pods that the bound means
    on = counts.high[ON] + counts.own <= wanted
    match bound.kind:
        case "at most":
            return np.array([True, on])
        case "at least":
            # pods on other nodes + this pod <= wanted pods that are left for other nodes
            off = counts.high[OFF] + counts.own <= counts.total - wanted
            return np.array([not counts.own or off, True])
        case "exactly":
            # pods on other nodes + this pod <= pods that are left for other nodes. That is of all
            # pods, so that each pod of a rollout has a place. At its end as many may be missing on
            # the nodes of the share as there were too many.
            off = counts.high[OFF] + counts.own <= counts.pods - wanted
            return np.array([off, on])
        case _:
            assert_never(bound.kind)


def _within_limit(bound: BoundProgram, counts: GroupCounts) -> Mask:
    amount = _number(bound.amount, counts)
    # pods in the group + this pod <= the limit
    most = counts.high + counts.own <= amount
    # certain pods in the group >= the limit; the first pod of all may go anywhere
    least = (counts.low >= amount) | bool(counts.own and not counts.anywhere)
    match bound.kind:
        case "at most":
            return most
        case "at least":
            return least
        case "exactly":
            return most & least
        case _:
            assert_never(bound.kind)


def _within_places(clause: CountClause, counts: GroupCounts) -> Mask:
    amount = _number(clause.bound.amount, counts)
    # The places that must stay empty are not to be used.
    most = counts.total - amount if clause.empty else amount
    # places in use with this pod <= places that may be used; one in use makes no difference
    found: Mask = (counts.high == 0) | (counts.high <= most)
    return found


def with_room_for_another(clause: CountClause, counts: GroupCounts, *, alone: bool) -> Mask:
    """The groups in which a second pod like the asked pod would fit beside it; of a member, all.

    `alone` is as in `open_or_hopeful`.
    """
    others = counts.waits if counts.is_member else 1
    there = structs.replace(counts, high=counts.high + counts.own * others, anywhere=True)
    found = open_groups(clause, there)
    if not alone:
        found[OFF] = True
    return found


def fullness(clause: CountClause, counts: GroupCounts) -> tuple[Floats, Floats]:
    """What counts against the upper bound of each group, and how much may; of a sum in thousandths.

    NaN where nothing is bounded from above, or where places are counted.
    """
    used, most = counts.high.astype(np.float64), np.full(len(counts.high), np.nan)
    match clause.kind:
        case "share":
            bound = counts.bound_of(clause, ON)
            if bound.kind != "at least":
                most[ON] = wanted_on(bound, counts.total, counts.pods)
        case "spread":
            # pods in the domain - pods in the emptiest domain <= maximum skew
            used -= fewest(clause, counts)
            most[counts.domains] = np.broadcast_to(
                _number(clause.bound.amount, counts), most.shape
            )[counts.domains]
        case "limit":
            if clause.groups_are != "used places" and clause.bound.kind != "at least":
                most[:] = _number(clause.bound.amount, counts)
        case _:
            assert_never(clause.kind)
    return used, most


def _number(constant: float | None, counts: GroupCounts) -> float | Bounds:
    """The number of a bound: the constant of its clause, or what is computed for each group."""
    if counts.bounds is not None:
        return counts.bounds
    assert constant is not None, "a number that is no constant is computed"
    return constant


def fewest(clause: CountClause, counts: GroupCounts) -> Counts:
    """The pods in the emptiest of the domains with which each is compared.

    It is 0 where there are fewer of these than the clause wants. A domain is not compared with
    itself: wherever a pod in flight ends, both sides of the comparison would have it.
    """
    least = clause.min_domains if counts.min_domains is None else counts.min_domains
    found = np.zeros(len(counts.high), np.int64)
    for there in _sections(counts):
        among = counts.low[counts.domains & there]
        if len(among) and not (isinstance(least, int | float) and len(among) < least):
            found[there] = among.min()
            is_there = counts.domains & there
            first = int(is_there.nonzero()[0][among.argmin()])
            others = counts.low[is_there & (np.arange(len(found)) != first)]
            found[first] = others.min(initial=counts.high[first])
    return found


def _sections(counts: GroupCounts) -> Sequence[Mask]:
    """The domains that are compared with each other."""
    if counts.sections is None:
        return (np.ones(len(counts.high), np.bool_),)
    return [counts.sections == section for section in np.unique(counts.sections)]


def points(clause: CountClause, counts: GroupCounts) -> Floats:
    """Points 0..100 for each group, of a clause that is a preference."""
    if clause.kind == "spread":
        # The emptiest domain is the one with the fewest pods that probably are there.
        least = fewest(clause, structs.replace(counts, low=counts.high))
        greatest = least.copy()
        for there in _sections(counts):
            greatest[there] = counts.high[counts.domains & there].max(initial=0)
        # 100 for the emptiest domain, 0 for the fullest, and in proportion between them.
        given: Floats = 100 * (1 - (counts.high - least) / np.maximum(1, greatest - least))
        return given.clip(0, 100)
    preferred = open_groups(clause, counts)
    if clause.kind == "share" and clause.bound.kind == "at least":
        # The nodes of the share come first, so that it has its pods even if no others follow.
        preferred[OFF] = counts.low[ON] >= share_bounds(clause, counts)[0]
    return np.where(preferred, 100.0, 0.0)


def bounds_every_group(clause: CountClause) -> bool:
    """Whether the bound can close every group, so that an offer may leave none for the next pod."""
    if clause.kind == "share":
        return clause.bound.kind == "exactly"
    # What is offered of a limit that counts places takes one of them at most.
    return clause.bound.kind != "at least" and clause.groups_are != "used places"


def number_of_bound(clause: CountClause, value: object) -> float:
    """The number of a clause's bound that was computed. Raises EvaluationError if it is none."""
    if clause.is_sum:
        return sum_bound(value, up=clause.bound.kind == "at least")
    return number_of(value, percent=clause.bound.percent)


def number_of(value: object, *, percent: bool) -> float:
    """The number of a bound that was computed; a negative one is 0.

    Raises EvaluationError for anything but a whole number, or a number for a percentage.
    """
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        raise EvaluationError("the bound is not a number")
    if not percent and value % 1:
        raise EvaluationError(f"the bound is {value}, which is not a whole number")
    return min(max(value, 0), 100 if percent else LARGEST)


def places_in_use(
    placed: Counts, certain: Counts, in_flight: Sequence[GroupIds], adds: Counts
) -> tuple[Counts, Counts]:
    """The most and the fewest places in use once one more pod is in each place.

    An in-flight pod may end in any place that it was offered, but only in one of them. So several
    of them can take as many places as there are pods, and never more than the places that they were
    offered. If places add different amounts, they take those that add the most.

    It is 0 for a place where the pod takes no further one. `placed` and `certain` are the pods in
    each place, with and without those that are only assumed there. `in_flight` are the places where
    each other pod may end. `adds` is what each place adds: one, or the amount of a node.
    """
    if adds.sum(dtype=np.float64) >= FULL:
        adds = adds.astype(np.float64)  # which does not overflow
    used = placed > 0
    used[OFF] = True
    # Nodes where some in-flight pod ends if it takes a further node at all, and those where one of
    # several `wide` pods may end.
    single, several = np.zeros((2, len(placed)), np.bool_)
    wide = 0
    for groups in in_flight:
        fresh = groups[(groups >= 0) & ~used[groups]]
        if len(fresh) and (fresh == fresh[0]).all():
            single[fresh[0]] = True
        elif len(fresh):
            several[fresh] = True
            wide += 1
    several &= ~single
    in_use = adds[used].sum() - adds[OFF]
    # Each wide pod takes one more of the nodes that are left, as long as there are some.
    left = np.flatnonzero(several)
    left = left[np.argsort(-adds[left], kind="stable")]
    sums = np.concatenate([[0], np.cumsum(adds[left])])
    taken = np.full(len(placed), sums[min(wide, len(left))])
    taken[left[:wide]] = sums[min(wide + 1, len(left))] - adds[left[:wide]]
    most = in_use + adds[single].sum() + np.where(single, 0, adds) + taken
    most[used] = 0
    certainly = certain > 0
    certainly[OFF] = False
    # The certain ones, and the one that the pod takes.
    fewest = adds[certainly].sum() + adds
    fewest[used | single | several] = 0
    return np.minimum(most, FULL).astype(np.int64), np.minimum(fewest, FULL).astype(np.int64)

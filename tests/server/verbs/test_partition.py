"""Partition: accepted names, and rejected ones in one of two maps, by default unresolvable."""

from __future__ import annotations

import pytest

from engine.decision.verdict import FEASIBLE, Failed, decision
from server.verbs.filter import Partition, partition
from tests.support.table_decider import rejected

FAILED = Failed("policy web: cannot be evaluated", "shop/web", "ssd", "no such key")
VERDICTS = decision([rejected("full", resolvable=True), FEASIBLE, rejected("no ssd"), FAILED])


def test_every_rejection_is_unresolvable_by_default() -> None:
    """C48: otherwise kube-scheduler looks for victims over and over, and finds none."""
    found = partition("abcd", VERDICTS, resolvable_rejections=False)
    assert found == Partition(["b"], {}, {"a": "full", "c": "no ssd", "d": FAILED.reason})


def test_resolvable_rejections_if_configured() -> None:
    """C22: in one of the maps, never in both."""
    found = partition("abcd", VERDICTS, resolvable_rejections=True)
    assert found == Partition(["b"], {"a": "full"}, {"c": "no ssd", "d": FAILED.reason})


@pytest.mark.parametrize("resolvable", [False, True])
def test_all_feasible(resolvable: bool) -> None:
    """C21: the answer must name every node."""
    found = partition(["a", "b"], decision([FEASIBLE] * 2), resolvable_rejections=resolvable)
    assert found == Partition(["a", "b"], {}, {})


def test_no_nodes() -> None:
    assert partition([], decision([]), resolvable_rejections=False) == Partition([], {}, {})


@pytest.mark.parametrize("count", [0, 1, 3])
def test_verdicts_must_match_the_names(count: int) -> None:
    with pytest.raises(ValueError, match="verdicts"):
        partition(["a", "b"], decision([FEASIBLE] * count), resolvable_rejections=False)

"""Verdicts by code: a decision is as long as the request and has each verdict once."""

from __future__ import annotations

import numpy as np
import pytest

from engine.decision.verdict import (
    FEASIBLE,
    Decision,
    Failed,
    Rejected,
    Scores,
    Verdict,
    attributed,
    decision,
    feasible,
    full_reason,
)

A = Rejected("no", "p", "a")
B = Rejected("no", "p", "b")
BROKEN = Failed("no", "p", "a", "division by zero")


@pytest.mark.parametrize(
    ("verdicts", "codes", "different"),
    [
        pytest.param([], [], [FEASIBLE], id="no node"),
        pytest.param([FEASIBLE, FEASIBLE], [0, 0], [FEASIBLE], id="feasible is code 0"),
        pytest.param([A, FEASIBLE, A], [1, 0, 1], [FEASIBLE, A], id="equal verdicts have one code"),
        pytest.param([B, A, B], [1, 2, 1], [FEASIBLE, B, A], id="codes in the order of the nodes"),
        pytest.param([A, BROKEN], [1, 2], [FEASIBLE, A, BROKEN], id="a failure is no rejection"),
    ],
)
def test_codes_of_verdicts(
    verdicts: list[Verdict], codes: list[int], different: list[Verdict]
) -> None:
    found = decision(verdicts)
    assert found.codes.tolist() == codes
    assert list(found.verdicts) == different
    assert list(found) == verdicts
    assert len(found) == len(verdicts)


def test_counts_have_a_number_for_each_verdict() -> None:
    found = Decision(np.array([0, 2, 2], np.int32), (FEASIBLE, A, B))
    assert found.counts() == [1, 0, 2]


def test_all_nodes_are_feasible() -> None:
    assert list(feasible(3)) == [FEASIBLE] * 3
    assert feasible(0).counts() == [0]


def test_scores_are_a_sequence_of_ints() -> None:
    found = Scores(np.array([3, 10, 0], np.int64))
    assert (list(found), len(found)) == ([3, 10, 0], 3)
    assert all(type(score) is int for score in found)


@pytest.mark.parametrize(
    ("policy", "reason", "wanted"),
    [
        ("shop/web", "no disk", "policy web: no disk"),
        ("web", "no disk", "policy web: no disk"),
        ("shop/web", "policy web: ssd", "policy web: ssd"),
        ("shop/web", "`web` needs a disk", "`web` needs a disk"),
        ("shop/web", "no website", "policy web: no website"),
        ("", "node not yet known", "node not yet known"),
        ("shop/web", "x" * 256, "policy web: " + "x" * 243 + "…"),
    ],
)
def test_the_text_of_an_event_names_the_policy(policy: str, reason: str, wanted: str) -> None:
    """Once, and always in the same way (C47)."""
    assert attributed(policy, reason) == wanted
    assert attributed(policy, wanted) == wanted


@pytest.mark.parametrize(
    ("policy", "clause", "reason", "wanted"),
    [
        pytest.param("shop/web", "ssd", "no disk", "shop/web: ssd: no disk", id="with a message"),
        pytest.param("shop/web", "ssd", "policy web: ssd", "shop/web: ssd", id="without one"),
        pytest.param("web", "ssd", "policy web: ssd", "web: ssd", id="of no namespace"),
        pytest.param("shop/web", "ssd", "policy web: no", "shop/web: ssd: no", id="in an event"),
        pytest.param(
            "shop/web",
            "ssd",
            "policy api: ssd",
            "shop/web: ssd: policy api: ssd",
            id="a message that names another policy",
        ),
    ],
)
def test_full_reason(policy: str, clause: str, reason: str, wanted: str) -> None:
    assert full_reason(policy, clause, reason) == wanted

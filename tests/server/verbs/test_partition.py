"""The parts of an answer: accepted names, and rejected ones in one of two maps."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from engine.decision.verdict import FEASIBLE, Decision, Failed, decision
from server.verbs.filter import NameFragments
from server.wire import ExtenderArgs
from tests.support.served import rejected

FAILED = Failed("policy web: cannot be evaluated", "shop/web", "ssd", "no such key")
VERDICTS = decision([rejected("full", resolvable=True), FEASIBLE, rejected("no ssd"), FAILED])


def parts(names: Sequence[str], decided: Decision, *, resolvable: bool) -> list[object]:
    args = ExtenderArgs(b"{}", names, None)
    answer, _ = NameFragments().filter(args, decided, resolvable_rejections=resolvable)
    found = json.loads(answer)
    return [found[key] for key in ("NodeNames", "FailedNodes", "FailedAndUnresolvableNodes")]


def test_every_rejection_is_unresolvable_by_default() -> None:
    """C48: otherwise kube-scheduler looks for victims over and over, and finds none."""
    found = parts("abcd", VERDICTS, resolvable=False)
    assert found == [["b"], {}, {"a": "full", "c": "no ssd", "d": FAILED.reason}]


def test_resolvable_rejections_if_configured() -> None:
    """C22: in one of the maps, never in both."""
    found = parts("abcd", VERDICTS, resolvable=True)
    assert found == [["b"], {"a": "full"}, {"c": "no ssd", "d": FAILED.reason}]


@pytest.mark.parametrize("resolvable", [False, True])
def test_all_feasible(resolvable: bool) -> None:
    """C21: the answer must name every node."""
    found = parts(["a", "b"], decision([FEASIBLE] * 2), resolvable=resolvable)
    assert found == [["a", "b"], {}, {}]


def test_no_nodes() -> None:
    assert parts([], decision([]), resolvable=False) == [[], {}, {}]


@pytest.mark.parametrize("count", [0, 1, 3])
def test_verdicts_must_match_the_names(count: int) -> None:
    with pytest.raises(ValueError, match="verdicts"):
        parts(["a", "b"], decision([FEASIBLE] * count), resolvable=False)

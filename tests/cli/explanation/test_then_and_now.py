"""Then and now: which of policies, nodes, counts and time changed since a decision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest

from engine.decision.journal import CountedGroup
from engine.explanation.difference import changes
from engine.explanation.document import (
    ClauseCounts,
    ConcernedPolicy,
    NodeGroup,
    PodDecision,
    PodExplanation,
    RejectingClause,
)

REJECTED = NodeGroup([RejectingClause("web", "fast", "web: fast")], 1, ["n3"])
THEN = PodDecision(
    number=1,
    pod="shop/web-1",
    at="2026-11-21T12:00:00Z",
    nodes=3,
    passing=2,
    heldBack=0,
    seconds=0.001,
    scoredSeconds=None,
    replica="placet-0",
    uid="u",
    generation=1,
    policiesChanged=False,
    policies=[ConcernedPolicy("web", "governs", "", "aaa")],
    groups=[NodeGroup([], 2, ["n1", "n2"]), REJECTED],
    counts=[ClauseCounts("web", "zones", [CountedGroup("a", 3), CountedGroup("b", 1)])],
)
DIGESTS = {"web": "aaa"}
OTHERS = [ClauseCounts("web", "zones", [CountedGroup("a", 4), CountedGroup("c", 2)])]


def now(
    at: str = THEN.at,
    nodes: Sequence[str] = ("n1", "n2", "n3"),
    digests: Mapping[str, str] = DIGESTS,
    counts: Sequence[ClauseCounts] = THEN.counts,
) -> PodExplanation:
    """An explanation of the same pod, which all nodes pass."""
    return PodExplanation(
        pod=THEN.pod,
        at=at,
        on=None,
        policies=[ConcernedPolicy(name, "governs", "", each) for name, each in digests.items()],
        nodes=len(nodes),
        passing=len(nodes),
        groups=[NodeGroup([], len(nodes), nodes)],
        counts=counts,
    )


@pytest.mark.parametrize(
    ("other", "found"),
    [
        ({}, []),
        (
            {"digests": {"web": "bbb", "guard": "ccc"}},
            [("policies", "guard concerns the pod now, and did not; web was aaa and is bbb")],
        ),
        ({"digests": {}}, [("policies", "web concerned the pod, and does not now")]),
        (
            {"nodes": ["n1", "n3", "n4", "n5"]},
            [("nodes", "not offered then: n4, n5; offered then and gone: n2")],
        ),
        (
            {"counts": OTHERS},
            [("counts", "web: zones: a 3 then and 4 now, b 1 then and 0 now, c 0 then and 2 now")],
        ),
        ({"counts": ()}, []),
        ({"at": "2026-11-21T12:01:05Z"}, [("time", "65 s later")]),
    ],
)
def test_each_of_the_four_is_named(other: dict[str, Any], found: list[tuple[str, str]]) -> None:
    assert [(change.what, change.text) for change in changes(THEN, now(**other))] == found


def test_where_no_policy_concerned_the_pod_only_the_number_of_nodes_is_known() -> None:
    then = msgspec.structs.replace(THEN, groups=())
    assert changes(then, now()) == []
    (found,) = changes(then, now(nodes=["n1", "n2", "n3", "n4"]))
    assert (found.what, found.text) == ("nodes", "3 were offered, and there are 4")


def test_a_policy_that_does_not_select_the_pod_is_no_change() -> None:
    """It can apply to pods of the namespace, so an explanation names it."""
    others = [*now().policies, ConcernedPolicy("other", "no", "its `for` is false", "ddd")]
    assert changes(THEN, msgspec.structs.replace(now(), policies=others)) == []

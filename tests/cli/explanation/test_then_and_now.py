"""Then and now: which of policies, nodes, counts and time changed since a decision."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from server.answers.view_answers import ClauseCounts, CountedGroup, DecisionDetail, Reason
from server.view.changes import changes

THEN = DecisionDetail(
    number=1,
    pod="shop/web-1",
    at="2026-11-21T12:00:00Z",
    offered=3,
    passing=2,
    governing="web",
    error=None,
    seconds=0.001,
    scoredSeconds=None,
    replica="placet-0",
    uid="u",
    generation=1,
    policiesChanged=False,
    guardrails=(),
    gaveWay=(),
    audited=(),
    digests={"web": "aaa"},
    counts=[ClauseCounts("web", "zones", [CountedGroup("a", 3), CountedGroup("b", 1)])],
    passed=["n1", "n2"],
    reasons=[Reason("web: fast", "web", "fast", "", "", 1, ["n3"])],
    scores=None,
)
OTHERS = [ClauseCounts("web", "zones", [CountedGroup("a", 4), CountedGroup("c", 2)])]


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
            {"passed": ["n1", "n4", "n5"]},
            [("nodes", "not offered then: n4, n5; offered then and gone: n2")],
        ),
        ({"passed": None, "offered": 3}, []),
        ({"passed": None, "offered": 4}, [("nodes", "3 were offered, and there are 4")]),
        (
            {"counts": OTHERS},
            [("counts", "web: zones: a 3 then and 4 now, b 1 then and 0 now, c 0 then and 2 now")],
        ),
        ({"counts": ()}, []),
        ({"at": "2026-11-21T12:01:05Z"}, [("time", "65 s later")]),
    ],
)
def test_each_of_the_four_is_named(other: dict[str, Any], found: list[tuple[str, str]]) -> None:
    now = msgspec.structs.replace(THEN, **other)
    assert [(change.what, change.text) for change in changes(THEN, now)] == found

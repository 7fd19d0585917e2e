"""The sentence about the counts of a clause on one node, with the number that holds there."""

from __future__ import annotations

from engine.cache.tallies import FULL
from engine.clauses import MEANINGS
from engine.counting.bounds import GroupCounts
from engine.counting.groups import CountGroups
from engine.program.program import CountClause
from tests.engine.counting.helpers import (
    ON_SPOT,
    WEB,
    Reports,
    clause_of,
    counting_of,
    numbers,
    update,
)
from tests.support.builders import node, pod
from tests.support.rows import rows

NODES = [node("a", labels={"slots": "2", "zone": "x", "cap": "spot"}), node("b")]
SUM = 'limit "l" { sum peer.requests["cpu"] of pods where true per %s strict }'
PODS = [pod("p", labels={"app": "web"}, on="a")]


def count_text(clause: CountClause, counts: GroupCounts, group: int) -> str:
    meanings = {kind.__name__.lower(): meaning for kind, meaning in MEANINGS.items()}
    counted = meanings[clause.kind].counted
    assert counted is not None
    text, _, _ = counted(clause, counts, group)
    return text


@rows(
    ("text", "name", "wanted"),
    {
        "a number of the node": (
            f'limit "l" {{ {WEB} per node at most int(node.labels["slots"]) strict }}',
            "a",
            "1 on this node, at most 2 with this pod",
        ),
        "a skew of the pod": (
            f'spread "l" {{ {WEB} over node.labels["zone"] skew at most 2 + pod.priority strict }}',
            "a",
            "1 in this node's domain, 1 in the emptiest one; skew at most 2",
        ),
        "a percentage of the pod": (
            (
                'let part = 12.5 * double(pod.priority + 4) share "l"'
                f" {{ of {WEB} {ON_SPOT} at most part% strict }}"
            ),
            "a",
            "1 on these nodes, at most 1 (50% of 2); this node is one of them",
        ),
        "a constant skew": (
            f'spread "l" {{ {WEB} over node.labels["zone"] skew at most 3 strict }}',
            "a",
            "1 in this node's domain, 1 in the emptiest one; skew at most 3",
        ),
    },
)
def test_a_text_has_the_number_of_its_group(text: str, name: str, wanted: str) -> None:
    clause = clause_of(text)
    counting, groups = counting_of(NODES, PODS), CountGroups(clause)
    update(groups, counting.table, report=Reports())
    counts = counting.counter().count(clause, groups, predicted=False)
    (row,) = counting.table.find([name])
    assert count_text(clause, counts, int(groups.ids[row])) == wanted


@rows(
    ("scope", "here", "own", "wanted"),
    {
        "node": ("node at most 3", 2500, 250, "2500m on this node, 250m of this pod; at most 3"),
        "domain": (
            "node.zone at most 3",
            2000,
            1000,
            "2 in this node's domain, 1 of this pod; at most 3",
        ),
        "a full sum, and a pod without an amount": (
            "cluster at most 1.5",
            FULL,
            FULL,
            "more than any bound in the cluster, no amount of this pod; at most 1500m",
        ),
    },
)
def test_a_sum_is_shown_in_units(scope: str, here: int, own: int, wanted: str) -> None:
    assert count_text(clause_of(SUM % scope), numbers([here], own=own), 0) == wanted

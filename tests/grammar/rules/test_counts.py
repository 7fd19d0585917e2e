"""Checks of numbers: shares, percentages and ranges."""

from __future__ import annotations

import pytest

from tests.grammar.rules.helpers import diagnostics, found
from tests.support.rows import rows

SPOT = 'node.labels["cap"] == "spot"'


def share(bound: str, name: str = "s", on: str = SPOT, of: str = "replicas", head: str = "") -> str:
    strength = "" if "weight" in bound else "strict"
    return f'share "{name}" {head} {{ of {of} on nodes where {on} {bound} {strength} }}'


# ---- P0312: shares that cannot hold together


@rows(
    ("items", "wanted"),
    {
        "at least above at most": (
            share("at least 6", "a") + share("at most 4", "b"),
            ["P0312 at most 4"],
        ),
        "in the other order": (
            share("at most 4", "a") + share("at least 6", "b"),
            ["P0312 at least 6"],
        ),
        "two different exact numbers": (
            share("exactly 4", "a") + share("exactly 5", "b"),
            ["P0312 exactly 5"],
        ),
        "an exact percentage above at most": (
            share("exactly 60%", "a") + share("at most 50%", "b"),
            ["P0312 at most 50%"],
        ),
        # near misses
        "not bounds that meet": (share("at least 4", "a") + share("at most 4", "b"), []),
        "not within a bound": (share("exactly 4", "a") + share("at least 3", "b"), []),
        "not a percentage and a number": (share("at least 60%", "a") + share("at most 4", "b"), []),
        "not on other nodes": (
            share("at least 6", "a") + share("at most 4", "b", on="node.ready"),
            [],
        ),
        "not of other pods": (
            share("at least 6", "a") + share("at most 4", "b", of='pods where peer.name == "x"'),
            [],
        ),
        "not under another condition": (
            share("at least 6", "a") + share("at most 4", "b", head="when pod.priority > 0"),
            [],
        ),
        "not with a best-effort share": (
            share("at least 6", "a") + share("at most 4 weight 50", "b"),
            [],
        ),
    },
)
def test_shares_that_cannot_hold_together(items: str, wanted: list[str]) -> None:
    assert found(items, ["P0312"]) == wanted


@pytest.mark.parametrize(
    ("one", "other", "wanted"),
    [
        ("at least 51%", "at most 50%", "error"),
        ("at least 6", "at most 4", "warning"),
        ("exactly 60%", "at most 50%", "warning"),
    ],
)
def test_what_no_workload_can_satisfy_is_an_error(one: str, other: str, wanted: str) -> None:
    """`exactly` is rounded down: one pod satisfies 60% and 50%."""
    (clash,) = diagnostics(share(one, "a") + share(other, "b"), ["P0312"])
    assert clash.severity == wanted


# ---- P0204: constants that are no bound


@rows(
    ("items", "wanted"),
    {
        "a negative number": ('let n = -1 limit "l" { per node at most n strict }', ["P0204 n"]),
        "a part of a pod": ('limit "l" { per node at most 1.0 / 2.0 strict }', ["P0204 1.0 / 2.0"]),
        "over 100%": ("let n = 101 " + share("at most n%"), ["P0204 at most n%"]),
        "no skew": ('let n = 0 spread "s" { over node.zone skew at most n strict }', ["P0204 n"]),
        "no domains": (
            'spread "s" { over node.zone at least 1 - 1 skew at most 1 strict }',
            ["P0204 1 - 1"],
        ),
        "not a range to 0": ('let n = 3 score "s" weight 1 { value 1 range n .. 0 }', []),
        "an empty range": ('let n = 3 score "s" weight 1 { value 1 range n .. 3 }', ["P0208 n"]),
        "a negative amount": (
            (
                'limit "l" { sum peer.requests["cpu"] of all pods where true '
                'per node at most "-1" strict }'
            ),
            ['P0204 at most "-1"'],
        ),
        # near misses
        "an amount of 0": (
            (
                'limit "l" { sum peer.requests["cpu"] of all pods where true '
                'per node at most "0" strict }'
            ),
            [],
        ),
        "not 4.0": ('let n = 4.0 limit "l" { per node at most n strict }', []),
        "not a part of a percent": ("let n = 12.5 " + share("at most n%"), []),
        "not a number that may be negative": (
            'limit "l" { per cluster at most -pod.priority strict }',
            [],
        ),
    },
)
def test_constants_that_are_no_bound(items: str, wanted: list[str]) -> None:
    assert found(items, ["P0204", "P0208"]) == wanted


@rows(
    ("items", "wanted"),
    {
        "a text": (
            'limit "l" { per node at most node.labels["slots"] strict }',
            ['P0105 node.labels["slots"]'],
        ),
        "the age of a node, which reads the time": (
            'limit "l" { per node at most node.age.getHours() strict }',
            [],
        ),
        "the node, in a limit per cluster": (
            'limit "l" { per cluster at most size(node.pods) strict }',
            ["P0111 node.pods"],
        ),
        "the node, in a limit per zone": (
            'limit "l" { per zone at most size(node.pods) strict }',
            ["P0111 node.pods"],
        ),
        "a peer, behind a let": (
            'let n = size(peer.labels) limit "l" { per node at most n strict }',
            ["P0111 n"],
        ),
        "the node, in a skew": (
            'spread "s" { over node.zone skew at most size(node.pods) strict }',
            ["P0111 node.pods"],
        ),
        "a group, in a number of domains": (
            'spread "s" { over zone at least size(zone.value) skew at most 1 strict }',
            ["P0111 zone.value"],
        ),
        "the time, in a range": ('score "s" weight 1 { value 1 range 0 .. now.getHours() }', []),
        "not the node, in a range": (
            'score "s" weight 1 { value 1 range 0 .. size(node.name) }',
            [],
        ),
        "the node, a share": (share("at most size(node.pods)"), ["P0111 node.pods"]),
        "a percentage that nothing names": (share("at most n%"), ["P0101 n"]),
    },
)
def test_what_a_bound_may_read(items: str, wanted: list[str]) -> None:
    assert found(items, ["P0101", "P0105", "P0111"]) == wanted

"""Checks of numbers: shares, percentages and ranges."""

from __future__ import annotations

import pytest

from tests.grammar.rules.helpers import diagnostics, found

SPOT = 'node.labels["cap"] == "spot"'


def share(bound: str, name: str = "s", on: str = SPOT, of: str = "replicas", head: str = "") -> str:
    strength = "" if "best effort" in bound else "strict"
    return f'share "{name}" {head} {{ of {of} on nodes where {on} {bound} {strength} }}'


# ---- P0312: shares that cannot hold together


@pytest.mark.parametrize(
    ("items", "wanted"),
    [
        pytest.param(
            share("at least 6", "a") + share("at most 4", "b"),
            ["P0312 at most 4"],
            id="at least above at most",
        ),
        pytest.param(
            share("at most 4", "a") + share("at least 6", "b"),
            ["P0312 at least 6"],
            id="in the other order",
        ),
        pytest.param(
            share("exactly 4", "a") + share("exactly 5", "b"),
            ["P0312 exactly 5"],
            id="two different exact numbers",
        ),
        pytest.param(
            share("exactly 60%", "a") + share("at most 50%", "b"),
            ["P0312 at most 50%"],
            id="an exact percentage above at most",
        ),
        # near misses
        pytest.param(
            share("at least 4", "a") + share("at most 4", "b"), [], id="not bounds that meet"
        ),
        pytest.param(
            share("exactly 4", "a") + share("at least 3", "b"), [], id="not within a bound"
        ),
        pytest.param(
            share("at least 60%", "a") + share("at most 4", "b"),
            [],
            id="not a percentage and a number",
        ),
        pytest.param(
            share("at least 6", "a") + share("at most 4", "b", on="node.ready"),
            [],
            id="not on other nodes",
        ),
        pytest.param(
            share("at least 6", "a") + share("at most 4", "b", of='pods where peer.name == "x"'),
            [],
            id="not of other pods",
        ),
        pytest.param(
            share("at least 6", "a") + share("at most 4", "b", head="when pod.priority > 0"),
            [],
            id="not under another condition",
        ),
        pytest.param(
            share("at least 6", "a") + share("at most 4 best effort weight 50", "b"),
            [],
            id="not with a best-effort share",
        ),
    ],
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


@pytest.mark.parametrize(
    ("items", "wanted"),
    [
        pytest.param(
            'let n = -1 limit "l" { per node at most n strict }',
            ["P0204 n"],
            id="a negative number",
        ),
        pytest.param(
            'limit "l" { per node at most 1.0 / 2.0 strict }',
            ["P0204 1.0 / 2.0"],
            id="a part of a pod",
        ),
        pytest.param("let n = 101 " + share("at most n%"), ["P0204 at most n%"], id="over 100%"),
        pytest.param(
            'let n = 0 spread "s" { over node.zone skew at most n strict }',
            ["P0204 n"],
            id="no skew",
        ),
        pytest.param(
            'spread "s" { over node.zone skew at most 1 min domains 1 - 1 strict }',
            ["P0204 1 - 1"],
            id="no domains",
        ),
        pytest.param(
            'let n = 3 score "s" weight 1 { value 1 range n .. 0 }', [], id="not a range to 0"
        ),
        pytest.param(
            'let n = 3 score "s" weight 1 { value 1 range n .. 3 }',
            ["P0208 n"],
            id="an empty range",
        ),
        pytest.param(
            'limit "l" { sum peer.requests["cpu"] of all pods where true '
            'per node at most "-1" strict }',
            ['P0204 at most "-1"'],
            id="a negative amount",
        ),
        # near misses
        pytest.param(
            'limit "l" { sum peer.requests["cpu"] of all pods where true '
            'per node at most "0" strict }',
            [],
            id="an amount of 0",
        ),
        pytest.param('let n = 4.0 limit "l" { per node at most n strict }', [], id="not 4.0"),
        pytest.param("let n = 12.5 " + share("at most n%"), [], id="not a part of a percent"),
        pytest.param(
            'limit "l" { per cluster at most -pod.priority strict }',
            [],
            id="not a number that may be negative",
        ),
    ],
)
def test_constants_that_are_no_bound(items: str, wanted: list[str]) -> None:
    assert found(items, ["P0204", "P0208"]) == wanted


@pytest.mark.parametrize(
    ("items", "wanted"),
    [
        pytest.param(
            'limit "l" { per node at most node.labels["slots"] strict }',
            ['P0105 node.labels["slots"]'],
            id="a text",
        ),
        pytest.param(
            'limit "l" { per node at most node.age.getHours() strict }',
            [],
            id="the age of a node, which reads the time",
        ),
        pytest.param(
            'limit "l" { per cluster at most size(node.pods) strict }',
            ["P0111 node.pods"],
            id="the node, in a limit per cluster",
        ),
        pytest.param(
            'limit "l" { per zone at most size(node.pods) strict }',
            ["P0111 node.pods"],
            id="the node, in a limit per zone",
        ),
        pytest.param(
            'let n = size(peer.labels) limit "l" { per node at most n strict }',
            ["P0111 n"],
            id="a peer, behind a let",
        ),
        pytest.param(
            'spread "s" { over node.zone skew at most size(node.pods) strict }',
            ["P0111 node.pods"],
            id="the node, in a skew",
        ),
        pytest.param(
            'spread "s" { over zone skew at most 1 min domains size(zone.value) strict }',
            ["P0111 zone.value"],
            id="a group, in a number of domains",
        ),
        pytest.param(
            'score "s" weight 1 { value 1 range 0 .. now.getHours() }',
            [],
            id="the time, in a range",
        ),
        pytest.param(
            'score "s" weight 1 { value 1 range 0 .. size(node.name) }',
            [],
            id="not the node, in a range",
        ),
        pytest.param(share("at most size(node.pods)"), ["P0111 node.pods"], id="the node, a share"),
        pytest.param(share("at most n%"), ["P0101 n"], id="a percentage that nothing names"),
    ],
)
def test_what_a_bound_may_read(items: str, wanted: list[str]) -> None:
    assert found(items, ["P0101", "P0105", "P0111"]) == wanted

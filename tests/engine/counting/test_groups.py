"""Groups of a clause: the group of each node, the headroom of groups, and counts by group."""

from __future__ import annotations

import pytest

from engine.cache.node_table import NodeTable
from engine.cache.tallies import Adding, Tally
from engine.counting.bounds import OFF, ON, GroupCounts
from engine.counting.groups import OUTSIDE, CountGroups
from engine.errors import DeadlineExceededError
from tests.engine.counting.helpers import (
    LIMIT,
    SHARE,
    SPREAD,
    WEB,
    Reports,
    groups_of,
    numbers,
    update,
)
from tests.support.builders import Object, node, pod
from tests.support.engines import cache_of, node_of, peer_of, snapshot_of, table_of
from tests.support.rows import rows

BROKEN = "1 / (size(node.labels) - 2)"


# ---- the group of each node


def by_name(groups: CountGroups, rows: dict[str, int]) -> dict[str, int]:
    return {name: int(groups.ids[row]) for name, row in rows.items()}


def size(groups: CountGroups, table: NodeTable) -> int:
    """The number of groups."""
    return len(groups.count_of(Tally(Adding(lambda _: True)), table))


NODES = [
    node("a", labels={"cap": "spot", "zone": "x"}),
    node("b", labels={"cap": "od", "zone": "y"}),
    node("c", labels={"zone": "x"}),
    node("d", labels={"cap": "spot"}),
]


@rows(
    ("clause", "wanted"),
    {
        "a share has two sides, and a node without the label is off": (
            SHARE % "at most 1",
            {"a": ON, "b": OFF, "c": OFF, "d": ON},
        ),
        "a spread has a group for each value, and a node without one is outside": (
            SPREAD % "1",
            {"a": 0, "b": 1, "c": 0, "d": OUTSIDE},
        ),
        "a limit per node has a group for each row": (
            LIMIT % "node at most 1",
            {"a": 1, "b": 2, "c": 3, "d": 4},
        ),
        "a limit per cluster has one group": (
            LIMIT % "cluster at most 1",
            {"a": 0, "b": 0, "c": 0, "d": 0},
        ),
        "a limit per has a group for each value": (
            LIMIT % 'node.labels["zone"] at most 1',
            {"a": 0, "b": 1, "c": 0, "d": OUTSIDE},
        ),
        "a number is a domain": (
            LIMIT % 'size(node.labels["zone"]) at most 1',
            {"a": 0, "b": 0, "c": 0, "d": OUTSIDE},
        ),
        "a bool is a domain": (
            LIMIT % "node.name == 'a' at most 1",
            {"a": 0, "b": 1, "c": 1, "d": 1},
        ),
        "1 and '1' and true are three domains": (
            LIMIT % "[dyn(1), dyn('1'), dyn(true), dyn(1)]"
            "[{'a': 0, 'b': 1, 'c': 2, 'd': 3}[node.name]] at most 1",
            {"a": 0, "b": 1, "c": 2, "d": 0},
        ),
    },
)
def test_group_of_each_node(clause: str, wanted: dict[str, int]) -> None:
    table = snapshot_of(NODES).table
    reports = Reports()
    groups = groups_of(clause)
    update(groups, table, report=reports)
    assert by_name(groups, dict(table.rows)) == wanted
    assert groups.ids[0] == OUTSIDE, "the row of unknown nodes is in no group"
    assert size(groups, table) == max(wanted.values()) + 1
    assert reports.heard == [], "a missing value is no error"


@rows(
    ("clause", "group", "error"),
    {
        "a share puts it off": (
            f'share "s" {{ of {WEB} on nodes where {BROKEN} > 0 at most 1 strict }}',
            OFF,
            "s: division by zero",
        ),
        "a limit leaves it outside": (
            LIMIT % f"{BROKEN} at most 1",
            OUTSIDE,
            "l: division by zero",
        ),
        "a value that is no domain is an error": (
            LIMIT % "dyn(node.name == '' ? 1.0 : 1.5) at most 1",
            OUTSIDE,
            "l: a domain is a string, an int or a bool",
        ),
    },
)
def test_a_node_with_an_error_is_reported(clause: str, group: int, error: str) -> None:
    table = snapshot_of([node("a", labels={"x": "1"})]).table
    reports = Reports()
    groups = groups_of(clause)
    update(groups, table, report=reports)
    assert by_name(groups, dict(table.rows)) == {"a": group}
    assert reports.heard == [error]


TAINT = {"taints": [{"key": "gpu", "effect": "NoSchedule"}]}
ELIGIBLE, SELECTED, EVERY = (
    (SPREAD % "1").replace("over", f"nodes {nodes} over")
    for nodes in ("eligible", "selected", "all")
)


@rows(
    ("clause", "other", "spec", "wanted"),
    {
        "eligible: a node like others": (ELIGIBLE, {}, {}, True),
        "eligible: no cordoned node": (ELIGIBLE, {"spec": {"unschedulable": True}}, {}, False),
        "eligible: no taint that forbids": (ELIGIBLE, {"spec": TAINT}, {}, False),
        "eligible: no other node": (ELIGIBLE, {}, {"nodeSelector": {"zone": "x"}}, False),
        "selected: a cordoned node": (SELECTED, {"spec": {"unschedulable": True}}, {}, True),
        "selected: any taint": (SELECTED, {"spec": TAINT}, {}, True),
        "selected: no other node": (SELECTED, {}, {"nodeSelector": {"zone": "x"}}, False),
        "all: any taint": (EVERY, {"spec": TAINT}, {}, True),
        "all: any node": (EVERY, {}, {"nodeSelector": {"zone": "x"}}, True),
    },
)
def test_nodes_that_a_spread_counts(clause: str, other: Object, spec: Object, wanted: bool) -> None:
    """One set for the counts and for the minimum; every node has a group."""
    nodes = [node("a", labels={"zone": "x"}), node("b", labels={"zone": "y"}) | other]
    table = snapshot_of(nodes).table
    groups = groups_of(clause)
    update(groups, table, pod("asked", spec=spec))
    tally = Tally(Adding(lambda _: True))
    tally.arrives("default/p", peer_of(pod("p", on="b")))
    assert groups.domains().tolist() == [True, wanted]
    assert groups.count_of(tally, table).tolist() == [0, int(wanted)]
    assert by_name(groups, dict(table.rows)) == {"a": 0, "b": 1}


def test_the_groups_of_other_clauses_have_all_nodes() -> None:
    table = snapshot_of([node("a", unschedulable=True)]).table
    for clause in (LIMIT % "node at most 1", SHARE % "at most 1", EVERY):
        groups = groups_of(clause)
        update(groups, table, pod("asked", spec={"nodeSelector": {"zone": "x"}}))
        assert groups.counted is groups.ids


@rows(
    ("other", "spec", "wanted"),
    {
        "both domains count": ({}, {}, [True, True]),
        "not a cordoned one": ({"spec": {"unschedulable": True}}, {}, [True, False]),
        "not one whose taint forbids the pod": ({"spec": TAINT}, {}, [True, False]),
        "one whose taint the pod tolerates": (
            {"spec": TAINT},
            {"tolerations": [{"operator": "Exists"}]},
            [True, True],
        ),
        "not one outside its selector": ({}, {"nodeSelector": {"zone": "x"}}, [True, False]),
    },
)
def test_domains_are_those_with_an_eligible_node(
    other: Object, spec: Object, wanted: list[bool]
) -> None:
    """Both nodeInclusionPolicies of PodTopologySpread at `Honor`."""
    nodes = [node("a", labels={"zone": "x"}), node("b", labels={"zone": "y"}) | other]
    groups = groups_of(SPREAD % "1")
    update(groups, snapshot_of(nodes).table, pod("asked", spec=spec))
    assert groups.domains().tolist() == wanted


def test_a_domain_counts_while_one_of_its_nodes_is_eligible() -> None:
    nodes = [
        node("a", labels={"zone": "x"}, unschedulable=True),
        node("b", labels={"zone": "x"}),
    ]
    groups = groups_of(SPREAD % "1")
    update(groups, snapshot_of(nodes).table)
    assert groups.domains().tolist() == [True]


# ---- headroom

MISSING_PASSES = (SPREAD % "1").replace("strict", "strict missing pass")


@rows(
    ("clause", "counts", "wanted", "hopeful"),
    {
        "no pod": (SHARE % "at most 1", numbers([0, 0], total=5), "abcd", "abcd"),
        "a closed side": (SHARE % "at most 1", numbers([0, 1], total=5), "bc", "bc"),
        "a side that only pods in flight close is hopeful": (
            SHARE % "at most 1",
            numbers([0, 1], [0, 0], total=5),
            "bc",
            "abcd",
        ),
        "a node outside is closed, and hopeless": (SPREAD % "1", numbers([0, 0]), "abc", "abc"),
        "a hopeful domain": (SPREAD % "1", numbers([1, 0], [0, 0]), "b", "abc"),
        "`missing pass`: open outside": (MISSING_PASSES, numbers([0, 0]), "abcd", "abcd"),
        "`missing pass`: whatever is closed": (MISSING_PASSES, numbers([1, 0]), "bd", "bd"),
    },
)
def test_headroom(clause: str, counts: GroupCounts, wanted: str, hopeful: str) -> None:
    """A node has the headroom of its group; one that is in no group has that of `missing`."""
    table = snapshot_of(NODES).table
    groups = groups_of(clause)
    update(groups, table)
    found = groups.headroom(counts, table.find(list("abcd")))
    masks = (found.open, found.hopeful)
    opened, hoped = (
        "".join(n for n, is_open in zip("abcd", m, strict=True) if is_open) for m in masks
    )
    assert (opened, hoped) == (wanted, hopeful)


@rows(
    ("clause", "counts", "roomy"),
    {
        "no room for another": (SPREAD % "1", numbers([0, 0], waits=1), ""),
        "room for another in one": (SPREAD % "2", numbers([1, 0], waits=1), "b"),
        "nobody waits": (SPREAD % "1", numbers([0, 0]), None),
        "it takes no room": (SPREAD % "1", numbers([0, 0], own=0, waits=1), None),
        "a limit": (LIMIT % "node at most 1", numbers([0] * 5, waits=9), ""),
        "one side never runs out": (SHARE % "at most 1", numbers([0, 0], total=5, waits=1), None),
    },
)
def test_nodes_with_room_for_another(clause: str, counts: GroupCounts, roomy: str | None) -> None:
    table = snapshot_of(NODES).table
    groups = groups_of(clause)
    update(groups, table)
    found = groups.headroom(counts, table.find(list("abcd")))
    assert found.wait == counts.waits
    if roomy is None:
        assert found.roomy is None
    else:
        assert found.roomy is not None
        assert [n for n, is_so in zip("abcd", found.roomy, strict=True) if is_so] == list(roomy)


def test_headroom_keeps_what_it_is_of() -> None:
    table = snapshot_of(NODES).table
    groups, counts = groups_of(SPREAD % "1"), numbers([1, 0])
    update(groups, table)
    rows = table.find(["b", "unknown", "a", "b"])
    found = groups.headroom(counts, rows)
    assert found.clause is groups.clause
    assert found.counts is counts
    assert found.groups.tolist() == groups.ids[rows].tolist()
    assert len(found.open) == len(found.hopeful) == len(rows)


# ---- node tables that change


def test_only_nodes_that_changed_are_looked_at_again() -> None:
    cache = cache_of(NODES)
    groups = groups_of(SPREAD % "1")
    assert update(groups, cache.snapshot().table) == ["a", "b", "c", "d"]
    before = groups.ids
    assert update(groups, cache.snapshot().table) == []
    assert groups.ids is before

    cache.put_node(node_of(node("b", labels={"zone": "x"})))
    assert update(groups, cache.snapshot().table) == ["b"]
    assert by_name(groups, dict(cache.snapshot().table.rows)) == {
        "a": 0,
        "b": 0,
        "c": 0,
        "d": OUTSIDE,
    }
    assert groups.ids is not before
    assert groups.domains().tolist() == [True, False], "no node is in `y` any more"


def test_a_change_that_moves_no_node_keeps_the_array() -> None:
    """What others keep by this array stays valid."""
    cache = cache_of(NODES)
    groups = groups_of(SPREAD % "1")
    update(groups, cache.snapshot().table)
    before = groups.ids
    cache.put_pod(peer_of(pod("p", on="a")))
    assert update(groups, cache.snapshot().table) == ["a"]
    assert groups.ids is before


def test_groups_grow_with_the_table() -> None:
    cache = cache_of(NODES)
    per_zone, per_node = groups_of(SPREAD % "1"), groups_of(LIMIT % "node at most 1")
    for groups in (per_zone, per_node):
        update(groups, cache.snapshot().table)
    for name, zone in (("e", "y"), ("f", "w")):
        cache.put_node(node_of(node(name, labels={"zone": zone})))
    table = cache.snapshot().table
    for groups in (per_zone, per_node):
        assert update(groups, table) == ["e", "f"]
    zones, rows = (by_name(groups, dict(table.rows)) for groups in (per_zone, per_node))
    assert (zones["e"], zones["f"], size(per_zone, table)) == (1, 2, 3)
    assert rows == dict(table.rows)
    assert size(per_node, table) == max(table.rows.values()) + 1


def test_a_node_that_takes_the_row_of_another_has_its_own_group() -> None:
    cache = cache_of(NODES)
    groups = groups_of(SPREAD % "1")
    update(groups, cache.snapshot().table)
    row = cache.snapshot().table.rows["b"]
    cache.remove_node("b")
    update(groups, cache.snapshot().table)
    cache.put_node(node_of(node("e", labels={"zone": "x"})))
    table = cache.snapshot().table
    assert table.rows["e"] == row
    assert update(groups, table) == ["e"]
    assert groups.ids[row] == 0
    assert groups.domains().tolist() == [True, False]


@pytest.mark.xfail(
    strict=True, reason="the row of a removed node keeps its version, so its domain stays eligible"
)
def test_a_domain_is_gone_with_its_last_node() -> None:
    """Else the global minimum stays 0, and no pod fits the domains that are left."""
    cache = cache_of(NODES)
    groups = groups_of(SPREAD % "1")
    update(groups, cache.snapshot().table)
    cache.remove_node("b")
    update(groups, cache.snapshot().table)
    assert groups.domains().tolist() == [True, False]


def test_another_table_owner_is_looked_at_from_the_start() -> None:
    groups = groups_of(SPREAD % "1")
    views = snapshot_of(NODES).nodes.values()
    update(groups, table_of(views))
    assert update(groups, table_of(views)) == ["a", "b", "c", "d"]


def test_what_the_deadline_cuts_short_is_looked_at_again() -> None:
    def late() -> None:
        raise DeadlineExceededError("too late")

    table = snapshot_of(NODES).table
    groups = groups_of(SPREAD % "1")
    with pytest.raises(DeadlineExceededError):
        update(groups, table, check=late)
    assert update(groups, table) == ["a", "b", "c", "d"]


# ---- counts of a tally by group


def test_pods_are_counted_in_the_group_of_their_node() -> None:
    table = snapshot_of(NODES).table
    groups = groups_of(SPREAD % "1")
    update(groups, table)
    tally = Tally(Adding(lambda _: True))
    for name, on in {"p": "a", "q": "c", "r": "b", "s": "d", "t": "gone"}.items():
        tally.arrives(f"default/{name}", peer_of(pod(name, on=on)))
    assert groups.count_of(tally, table).tolist() == [2, 1]


def test_counts_follow_the_tally_and_the_nodes() -> None:
    """Whatever is kept between two calls, the counts are those of a fresh start."""
    cache = cache_of(NODES)
    groups = groups_of(SPREAD % "1")
    tally = Tally(Adding(lambda _: True))

    def counts() -> list[int]:
        update(groups, cache.snapshot().table)
        found: list[int] = groups.count_of(tally, cache.snapshot().table).tolist()
        return found

    first = peer_of(pod("p", on="a"))
    tally.arrives("default/p", first)
    assert counts() == [1, 0]
    tally.arrives("default/q", peer_of(pod("q", on="b")))
    assert counts() == [1, 1]
    tally.leaves("default/p", first)
    assert counts() == [0, 1]
    cache.put_node(node_of(node("b", labels={"zone": "x"})))
    assert counts() == [1, 0]
    for number in range(600):
        tally.arrives(f"default/p{number}", peer_of(pod(f"p{number}", on="a")))
    assert counts() == [601, 0], "more changes than a tally remembers"
    tally = Tally(Adding(lambda _: True))
    assert counts() == [0, 0], "another tally"


def test_who_gets_counts_may_change_them() -> None:
    table = snapshot_of(NODES).table
    groups = groups_of(SPREAD % "1")
    update(groups, table)
    tally = Tally(Adding(lambda _: True))
    groups.count_of(tally, table)[0] += 7
    assert groups.count_of(tally, table).tolist() == [0, 0]

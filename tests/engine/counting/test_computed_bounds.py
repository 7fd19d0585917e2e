"""Computed bounds: numbers that are read from the pod, the node or the domain."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from engine.counting.bounds import open_groups
from engine.counting.count_clauses import CountClauses
from engine.counting.groups import CountHeadroom
from tests.engine.counting.helpers import (
    ASKED,
    ON_SPOT,
    WEB,
    Reports,
    clauses_of,
    counting_of,
    groups_of,
    node_groups_of,
    numbers,
    update,
)
from tests.support.builders import Object, node, pod, web
from tests.support.engines import cache_of, evaluation_of, frame_of, node_of, programs_of
from tests.support.rows import rows

NODES = [
    node("a", labels={"slots": "2", "zone": "x", "cap": "spot"}),
    node("b", labels={"slots": "1", "zone": "x"}),
    node("c", labels={"slots": "-7", "zone": "y"}),
    node("d", labels={"slots": "many", "zone": "y"}),
    node("e"),
]
SLOTS = 'int(node.labels["slots"])'


ZONE = 'group zone by node.labels["zone"] '


def asked(**annotations: str) -> Object:
    return pod("asked", labels={"app": "web"}, annotations=annotations)


def headroom(
    text: str, pods: Sequence[Object] = (), question: Object = ASKED, nodes: str = "abcde"
) -> tuple[CountHeadroom, list[str]]:
    """The headroom of the only clause of a text, and what was reported."""
    counting = counting_of(NODES, pods)
    heard = Reports()
    frame = frame_of(question)
    (program,) = programs_of(f"cluster policy p {{ {text} }}")
    frame.groups = node_groups_of(program, counting.table)
    evaluation = evaluation_of(frame, report=heard)
    clauses = CountClauses(program.counts, evaluation)
    rows = counting.table.find(list(nodes))
    (found,) = clauses.headrooms(counting.counter(question), counting.table, rows, evaluation)
    return found, heard.heard


def opened(text: str, pods: Sequence[Object] = (), question: Object = ASKED) -> str:
    found, _ = headroom(text, pods, question)
    return "".join(n for n, is_open in zip("abcde", found.open, strict=True) if is_open)


def limit(per: str, strength: str = "strict") -> str:
    return f'limit "l" {{ {WEB} per {per} {strength} }}'


def spread(bound: str) -> str:
    return f'{ZONE} spread "l" {{ {WEB} over zone {bound} strict }}'


@rows(
    ("text", "pods", "wanted"),
    {
        "each node has its own number": (limit(f"node at most {SLOTS}"), [], "ab"),
        "a node that has as many is full": (
            limit(f"node at most {SLOTS}"),
            [web("p", on="a"), web("q", on="b")],
            "a",
        ),
        "at least: a negative number is 0": (
            limit(f"node at least {SLOTS}"),
            [web("p", on="a"), web("q", on="b")],
            "bc",
        ),
        "exactly: neither of both": (limit(f"node exactly {SLOTS}"), [web("p", on="a")], ""),
        "each domain has its own number": (
            ZONE + limit('zone at most zone.value == "x" ? 1 : 0'),
            [],
            "ab",
        ),
        "a map gives the number of a domain": (
            ZONE + limit('zone at most {"x": 2, "y": 1}[zone.value]'),
            [web("p", on="a"), web("q", on="d")],
            "ab",
        ),
        "a def may get the domain": (
            "def most(zone: string): int = size(zone) "
            + ZONE
            + limit("zone at most most(zone.value)"),
            [web("p", on="a")],
            "cd",
        ),
        "a let may read the domain": (
            'let most = zone.value == "x" ? 1 : 0 ' + ZONE + limit("zone at most most"),
            [],
            "ab",
        ),
        "the cluster has the number of the pod": (
            limit("cluster at most pod.priority + 1"),
            [],
            "abcde",
        ),
        "and may be full": (limit("cluster at most pod.priority + 1"), [web("p", on="a")], ""),
        "a domain may have more skew than another one": (
            spread('skew at most zone.value == "x" ? 2 : 1'),
            [web("p", on="a")],
            "abcd",
        ),
        "or less": (spread('skew at most zone.value == "x" ? 1 : 2'), [web("p", on="a")], "cd"),
        "a domain without a skew is no domain": (
            spread('skew at most {"x": 1}[zone.value]'),
            [],
            "ab",
        ),
        "as many domains as the pod wants": (
            spread("at least pod.priority + 2 skew at most 1"),
            [web("p", on="a"), web("q", on="c")],
            "abcd",
        ),
        "fewer domains than the pod wants": (
            spread("at least pod.priority + 3 skew at most 1"),
            [web("p", on="a"), web("q", on="c")],
            "",
        ),
        "a negative number of domains is 0": (
            spread("skew at most 1 at least -1 - pod.priority"),
            [web("p", on="a"), web("q", on="c")],
            "abcd",
        ),
        "a number of domains that is missing rejects everywhere": (
            spread('at least int(pod.annotations["none"]) skew at most 1'),
            [],
            "",
        ),
        "a let": ("let n = 1 + 1 " + limit("node at most n"), [], "abcde"),
        "a let of a let": (
            "let n = 1 let m = n " + limit("node at most m"),
            [web("p", on="a")],
            "bcde",
        ),
        "a share has the number of the pod": (
            f'share "s" {{ of {WEB} {ON_SPOT} at most size(pod.annotations) strict }}',
            [],
            "bcde",
        ),
        "the number of a share holds where no node is on it": (
            f'share "s" {{ of {WEB} on nodes where false at least size(pod.annotations) strict }}',
            [],
            "abcde",
        ),
    },
)
def test_the_number_of_each_group(text: str, pods: Sequence[Object], wanted: str) -> None:
    assert opened(text, pods) == wanted


@rows(
    ("percent", "pods", "wanted"),
    {
        "50% of 2 is 1": ("50", [web("p")], "abcde"),
        "49.9% of 2 is 0": ("49.9", [web("p")], "bcde"),
        "more than 100% is all": ("700", [web("p", on="a")], "abcde"),
        "less than 0% is none": ("-1", [], "bcde"),
        "a text is an error": ("much", [], ""),
    },
)
def test_a_percentage_of_the_pod(percent: str, pods: Sequence[Object], wanted: str) -> None:
    text = (
        'let part = double(pod.annotations["part"])'
        f' share "s" {{ of {WEB} {ON_SPOT} at most part% strict }}'
    )
    assert opened(text, pods, asked(part=percent)) == wanted


@rows(
    ("number", "error"),
    {
        "missing": ('int(node.labels["none"])', "there is no key `none`"),
        "a text that is no number": (SLOTS, "`many` is not an int"),
        "a part of a pod": (
            "double(size(node.labels)) / 2.0 + 0.25",
            "the bound is 1.75, which is not a whole number",
        ),
        "infinitely many": ("double(size(node.labels)) / 0.0", "the bound is not a number"),
        "a text of unknown type": ("dyn(node.name)", "the bound is not a number"),
        "a bool of unknown type": ("dyn(node.ready)", "the bound is not a number"),
    },
)
def test_a_bound_without_a_number_rejects_and_is_reported(number: str, error: str) -> None:
    for bound in ("at most", "at least", "exactly"):
        found, heard = headroom(limit(f"node {bound} {number}"), nodes="d")
        assert (found.open.tolist(), found.hopeful.tolist()) == ([False], [False])
        assert f"l: {error}" in heard


def test_a_used_node_without_an_amount_rejects_and_is_reported() -> None:
    amount = 'int(node.labels["none"])'
    text = f'limit "l" {{ {WEB} sum {amount} over used node at most 9 strict }}'
    found, heard = headroom(text, nodes="d")
    assert (found.open.tolist(), found.hopeful.tolist()) == ([False], [False])
    assert "l: there is no key `none`" in heard


def test_a_pod_without_a_number_is_rejected_everywhere() -> None:
    """By a share, a limit per cluster, and a limit per domain, alike."""
    number = 'int(pod.annotations["slots"])'
    for text in (
        f'share "l" {{ of {WEB} {ON_SPOT} at most {number} strict }}',
        limit(f"cluster at least {number}"),
        limit(f'node.labels["zone"] at most {number}'),
    ):
        found, heard = headroom(text)
        assert not found.open.any()
        assert not found.hopeful.any()
        assert set(heard) == {"l: there is no key `slots`"}


def test_missing_pass_lets_the_node_pass() -> None:
    text = limit(f"node at most {SLOTS}", "strict missing pass")
    found, heard = headroom(text, [web("p", on="b")])
    assert found.open.tolist() == [True, False, False, True, True]
    assert heard == ["l: `many` is not an int", "l: there is no key `slots`"]


@pytest.mark.parametrize(
    ("missing", "wanted"), [("", [100, 0, 0, 0, 0]), (" missing 30", [100, 0, 0, 30, 30])]
)
def test_points_of_a_best_effort_bound(missing: str, wanted: list[float]) -> None:
    text = limit(f"node at most {SLOTS}", f"weight 5{missing}")
    counting = counting_of(NODES, [web("p", on="b")])
    evaluation = evaluation_of(frame_of(ASKED), report=Reports())
    clauses = CountClauses(clauses_of(text), evaluation)
    rows = counting.table.find(list("abcde"))
    ((weight, points),) = clauses.terms(counting.counter(), counting.table, rows, evaluation)
    assert (weight, points.tolist()) == (5, wanted)


def test_a_number_follows_its_node() -> None:
    cache = cache_of([node("a", labels={"slots": "2"}), node("b", labels={"slots": "3"})])
    groups = groups_of(limit(f"node at most {SLOTS}"))
    update(groups, cache.snapshot().table)
    a, b = cache.snapshot().table.find(["a", "b"])
    before, bounds = groups.ids, groups.bounds
    assert bounds is not None
    assert bounds[[a, b]].tolist() == [2, 3]
    cache.put_node(node_of(node("a", labels={"slots": "9"})))
    assert update(groups, cache.snapshot().table) == ["a"]
    bounds = groups.bounds
    assert bounds is not None
    assert bounds[[a, b]].tolist() == [9, 3]
    assert groups.ids is before, "another number moves no node"


def test_a_constant_has_no_numbers_by_group() -> None:
    """A warm call does not compute it."""
    for text in (limit("node at most 2"), "let n = 2 " + limit("node at most n")):
        groups = groups_of(text)
        update(groups, counting_of(NODES).table)
        assert groups.bounds is None


def test_large_numbers_are_no_bound() -> None:
    for number in (f"{2**63 - 1} - pod.priority", "1e300 - double(pod.priority)"):
        assert opened(limit(f"cluster at most {number}")) == "abcde"


def test_the_deletion_cost_of_a_computed_share() -> None:
    """It is that of the constant share: the order is off, off, on, off, on."""
    part = 'let part = double(pod.annotations["part"]) '
    costs = []
    for lets, percent in ((part, "part%"), ("", "40%")):
        text = f'{lets}share "s" {{ of {WEB} {ON_SPOT} exactly {percent} strict }}'
        counting = counting_of(NODES, [web("p"), web("q")])
        costs.append(counting.deletion_cost(text, "a", asked(part="40")))
    assert costs == [-3, -3]


def test_rows_without_a_number_close_nothing() -> None:
    """Else the usual case, in which every group is open, would never be found."""
    table = counting_of([node("a", labels={"slots": "2"}), node("b")]).table
    groups = groups_of(limit(f"node at most {SLOTS}"))
    update(groups, table, report=Reports())
    counts = numbers([0] * len(table.nodes))
    counts = msgspec.structs.replace(counts, bounds=groups.bounds)
    assert open_groups(groups.clause, counts).all()

"""Named counts: what they may count, what their names stand for, and where they are read."""

from __future__ import annotations

import pytest

from grammar.syntax.formatter import format_file
from grammar.syntax.parser import parse_file
from grammar.tree.source import Source
from tests.grammar.rules.helpers import found
from tests.grammar.rules.test_groups import errors

ZONE = "group zone by node.zone "
COUNTS = (
    "count c = pods where true count n per node = all pods where peer.priority > pod.priority "
    'count g per zone = sum peer.requests["cpu"] of ready pods where true '
)


@pytest.mark.parametrize(
    "items",
    [
        'filter "f" when c > 1 { require n < 3 && g < "4" detail "{c} of {n}" }',
        'score "s" weight 1 when c > 1 { value n range 0 .. c }',
        'spread "s" when c > 1 { over node.zone within zone skew at most 1 strict }',
        'limit "l" { pods where true per node at most n + c strict }',
        'limit "l" { sum peer.requests["cpu"] of pods where true per zone at most g strict }',
        'limit "l" { pods where true per zone at most c strict }',
        'limit "l" { pods where true used node at most c strict }',
        'limit "l" { ended pods where peer.phase == "Failed" per node at most c strict }',
        'let twice = 2 * c limit "l" { pods where true per cluster at most twice strict }',
        'let k = "x" count e = ended pods where k in peer.labels filter "f" { require e == 0 }',
        'preempt "p" { require c > size(victims) }',
        'count w per cluster = pending pods where peer.priority > 0 filter "f" { require w == 0 }',
    ],
)
def test_what_is_right(items: str) -> None:
    assert errors(f"{ZONE}{COUNTS}{items}") == []


@pytest.mark.parametrize(
    ("items", "wanted"),
    [
        # What a count counts.
        ('count x = pods where node.ready filter "f" { require x > 1 }', ["P0111 node.ready"]),
        ('count x = pods where c > 1 filter "f" { require x > 1 }', ["P0111 c"]),
        ('count x = sum pod.priority of pods where true filter "f" { require x > 1 }', None),
        (
            'count x = pods where peer.priority filter "f" { require x > 1 }',
            ["P0105 peer.priority"],
        ),
        ('count c = pods where true filter "f" { require c > 1 }', ["P0205 c"]),
        ('let k = x count x = pods where k > 1 filter "f" { require x > 1 }', None),
        ('count x per node = pending pods where true filter "f" { require x > 1 }', None),
        ('count x per rack = pods where true filter "f" { require x > 1 }', ["P0138 rack"]),
        # Where it is read.
        ('filter "f" { require c.cpu > 1 }', None),
        ('filter "f" { require true message "{c}" }', ["P0210 c"]),
        ('score "s" weight 1 when n > 1 { value 1 }', ["P0111 n"]),
        ('limit "l" when zone.nodes > 1 { per node at most 1 strict }', ["P0111 zone.nodes"]),
        ('gang "g" when c > 1 { of replicas }', ["P0111 c"]),
        ('preempt "p" when c > 1 { protect pods where true }', ["P0111 c"]),
        ('limit "l" { pods where true per cluster at most n strict }', ["P0111 n"]),
        ('group r by node.name limit "l" { pods where true per r at most n strict }', None),
        ('share "s" { pods where true on nodes where true at most c strict }', ["P0111 c"]),
        ('spread "s" { pods where true over node.zone skew at most c strict }', ["P0111 c"]),
    ],
)
def test_what_is_wrong(items: str, wanted: list[str] | None) -> None:
    assert errors(f"{ZONE}{COUNTS}{items}") == wanted if wanted else errors(f"{ZONE}{items}")


def test_a_strict_bound_reads_four_counts() -> None:
    items = "".join(f"count c{i} = pods where peer.priority > {i} " for i in range(5))
    limit = 'limit "l" {{ pods where true per cluster at most {} {} }}'
    four, five = (" + ".join(f"c{i}" for i in range(n)) for n in (4, 5))
    assert errors(items + limit.format(four, "strict")) == []
    assert errors(items + limit.format(five, "weight 1")) == []
    assert errors(items + limit.format(five, "strict")) == [f"P0139 at most {five}"]


def test_a_count_is_used_or_not() -> None:
    assert found("count c = pods where true", ["P0303"]) == ["P0303 c"]


@pytest.mark.parametrize(
    "written",
    [
        "count c per node = sum 2 of all ready pods where true",
        "count c = pending pods where peer.priority > pod.priority",
        "count c per zone = pods where peer.name == pod.name",
    ],
)
def test_a_formatted_count_is_the_same(written: str) -> None:
    text = f"policy p {{\n  {written}\n}}\n"
    file, diagnostics = parse_file(Source("p.policy", text))
    assert diagnostics == []
    assert format_file(file, Source("p.policy", text)) == text

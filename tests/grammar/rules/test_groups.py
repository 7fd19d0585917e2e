"""Groups of nodes: what they may be by, what is read of them, and where."""

from __future__ import annotations

import pytest

from grammar.syntax.formatter import format_file
from grammar.syntax.parser import parse_file
from grammar.tree.source import Source
from policies.validation import check_source
from tests.grammar.rules.helpers import SCHEMA, found


def errors(items: str) -> list[str]:
    """All errors of a policy of these items: `P0102 the text there`."""
    text = f"cluster policy p {{ {items} }}"
    file = check_source(Source("p.policy", text), SCHEMA)
    wrong = [d for d in file.diagnostics if d.severity == "error"]
    return [f"{d.code} {text[d.span.start : d.span.end]}" for d in wrong]


RACK = 'group rack by node.labels["rack"] '
PODS = "pods where true per"


@pytest.mark.parametrize(
    "items",
    [
        'filter "f" { require rack.free["cpu"] >= 8 * pod.requests["cpu"] && rack.nodes > 1 }',
        'filter "f" when rack.ready < 3 { require rack.value == "r1" detail "{rack.nodes}" }',
        'bind "b" { require rack.usage["cpu"] < 0.9 }',
        'score "s" weight 1 { value rack.usage["cpu"] range 0 .. rack.ready }',
        'score "s" weight 1 { value rack.map(n, n.free["cpu"]).max() range "0" .. "8" }',
        'filter "f" { require rack.filter(n, n.ready).exists(n, n.name == pod.name) }',
        'filter "f" { require rack.all(i, n, i >= 0 && n.ready) }',
        f'limit "l" {{ {PODS} node at most rack.nodes strict }}',
        f'limit "l" {{ {PODS} rack at most 2 * rack.nodes strict }}',
        f'limit "l" {{ {PODS} rack at most int(rack.labels["most"]) weight 1 }}',
        f'let most = rack.nodes limit "l" {{ {PODS} rack at most most strict }}',
        'preempt "p" { protect pods where rack.nodes < 2 require rack.nodes > size(victims) }',
        'def few(n: int): bool = n < 3 filter "f" { require few(rack.nodes) }',
        'let key = node.zone group hall by key filter "f" { require hall.nodes > rack.nodes }',
        'group all by true filter "f" { require all.ready > rack.nodes }',
        f'group all by true limit "l" {{ {PODS} all at most all.nodes strict }}',
    ],
)
def test_what_is_right(items: str) -> None:
    assert errors(RACK + items) == []


@pytest.mark.parametrize(
    ("items", "wanted"),
    [
        # What a group is by.
        ('group g by pod.name filter "f" { require g.nodes > 1 }', ["P0111 pod.name"]),
        ('group g by node.age > "1h" filter "f" { require g.nodes > 1 }', ["P0111 node.age"]),
        ('group g by rack.nodes filter "f" { require g.nodes > 1 }', ["P0111 rack.nodes"]),
        ('group g by node.labels filter "f" { require g.nodes > 1 }', ["P0105 node.labels"]),
        ('group rack by node.zone filter "f" { require rack.nodes > 1 }', ["P0205 rack"]),
        ('let rack = 1 filter "f" { require rack > 1 }', ["P0205 rack"]),
        # What is read of one.
        ('filter "f" { require rack.slots > 1 }', ["P0102 slots"]),
        ('filter "f" { require rack.value > 1 }', ["P0104 rack.value > 1"]),
        ('filter "f" { require rack.usage > 1 }', ["P0115 rack.usage"]),
        # Where it is read.
        ("for pods where rack.nodes > 1", ["P0111 rack.nodes"]),
        ('limit "l" when rack.nodes > 1 { per node at most 1 strict }', ["P0111 rack.nodes"]),
        (f'limit "l" {{ {PODS} cluster at most rack.nodes strict }}', ["P0111 rack.nodes"]),
        (
            f'limit "l" {{ {PODS} node.zone at most rack.nodes strict }}',
            ["P0111 rack.nodes"],
        ),
        (
            f'group hall by node.zone limit "l" {{ {PODS} hall at most rack.nodes strict }}',
            ["P0111 rack.nodes"],
        ),
        (f'limit "l" {{ {PODS} rack at most size(domain) strict }}', ["P0101 domain"]),
        (f'limit "l" {{ {PODS} rak at most rack.nodes strict }}', ["P0138 rak"]),
        ('spread "s" { over node.zone skew at most rack.nodes strict }', ["P0111 rack.nodes"]),
        (
            'share "s" { of replicas on nodes where rack.nodes > 1 at most 1 strict }',
            ["P0111 rack.nodes"],
        ),
        ('bind "b" { wait until rack.nodes > 1 for at most 1m }', ["P0111 rack.nodes"]),
        ('filter "f" { require node.ready message "{rack.nodes}" }', ["P0210 rack.nodes"]),
    ],
)
def test_what_is_wrong(items: str, wanted: list[str]) -> None:
    use = "" if "filter" in items else 'filter "z" { require rack.nodes > 0 }'
    assert errors(f"{RACK}{use} {items}") == wanted


def test_a_group_that_nothing_reads() -> None:
    assert found(RACK, ["P0303"]) == ["P0303 rack"]


@pytest.mark.parametrize(
    ("clause", "wanted"),
    [
        ('limit "l" { per a at most a.value.slots strict }', ["P0107 slots"]),
        ('spread "s" { over zone skew at most zone.value.slots strict }', ["P0107 slots"]),
        (
            'let n = int(zone.value.slots) spread "s" { over zone skew at most n strict }',
            ["P0107 slots"],
        ),
        ('limit "l" { per a at most int(a.value) strict }', []),
        ('let n = int(zone.value) spread "s" { over zone skew at most n strict }', []),
        ('spread "s" { over zone skew at most zone.nodes strict }', []),
        ('spread "s" { over zone skew at most a.nodes strict }', ["P0111 a.nodes"]),
        ('spread "s" { over node skew at most 1 strict }', []),
        ('limit "l" { per host at most 1 + size(host.value) strict }', []),
        ('limit "l" { pods where true used a at most 2 strict }', []),
        ('limit "l" { pods where true used cluster at most 2 strict }', ['P0130 "l"']),
        ('limit "l" { sum 1 over used a at most 2 strict }', ["P0130 a"]),
    ],
)
def test_a_place_has_the_value_of_its_group(clause: str, wanted: list[str]) -> None:
    assert errors('group a by node.labels["a"] ' + clause) == wanted


@pytest.mark.parametrize(
    "items",
    [
        'let zone = node.zone filter "f" { require zone == "a" }',
        'let zone = node.zone limit "l" { per zone at most 1 strict }',
        'group zone by node.labels["z"] filter "f" { require zone.value == "a" }',
        'def f(zone: string): bool = zone.startsWith("a") filter "f" { require f(node.zone) }',
        'filter "f" { require node.pods.all(zone, zone.priority > 1) }',
    ],
)
def test_a_name_of_the_policy_goes_before_a_group_that_every_policy_has(items: str) -> None:
    assert errors(items) == []


def test_a_zone_without_a_field_is_that_of_the_node() -> None:
    assert errors('filter "f" { require zone == "a" }') == ["P0101 zone"]


def test_a_score_of_a_group_differs_between_nodes() -> None:
    score = 'score "s" weight 1 { value rack.usage["cpu"] range 1 .. 0 }'
    assert found(RACK + score, ["P0350"]) == []


def test_a_group_is_printed_as_it_is_written() -> None:
    text = (
        "cluster policy p {\n"
        '  group rack by node.labels["rack"]\n'
        '  limit "l" { per rack at most 2 * rack.nodes strict }\n'
        "}\n"
    )
    source = Source("p.policy", text)
    assert format_file(parse_file(source)[0], source) == text
    (checked,) = check_source(source, SCHEMA).policies
    assert not checked.broken


def test_a_long_chain_of_names_and_groups_is_too_deep() -> None:
    """It is an error like any other, however long the chain is."""
    pairs = (f"let a{n} = g{n}.nodes group g{n} by a{n + 1} " for n in range(600))
    (deep,) = errors("".join(pairs) + 'let a600 = 1 filter "f" { require a0 > 0 }')
    assert deep.startswith("P0011 ")

"""Checks of conditions: absent keys, constants, contradictions and what another one implies."""

from __future__ import annotations

import pytest

from tests.grammar.checks.helpers import found

KEY = 'node.labels["disk"]'


# ---- P0301: a negation of a key that may be absent


@pytest.mark.parametrize(
    ("items", "wanted"),
    [
        pytest.param(
            f'filter "f" {{ require {KEY} != "hdd" }}',
            [f'P0301 {KEY} != "hdd"'],
            id="a label that is not equal to a text",
        ),
        pytest.param(
            f'filter "f" {{ require "hdd" != {KEY} }}',
            [f'P0301 "hdd" != {KEY}'],
            id="the other way round",
        ),
        pytest.param(
            f'filter "f" {{ require !({KEY} == "hdd") }}',
            [f'P0301 !({KEY} == "hdd")'],
            id="a negated equality",
        ),
        pytest.param(
            f'filter "f" {{ require !({KEY} in ["hdd", "tape"]) }}',
            [f'P0301 !({KEY} in ["hdd", "tape"])'],
            id="a label that is not in a list",
        ),
        pytest.param(
            f'filter "f" {{ require !{KEY}.startsWith("h") }}',
            [f'P0301 !{KEY}.startsWith("h")'],
            id="a label that does not start with a text",
        ),
        pytest.param(
            'for pods where pod.annotations["team"] != "a"',
            ['P0301 pod.annotations["team"] != "a"'],
            id="an annotation of the pod, in `for`",
        ),
        pytest.param(
            'score "s" weight 1 when pod.labels["a"] != "b" { value 1 }',
            ['P0301 pod.labels["a"] != "b"'],
            id="in `when`",
        ),
        pytest.param(
            'limit "l" { pods where peer.labels["a"] != "b" per node at most 1 strict }',
            ['P0301 peer.labels["a"] != "b"'],
            id="in `pods where`",
        ),
        pytest.param(
            f'filter "f" {{ require {KEY} != "hdd" && has({KEY}) }}',
            [f'P0301 {KEY} != "hdd"'],
            id="a guard that comes too late",
        ),
        pytest.param(
            f'filter "f" {{ require has(node.labels["other"]) && {KEY} != "hdd" }}',
            [f'P0301 {KEY} != "hdd"'],
            id="a guard of another key",
        ),
        # near misses
        pytest.param(f'filter "f" {{ require {KEY} == "ssd" }}', [], id="not an equality"),
        pytest.param(f'filter "f" {{ require {KEY} in ["ssd"] }}', [], id="not a list it is in"),
        pytest.param(
            f'filter "f" {{ require {KEY}.contains("s") }}', [], id="not a test it passes"
        ),
        pytest.param(
            'filter "f" { require node.labels[?"disk"].orValue("") != "hdd" }',
            [],
            id="not a value in its place",
        ),
        pytest.param(
            f'filter "f" {{ require {KEY} != "hdd" missing pass }}',
            [],
            id="not with `missing pass`",
        ),
        pytest.param(
            f'filter "f" {{ require {KEY} != "hdd" missing fail }}',
            [],
            id="not with `missing fail`",
        ),
        pytest.param(
            f'filter "f" {{ require has({KEY}) && {KEY} != "hdd" }}', [], id="not behind `has`"
        ),
        pytest.param(
            f'filter "f" {{ require "disk" in node.labels && {KEY} != "hdd" }}',
            [],
            id="not behind `in`",
        ),
        pytest.param(
            f'filter "f" {{ require !("disk" in node.labels) || {KEY} != "hdd" }}',
            [],
            id="not in an `||` behind its absence",
        ),
        pytest.param(
            'filter "f" { require node.labels.all(k, node.labels[k] != "hdd") }',
            [],
            id="not a key that a macro goes over",
        ),
        pytest.param('filter "f" { require node.name != "n1" }', [], id="not a field"),
        pytest.param(
            f'score "s" weight 1 {{ value {KEY} != "hdd" }}', [], id="not a score's value"
        ),
        pytest.param(
            f'share "s" {{ of pods where true on nodes where {KEY} != "hdd" at most 1 strict }}',
            [],
            id="not a side: a node without the label is off",
        ),
    ],
)
def test_absent_keys(items: str, wanted: list[str]) -> None:
    assert found(items, ["P0301"]) == wanted


# ---- P0317: a key that may be absent, where that protects a victim

DB = 'victim.labels["db"]'


@pytest.mark.parametrize(
    ("parts", "wanted"),
    [
        pytest.param(f'protect victim where {DB} == "1"', [f"P0317 {DB}"], id="a comparison"),
        pytest.param(f'protect victim where {DB} != "1"', [f"P0317 {DB}"], id="a negation"),
        pytest.param(
            f'protect victim where victim.priority > 9 && {DB} == "1"', [f"P0317 {DB}"], id="`&&`"
        ),
        pytest.param(
            'protect victim where victim.annotations["a"] == "b"',
            ['P0317 victim.annotations["a"]'],
            id="an annotation",
        ),
        pytest.param(f'protect victim where {DB} == "1" missing fail', [], id="a rule"),
        pytest.param(f'protect victim where {DB} == "1" missing pass', [], id="the other rule"),
        pytest.param(
            f'protect victim where "db" in victim.labels && {DB} == "1"', [], id="behind `in`"
        ),
        pytest.param(f"protect victim where has({DB})", [], id="`has`"),
        pytest.param(
            'protect victim where victim.labels[?"db"].orValue("") == "1"', [], id="`orValue`"
        ),
        pytest.param('protect victim where victim.name == "db"', [], id="a field"),
        pytest.param('allow when victims.all(v, v.labels["a"] == "1")', [], id="not in `allow`"),
    ],
)
def test_silent_protections(parts: str, wanted: list[str]) -> None:
    assert found(f'preempt "p" {{ {parts} }}', ["P0317"]) == wanted


# ---- P0302: a condition that is always the same


@pytest.mark.parametrize(
    ("items", "wanted"),
    [
        pytest.param('filter "f" { require 1 < 2 }', ["P0302 1 < 2"], id="a constant comparison"),
        pytest.param(
            'filter "f" { require node.ready || true }',
            ["P0302 node.ready || true"],
            id="a constant that decides an `||`",
        ),
        pytest.param(
            'filter "f" { require node.ready && false }',
            ["P0302 node.ready && false"],
            id="a constant that decides an `&&`",
        ),
        pytest.param(
            'filter "f" { require node.ready && 1 < 2 }',
            ["P0302 1 < 2"],
            id="an operand that says nothing",
        ),
        pytest.param(
            'filter "f" { require true ? 1 > 2 : node.ready }',
            ["P0302 true ? 1 > 2 : node.ready"],
            id="a condition of constants alone",
        ),
        pytest.param(
            'filter "f" { require size("abc") == 3 }',
            ['P0302 size("abc") == 3'],
            id="a function of constants",
        ),
        pytest.param(
            'filter "f" when false { require node.ready }', ["P0302 false"], id="a `when`"
        ),
        pytest.param(
            'limit "l" { pods where 1 == 1 per node at most 1 strict }',
            ["P0302 1 == 1"],
            id="a `pods where`",
        ),
        pytest.param(
            'limit "l" { pods where true per node at most 1 strict }',
            [],
            id="not all pods, as meant",
        ),
        pytest.param(
            'limit "l" { sum peer.requests["cpu"] of pods where true per node at most 1 strict }',
            [],
            id="not the pods of a sum, which are all",
        ),
        pytest.param('preempt "p" { allow when 1 == 1 }', ["P0302 1 == 1"], id="an `allow when`"),
        pytest.param("for pods where 1 > 2", ["P0302 1 > 2"], id="a `for` that comes to false"),
        # near misses
        pytest.param("for pods where true", [], id="not `for pods where true`: all pods"),
        pytest.param("for pods where false", [], id="not `for pods where false`: for use"),
        pytest.param("for pods where 1 < 2", [], id="not a `for` that comes to true"),
        pytest.param('filter "f" { require node.ready }', [], id="not a condition of the node"),
        pytest.param('filter "f" { require node.ready || !node.ready }', [], id="not a tautology"),
        pytest.param('filter "f" { require 1 / 0 == 1 }', [], id="not a constant error"),
        pytest.param(
            'filter "f" { require node.ready ? true : false }', [], id="not constants of a choice"
        ),
        pytest.param('score "s" weight 1 { value 1 }', [], id="not the value of a score"),
    ],
)
def test_constant_conditions(items: str, wanted: list[str]) -> None:
    assert found(items, ["P0302"]) == wanted


# ---- P0310 and P0311: filters that no node passes together, and that others imply


def two(one: str, other: str, when: str = "", later: str = "") -> str:
    return f'filter "f" {when} {{ require {one} }} filter "g" {later or when} {{ require {other} }}'


CPU = 'node.allocatable["cpu"]'


@pytest.mark.parametrize(
    ("items", "wanted"),
    [
        pytest.param(
            two('node.zone == "a"', 'node.zone == "b"'),
            ['P0310 node.zone == "b"'],
            id="two texts of one path",
        ),
        pytest.param(
            two('node.zone == "a"', 'node.zone != "a"'),
            ['P0310 node.zone != "a"'],
            id="a text and its negation",
        ),
        pytest.param(
            two('node.zone in ["a", "b"]', 'node.zone in ["c"]'),
            ['P0310 node.zone in ["c"]'],
            id="lists that have nothing in common",
        ),
        pytest.param(
            two(f'{CPU} > "8"', f'{CPU} < "8"'),
            [f'P0310 {CPU} < "8"'],
            id="ranges that do not meet",
        ),
        pytest.param(
            two(f'{CPU} >= "8"', f'{CPU} < "8"'), [f'P0310 {CPU} < "8"'], id="up to an edge of it"
        ),
        pytest.param(two(f'"8" < {CPU}', f'{CPU} <= "4"'), [f'P0310 {CPU} <= "4"'], id="mirrored"),
        pytest.param(
            'filter "f" { require node.zone == "a" && node.zone == "b" }',
            ['P0310 node.zone == "b"'],
            id="within one `&&`",
        ),
        pytest.param(
            two('node.zone == "a"', 'node.zone == "b"', later="when pod.priority > 0"),
            ['P0310 node.zone == "b"'],
            id="the later only sometimes",
        ),
        pytest.param(
            two(f'{CPU} >= "8"', f'{CPU} >= "4"'), [f'P0311 {CPU} >= "4"'], id="a wider range"
        ),
        pytest.param(
            two(f'{CPU} > "4"', f'{CPU} >= "4"'), [f'P0311 {CPU} >= "4"'], id="a wider edge"
        ),
        pytest.param(
            two('node.zone == "a"', 'node.zone in ["a", "b"]'),
            ['P0311 node.zone in ["a", "b"]'],
            id="a wider list",
        ),
        pytest.param(
            two('node.zone == "a"', 'node.zone != "b"'),
            ['P0311 node.zone != "b"'],
            id="a text that is another one",
        ),
        pytest.param(
            two('node.zone == "a"', 'node.zone == "a"'),
            ['P0311 node.zone == "a"'],
            id="the same again",
        ),
        # near misses
        pytest.param(two('node.zone == "a"', 'node.name == "b"'), [], id="not two paths"),
        pytest.param(
            two('node.zone in ["a", "b"]', 'node.zone == "b"'), [], id="not a stricter one"
        ),
        pytest.param(two(f'{CPU} >= "4"', f'{CPU} <= "4"'), [], id="not ranges that meet"),
        pytest.param(two(f'{CPU} > "4"', f'{CPU} > "5"'), [], id="not a narrower range"),
        pytest.param(two(f'{CPU} <= "8"', f'{CPU} < "8"'), [], id="not a narrower upper edge"),
        pytest.param(two(f'{CPU} >= "8"', f'{CPU} > "8"'), [], id="not a narrower lower edge"),
        pytest.param(
            'filter "f" { require node.zone == "a" || node.zone == "b" }', [], id="not within `||`"
        ),
        pytest.param(
            two(
                'node.zone == "a"',
                'node.zone == "b"',
                when="when pod.priority > 0",
                later="when pod.priority < 9",
            ),
            [],
            id="not under two conditions",
        ),
        pytest.param(
            two('node.zone == "a"', 'node.zone == "b"', when="when pod.priority > 0").replace(
                'filter "g" when pod.priority > 0', 'filter "g"'
            ),
            [],
            id="not where the earlier applies only sometimes",
        ),
        pytest.param(
            two('node.zone == "a"', 'node.zone == "b"').replace('filter "g"', 'bind "g"'),
            [],
            id="not a filter and a `bind`",
        ),
        pytest.param(
            two('node.zone == "a"', 'node.zone == "a" missing pass'),
            [],
            id="not with another rule for missing values",
        ),
        pytest.param(two("node.zone == pod.name", 'node.zone == "b"'), [], id="not with the pod"),
    ],
)
def test_filters_together(items: str, wanted: list[str]) -> None:
    assert found(items, ["P0310", "P0311"]) == wanted

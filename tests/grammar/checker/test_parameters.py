"""Parameters in the tree: a filled policy is the one with the values written into it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from grammar.checker.declarations import MAX_PARTS
from grammar.checker.policy_checker import Checked
from grammar.messages.diagnostics import Diagnostic
from grammar.syntax.formatter import format_file
from grammar.syntax.parser import parse_file
from grammar.tree.source import Source
from policies.validation import check_source
from tests.support.engines import SCHEMA


def policy(text: str) -> Checked:
    (found,) = check_source(Source("p.policy", text), SCHEMA).policies
    return found


def errors(text: str) -> list[tuple[str, str]]:
    file = check_source(Source("p.policy", text), SCHEMA)
    return [(d.code, d.message) for d in file.diagnostics if d.severity == "error"]


def warnings(text: str) -> Sequence[Diagnostic]:
    file = check_source(Source("p.policy", text), SCHEMA)
    return [d for d in file.diagnostics if d.severity == "warning"]


# ---- the same as the value


@pytest.mark.parametrize(
    ("parameter", "body", "written"),
    [
        ("n: int = 3", 'filter "f" { require pod.priority < n }', "pod.priority < 3"),
        ("n: int = -3", 'filter "f" { require pod.priority < n }', "pod.priority < -3"),
        ("x: double = 2", 'filter "f" { require node.usage["cpu"] < x }', None),
        ('d: duration = "2h"', 'filter "f" { require node.age > d }', 'node.age > "2h"'),
        (
            'q: quantity = "2Gi"',
            'filter "f" { require node.free["memory"] > q }',
            'node.free["memory"] > "2Gi"',
        ),
        (
            'k: string = "a/b"',
            (
                'filter "f" { require k in node.labels && node.labels[k] == "x"'
                " && has(node.labels[k]) }"
            ),
            '"a/b" in node.labels && node.labels["a/b"] == "x" && has(node.labels["a/b"])',
        ),
        (
            'l: list(string) = ["a", "b"]',
            'filter "f" { require node.name in l }',
            'node.name in ["a", "b"]',
        ),
        (
            'm: map(string, int) = {"a": 1}',
            'filter "f" { require m[node.name] == 1 }',
            '{"a": 1}[node.name] == 1',
        ),
        (
            "n: int = 3",
            'filter "f" { require [n].exists(n, n == 4) && [1].exists(x, x == n) }',
            "[3].exists(n, n == 4) && [1].exists(x, x == 3)",
        ),
        ("n: int = 3", 'filter "f" { require .n == 3 }', None),
    ],
)
def test_a_value_stands_where_its_name_stood(
    parameter: str, body: str, written: str | None
) -> None:
    found = policy(f"cluster policy p ({parameter}) {{ {body} }}")
    if " .n" in body:
        assert [d.code for d in found.diagnostics if d.severity == "error"] == ["P0101"]
        return
    written = written or 'node.usage["cpu"] < 2.0'
    wanted = policy(f'cluster policy p {{ filter "f" {{ require {written} }} }}')
    assert not found.broken
    assert found.policy.clauses == wanted.policy.clauses


def test_a_value_stands_in_every_part_of_a_policy() -> None:
    parameters = {"w": ("int", "7"), "k": ("string", '"pool"'), "t": ("string", '"web"')}
    text = """{
      for pods where pod.labels["tier"] == <t>
      let pool = node.labels[<k>]
      def near(t: string): bool = node.labels[<k>] == t
      filter "f" when pod.labels[<k>] == <t> {
        require near(<t>)
        message "{<t>} {{t}}"
        detail "{<w>}"
      }
      score "s" weight <w> { value pool == <t> }
      share "x" { of replicas on nodes where pool == <t> at most 40% weight <w> }
      limit "l" {
        pods where peer.labels[<k>] == <t> per node.labels[<k>] at most 3 strict
      }
      preempt "v" { protect pods where victim.labels[<k>] == <t> require size(victims) < <w> }
      use "library/spot-ceiling" (percent: <w>, label: <k>)
    }"""
    head = ", ".join(f"{name}: {kind} = {value}" for name, (kind, value) in parameters.items())
    named = written = text
    for name, (_, value) in parameters.items():
        named = named.replace(f"<{name}>", name)
        written = written.replace(f'"{{<{name}>}}', f'"{{{value}}}'.replace('"web"', "'web'"))
        written = written.replace(f"<{name}>", value)
    found, wanted = policy(f"policy p ({head}) {named}"), policy(f"policy p {written}")
    assert not found.broken, found.diagnostics
    assert not wanted.broken, wanted.diagnostics
    assert found.policy.items == wanted.policy.items


# ---- mistakes in a declaration


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ("p (n: int)", [("P0127", "the parameter `n` has no value")]),
        ('p (n: int = "x")', [("P0128", "`n` must be an int, not a string")]),
        ("p (n: string = 1)", [("P0128", "`n` must be a string, not an int")]),
        ('p (n: duration = "x")', [("P0106", "`x` is not a duration")]),
        ("p (n: int = size(node.name))", [("P0212", "the value of `n` is not a constant")]),
        ("p (n: int = m, m: int = 1)", [("P0212", "the value of `n` is not a constant")]),
        ("p (n: int = 1, n: int = 2)", [("P0205", "the parameter `n` is defined twice")]),
        ("p (pod: int = 1)", [("P0205", "the parameter `pod` is defined twice")]),
        ("p (l: int = 1)", [("P0205", "the parameter `l` is defined twice")]),
        ("p (n: Pod = 1)", [("P0113", "unknown type `Pod`")]),
        ("p (n: dyn = 1)", [("P0113", "unknown type `dyn`")]),
        ("p (n: list(strng) = [])", [("P0113", "unknown type `strng`")]),
        ("p (n: bool = -true)", [("P0104", "`-` does not accept bool")]),
    ],
)
def test_a_mistake_in_a_declaration_is_one_error(
    head: str, expected: list[tuple[str, str]]
) -> None:
    text = f'policy {head} in namespace "a" {{'.replace(f"{head} in namespace", "p in namespace")
    text = text.replace('"a" {', f'"a" {head.removeprefix("p ")} {{')
    assert errors(f'{text} let l = 1 filter "f" {{ require node.ready && l == 1 }} }}') == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ('score "s" weight n { value 1 }', ("P0204", "`0` is not a weight")),
        ('score "s" weight k { value 1 }', ("P0105", "this is a string, not a number")),
        ('score "s" weight m { value 1 }', ("P0101", "unknown name `m`")),
        (
            "limit 'l' { per node at most 1 weight b }",
            ("P0204", "`-1` is not a weight"),
        ),
        ("limit 'l' { per node at most b strict }", ("P0204", "`-1` is not a number of pods")),
        ("share 's' { of replicas on nodes where node.ready at most h% strict }", None),
        ('filter "f" { require k }', ("P0105", "this is a string, not a bool")),
        ('filter "f" { require node.name.matches(r) }', ("P0119", None)),
        ('filter "f" { require node.labels[n] == "a" }', ("P0105", None)),
    ],
)
def test_a_value_is_checked_where_it_stands(
    body: str, expected: tuple[str, str | None] | None
) -> None:
    head = 'policy p in namespace "a" (n: int = 0, k: string = "x", b: int = -1, h: int = 140,'
    found = errors(f'{head} r: string = "(") {{ {body} }}')
    code, message = expected or ("P0204", "`140%` is not a percentage of pods")
    assert [c for c, _ in found] == [code]
    assert message is None or found[0][1] == message


def test_a_policy_without_a_default_is_checked_but_not_for_the_value() -> None:
    head = "policy p (n: int, k: string, l: list(string), d: duration, b: bool)"
    body = """ {
      for pods where false
      filter "f" when b { require node.age > d && node.labels[k] in l && pod.priority < n }
      score "s" weight n { value node.name == k range 0 .. 1 }
      share "x" { of replicas on nodes where node.ready at most n% strict }
    }"""
    assert errors(head + body.replace(" range 0 .. 1", "")) == []
    assert warnings(head + body.replace(" range 0 .. 1", "")) == []
    wrong = body.replace("node.age > d", "node.age > n")
    assert ("P0104", "`>` does not accept duration and int") in errors(head + wrong)


def test_a_parameter_that_nothing_uses_is_a_warning() -> None:
    text = 'cluster policy p (a: int = 1, b: int = 2) { filter "f" { require pod.priority > b } }'
    (found,) = warnings(text)
    assert (found.code, found.message) == ("P0303", "parameter `a` is never used")


def test_a_value_has_few_items() -> None:
    """It stands wherever its name does."""
    for count, expected in ((MAX_PARTS - 1, []), (MAX_PARTS, ["P0212"])):
        items = ", ".join(f'"{number}"' for number in range(count))
        text = f"cluster policy p (l: list(string) = [{items}]) {{"
        found = errors(f'{text} filter "f" {{ require node.name in l }} }}')
        assert [code for code, _ in found] == expected


# ---- layout


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("policy p(a:int=1){}", "policy p (a: int = 1) { }\n"),
        (
            'policy p in namespace "a" (a: int = 1,) { use "x" (a : a , b: "c",) }',
            'policy p in namespace "a" (a: int = 1) {\n  use "x" (a: a, b: "c")\n}\n',
        ),
        (
            (
                'cluster policy p (aaaaaaaaaa: string = "aaaaaaaaaaaaaaaaaaaa", b: list(string)'
                ' = ["bbbbbbbbbbbbbbbbbb"]) { }'
            ),
            (
                "cluster policy p (\n"
                '  aaaaaaaaaa: string = "aaaaaaaaaaaaaaaaaaaa",\n'
                '  b: list(string) = ["bbbbbbbbbbbbbbbbbb"]\n'
                ") { }\n"
            ),
        ),
        (
            "policy p ( # one\n a: int = 1, # two\n # three\n b: int ) { # four\n }",
            "policy p (  # one\n  a: int = 1,  # two\n  # three\n  b: int\n) {  # four\n}\n",
        ),
        (
            'policy p (w: int = 1) { score "a" weight w { value 1 } }',
            'policy p (w: int = 1) {\n  score "a" weight w { value 1 }\n}\n',
        ),
        (
            'test "t" { namespace "a" { "labels" : {"b": "c"} } namespace "d" }',
            'test "t" {\n  namespace "a" {"labels": {"b": "c"}}\n  namespace "d"\n}\n',
        ),
    ],
)
def test_layout_of_parameters(text: str, expected: str) -> None:
    for given in (text, expected):
        source = Source("p.policy", given)
        file, found = parse_file(source)
        assert found == []
        assert format_file(file, source) == expected

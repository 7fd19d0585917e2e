"""Constants and calls: the type that they take, and what is said of those that have none."""

from __future__ import annotations

import pytest

from grammar.checker.expression_checker import Checker
from grammar.checker.policy_checker import VARIABLES
from grammar.meaning.environment import FUNCTIONS, Environment
from grammar.meaning.schema import load_schema
from grammar.syntax.parser import parse_expression
from grammar.tree.source import Source
from policies.hints import with_hints
from policies.validation import check_source

SCHEMA = load_schema()


def codes(items: str) -> list[str]:
    """The diagnostics of a policy: code and the text that each points at."""
    text = f"cluster policy p {{ {items} }}"
    found = check_source(Source("p.policy", text), SCHEMA).diagnostics
    return [f"{d.code} {text[d.span.start : d.span.end]}" for d in found]


@pytest.mark.parametrize(
    "items",
    [
        'let least = "1Gi" filter "f" { require node.free["memory"] >= least }',
        'let least = 1 filter "f" { require node.free["cpu"] >= least }',
        'let young = "10m" filter "f" { require node.age > young }',
        'let end = "2027-01-01T00:00:00Z" filter "f" { require now < end }',
        (
            'let sizes = ["1", "2"] filter "f" { require node.allocatable["cpu"] in sizes }'
            ' filter "g" { require node.allocatable["pods"] in sizes }'
        ),
        'let a = "1Gi" let b = a filter "f" { require node.free["memory"] - b >= a }',
        'let least = "1Gi" filter "f" { require node.free["cpu"] > (node.ready ? least : "2") }',
        'let least = "1Gi" def f(q: quantity): bool = q > "1" filter "f" { require f(least) }',
        'let high = "4Gi" score "s" weight 1 { value node.free["memory"] range "0" .. high }',
    ],
)
def test_constant_takes_the_type(items: str) -> None:
    assert codes(items) == []


@pytest.mark.parametrize(
    ("items", "wanted"),
    [
        (
            'let least = "1Gx" filter "f" { require node.free["memory"] >= least }',
            ["P0106 least"],
        ),
        # Not a constant.
        (
            'let least = node.labels["a"] filter "f" { require node.free["memory"] >= least }',
            ['P0104 node.free["memory"] >= least'],
        ),
        # The `let` itself keeps its type.
        (
            (
                'let least = "1Gi" filter "f" { require node.labels["disk"] == least }'
                ' filter "g" { require node.free["memory"] > least }'
            ),
            [],
        ),
    ],
)
def test_what_is_no_such_constant_is_an_error(items: str, wanted: list[str]) -> None:
    assert codes(items) == wanted


# ---- calls with the wrong arguments: each is a diagnostic at the call


def test_every_function_can_be_called_without_arguments() -> None:
    environment = Environment(VARIABLES, schema=load_schema())
    names = [n for n in FUNCTIONS if n[0].isalpha() and environment.overloads(n, member=False)]
    assert "size" in names
    for name in names:
        source = Source("", f"{name}()")
        parsed, _ = parse_expression(source)
        assert parsed is not None, name
        checker = Checker(environment)
        checker.check(parsed)
        if any(not o.params for o in environment.overloads(name, member=False)):
            assert checker.found == [], name
            continue
        (found,) = checker.found
        told = (found.code, found.message, source.slice(found.span))
        assert told == ("P0104", f"`{name}` needs arguments", source.text)


@pytest.mark.parametrize(
    ("call", "codes"),
    [
        ('dyn("abc").findAll("b")', []),
        ('dyn("abc").findAll("b", 1)', []),
        ('["a"].findAll("b")', ["P0103"]),
        ('dyn("abc").where(true)', ["P0103"]),
    ],
)
def test_a_function_of_what_is_not_known_is_no_misspelt_macro(call: str, codes: list[str]) -> None:
    """With a list it is one, as `items.findAll(ready)` of other languages."""
    parsed, _ = parse_expression(Source("", call))
    assert parsed is not None
    checker = Checker(Environment(VARIABLES, schema=load_schema()))
    with_hints(lambda: checker.check(parsed))
    assert [found.code for found in checker.found] == codes

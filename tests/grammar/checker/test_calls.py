"""Calls with the wrong arguments: each is a diagnostic at the call."""

import pytest

from grammar.checker.expression_checker import Checker
from grammar.checker.policy_checker import VARIABLES
from grammar.meaning.environment import FUNCTIONS, Environment
from grammar.meaning.schema import load_schema
from grammar.syntax.parser import parse_expression
from grammar.tree.source import Source
from policies.hints import with_hints


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

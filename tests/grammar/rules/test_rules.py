"""Every rule has its line and an example in the book of diagnostics; the others of its code, here.

tests/test_diagnostics_reference.py checks the examples of the book, which has one for each code.
"""

from __future__ import annotations

import pytest

from grammar.rules import IN_CLUSTER, RULES
from grammar.rules.rule import Rule
from grammar.tree.source import Source
from policies.validation import check_source
from tests.grammar.rules.helpers import SCHEMA
from tests.test_diagnostics_reference import SECTIONS

FIRST = {rule.code: rule for rule in reversed((*RULES, IN_CLUSTER))}
# What the parser and the checker say for themselves: the heading in the book is theirs.
OF_OTHERS = ("P0130", "P0204")


@pytest.mark.parametrize("rule", FIRST.values(), ids=lambda rule: rule.code)
def test_the_book_has_the_line_of_the_first_rule(rule: Rule) -> None:
    if rule.code not in OF_OTHERS:
        (of_code,) = (each for each in SECTIONS if each.code == rule.code)
        line = rule.line.removesuffix(".")
        assert of_code.meaning == line[:1].lower() + line[1:]


@pytest.mark.parametrize(
    ("code", "wrong", "right"),
    [
        (
            "P0130",
            'limit "a" { all pods where peer.priority < 0 per node exactly 1 strict mutual }',
            'limit "a" { all pods where peer.priority < 0 per node at most 1 strict mutual }',
        ),
        (
            "P0204",
            'let most = 2 - 4 limit "few" { per node at most most strict }',
            'let most = 6 - 4 limit "few" { per node at most most strict }',
        ),
        (
            "P0208",
            'let many = 5 + 5 score "few" weight 1 { value size(node.pods) range 10 .. many }',
            'let many = 5 + 9 score "few" weight 1 { value size(node.pods) range 10 .. many }',
        ),
        (
            "P0332",
            'score "full" weight 10 { value node.usage["cpu"] }',
            'score "full" weight 10 { value node.usage["cpu"] range 0 .. 1 }',
        ),
        (
            "P0333",
            'filter "night" when now.getHours() == 24 { require node.ready }',
            'filter "night" when now.getHours() == 0 { require node.ready }',
        ),
        (
            "P0340",
            'preempt "important" { protect pods where pod.priority >= 1000 }',
            'preempt "important" { protect pods where victim.priority >= 1000 }',
        ),
        (
            "P0340",
            'filter "web" { require pod.labels["app"] == "web" }',
            'for pods where pod.labels["app"] == "web" filter "web" { require node.ready }',
        ),
        (
            "P0343",
            'score "room" weight 10 { value node.free["memory"] range 0 .. 64 }',
            'score "room" weight 10 { value node.free["memory"] range 0 .. "64Gi" }',
        ),
        (
            "P0345",
            'filter "zone" { require node.zone == "${ZONE}" }',
            'filter "zone" { require node.zone == "eu-1a" }',
        ),
    ],
)
def test_a_rule_without_an_example_in_the_book(code: str, wrong: str, right: str) -> None:
    for items, wanted in ((wrong, {code}), (right, set[str]())):
        text = f"cluster policy example {{ {items} }}"
        found = check_source(Source("example.policy", text), SCHEMA).diagnostics
        assert {d.code for d in found} == wanted


def test_no_rule_has_a_code_that_is_gone() -> None:
    assert not {"P0351", "P0355", "P0356"} & FIRST.keys()

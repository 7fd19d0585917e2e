"""Every rule warns of its wrong example, and not of its right one; the book has both.

Of the rules with the same code, the first one has the example of the book.
"""

from __future__ import annotations

import pytest

from grammar.meaning.costs import ClusterFacts, ClusterSize
from grammar.messages.diagnostics import Diagnostic
from grammar.rules import IN_CLUSTER, RULES
from grammar.rules.rule import Rule, tree_of
from grammar.tree.source import Source
from policies.validation import check_source
from tests.grammar.rules.helpers import SCHEMA
from tests.test_diagnostics_reference import SECTIONS

ALL = tuple({type(rule): rule for rule in (*RULES, *IN_CLUSTER)}.values())
FIRST = {rule.code: rule for rule in reversed(ALL)}
# The cluster in which each example is wrong: of two nodes, with a workload of two pods.
CLUSTER = ClusterFacts({"kubernetes.io/arch": 9}, 9, ClusterSize(2, 10), lambda _: {"shop/web": 2})
# What the parser and the checker say for themselves: the book has an example of theirs.
OF_OTHERS = ("P0130", "P0204", "P0208")


def findings(rule: Rule, items: str) -> list[Diagnostic]:
    (checked,) = check_source(Source("example.policy", rule.example(items)), SCHEMA).policies
    cluster = CLUSTER if any(type(rule) is type(other) for other in IN_CLUSTER) else None
    return [*rule.look(tree_of(checked, cluster=cluster))]


@pytest.mark.parametrize("rule", ALL, ids=lambda rule: type(rule).__name__)
def test_the_wrong_example_is_warned_of_and_the_right_one_is_not(rule: Rule) -> None:
    assert {d.code for d in findings(rule, rule.wrong)} == {rule.code}
    assert findings(rule, rule.right) == []


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
def test_an_example_has_no_mistake_but_its_own(rule: Rule) -> None:
    for items in (rule.wrong, rule.right):
        file = check_source(Source("example.policy", rule.example(items)), SCHEMA)
        assert {d.code for d in file.diagnostics} <= ({rule.code} if items == rule.wrong else set())


@pytest.mark.parametrize("rule", FIRST.values(), ids=lambda rule: rule.code)
def test_the_book_has_the_example_and_the_line_of_the_first_rule(rule: Rule) -> None:
    if rule.code in OF_OTHERS:
        return
    (of_code,) = (each for each in SECTIONS if each.code == rule.code)
    assert of_code.wrong == rule.example(rule.wrong)
    assert of_code.mended == rule.example(rule.right)
    assert of_code.meaning == line_of(rule)


def line_of(rule: Rule) -> str:
    """The first line of the docstring, as part of a heading."""
    line = (type(rule).__doc__ or "").partition("\n")[0].removesuffix(".")
    return line[:1].lower() + line[1:]


def test_no_rule_has_a_code_that_is_gone() -> None:
    assert not {"P0351", "P0355", "P0356"} & {rule.code for rule in ALL}

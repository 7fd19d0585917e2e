"""One mistake is one message: what follows from it says nothing more."""

from __future__ import annotations

import pytest

from grammar.meaning.schema import load_schema
from grammar.tree.source import Source
from policies.validation import check_source


@pytest.mark.parametrize(
    ("items", "codes"),
    [
        ('let a = a + 1 filter "x" { require a > 1 }', ["P0110"]),
        ('let a = b let b = a filter "x" { require a > b }', ["P0110"]),
        ('def f(x: int): int = f(x) filter "x" { require f(1) > 1 }', ["P0110"]),
        ('\n def f(x: int: int = x\n filter "x" { require f(1) > 1 }', ["P0001"]),
        (
            '\n group r = node.name\n limit "l" { pods where true per r at most 1 strict }',
            ["P0001"],
        ),
        ('\n count n: pods where true\n filter "x" { require n > 1 }', ["P0001"]),
        (
            '\n cards "g" { on nodes 1 }\n filter "x" { require node.cards["g"].size() > b }',
            ["P0001", "P0101"],
        ),
        (
            '\n data "d" { form metrics }\n filter "x" { require data.d["a"].cpu > b }',
            ["P0001", "P0101"],
        ),
        ('score "s" weight 10 { value pod.name == "a" range 0 .. 1 }', ["P0208"]),
        ('filter "x" { require node.pods.all(p, p.labels.all(k, p.labels[k] != "x")) }', []),
        ('filter "x" { require pod.labels.all(k, node.labels[k] != "x") }', ["P0301"]),
    ],
)
def test_one_cause_is_one_message(items: str, codes: list[str]) -> None:
    text = f'policy p {{ for pods where pod.labels["a"] == "b"\n {items} }}'
    found = check_source(Source("p.policy", text), load_schema()).diagnostics
    assert [diagnostic.code for diagnostic in found] == codes

"""Reads of expressions: what they read, also through definitions."""

from __future__ import annotations

from grammar.tree import ast
from grammar.tree.walk import Definitions, reads


def test_a_definition_reads_in_the_order_of_its_text() -> None:
    """A message that names one of these reads is the same each time."""
    names = "node pod now peer victim namespaceObject data".split()
    chain = ast.Chain("&&", tuple(map(ast.Ident, [*names, "pod"])))
    definitions = Definitions({"all": chain}, {})
    found = [read.path for read in reads(ast.LetReference("all"), definitions)]
    assert found == [(name,) for name in names]

"""The catalogue: what the product asks of it is there, and each message gets its words."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from string import Formatter

from grammar.messages import catalogue
from grammar.messages.catalogue import _TEXTS

ROOT = Path(__file__).parents[3]
LAYERS = ("grammar", "policies", "engine", "server", "cli")


def trees() -> Iterator[tuple[str, ast.Module]]:
    for layer in LAYERS:
        for path in sorted((ROOT / layer).rglob("*.py")):
            text = path.read_text("utf-8")
            if "catalogue" in text:
                yield str(path.relative_to(ROOT)), ast.parse(text)


def named(node: ast.AST) -> str | None:
    """`x` of `catalogue.x`."""
    match node:
        case ast.Attribute(ast.Name("catalogue"), name):
            return name
        case _:
            return None


def wanted(name: str) -> int:
    """How many words the texts of a message have places for."""
    most = 0
    for text in _TEXTS[name]:
        fields = [field for _, field, _, _ in Formatter().parse(text) if field is not None]
        for number, field in enumerate(fields):
            place = field.partition(".")[0]
            most = max(most, (int(place) if place else number) + 1)
    return most


def test_each_name_that_is_asked_for_is_there() -> None:
    asked = [(path, name) for path, tree in trees() for n in ast.walk(tree) if (name := named(n))]
    assert len(asked) > 100
    assert [each for each in asked if not hasattr(catalogue, each[1])] == []


def test_a_message_of_the_table_gets_as_many_words_as_it_has_places_for() -> None:
    found = []
    for path, tree in trees():
        for call in ast.walk(tree):
            if not isinstance(call, ast.Call) or (name := named(call.func)) is None:
                continue
            if name not in _TEXTS or any(isinstance(a, ast.Starred) for a in call.args):
                continue
            # A span is none of the words, and what is left out is nothing.
            words = len(call.args) - 1
            if call.keywords or not wanted(name) - 1 <= words <= wanted(name):
                found.append((path, call.lineno, name, words, wanted(name)))
    assert found == []

"""The table of habits: what it says is here, is here, and docs/habits.md shows all of it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from grammar.meaning.environment import FUNCTIONS
from grammar.meaning.schema import load_schema
from grammar.messages import habits
from grammar.messages.habits import Habit
from grammar.syntax.parser import keywords, parse_expression
from grammar.tree.source import Source

PAGE = (Path(__file__).parents[3] / "docs" / "habits.md").read_text(encoding="utf-8")
_OPERANDS = {"{0}": "a", "{1}": "b", "{2}": "c"}
_CALLED = re.compile(r"(?<!\w)((?:[a-z]\w*\.)?[A-Za-z]\w*)\(")


def here(row: Habit) -> str:
    """What to write, with names for the operands."""
    text = row.here
    for mark, name in _OPERANDS.items():
        text = text.replace(mark, name)
    return text


def line(row: Habit) -> str:
    first = " ".join(f"`{word}`" for word in row.words).replace("|", r"\|")
    if row.kinds:
        first += f" of a {' or '.join(row.kinds)}"
    return f"| {first} | {row.origin} | `{here(row)}` |".replace("||", r"\|\|")


def table(rows: Iterable[str]) -> str:
    return "\n".join(["| written | right in | here |", "| --- | --- | --- |", *rows])


def tables() -> dict[str, str]:
    """The tables of the page, by heading."""
    simple = {
        "Operators": habits.OPERATORS,
        "Functions and methods": (
            *habits.CALLS,
            habits.PRESENCE,
            habits.ABSENCE,
            habits.DEFAULTS,
        ),
        "Macros": habits.MACROS,
        "Names": habits.NAMES,
        "Fields": habits.FIELDS,
        "Clauses": habits.CLAUSES,
        "Parts of clauses": habits.PARTS,
    }
    found = {name: table(map(line, rows)) for name, rows in simple.items()}
    units: dict[str, list[str]] = {}
    for word, suffix in habits.UNITS.items():
        units.setdefault(suffix, []).append(word)
    found["Units"] = "\n".join(
        [
            "| written | here |",
            "| --- | --- |",
            *(
                f'| {" ".join(f"`8{w}`" for w in words)} | `"8{suffix}"` |'
                for suffix, words in units.items()
            ),
        ]
    )
    return found


@pytest.mark.parametrize(("heading", "rows"), tables().items())
def test_page_shows_the_table(heading: str, rows: str) -> None:
    section = PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    assert rows in section


def test_what_is_here_is_an_expression_of_known_functions() -> None:
    known = {name.rpartition(".")[2] for name in FUNCTIONS}
    known |= {"has", "map", "filter", "exists", "all", "transformList"}
    for text in map(here, [*habits.OPERATORS, *habits.CALLS, *habits.FIELDS]):
        _, found = parse_expression(Source("habit", text))
        assert found == [], text
        called = {name for name in _CALLED.findall(text) if "." not in name or name in FUNCTIONS}
        assert {name.rpartition(".")[2] for name in called} <= known, text


def test_clauses_and_parts_are_words_of_the_language() -> None:
    known = set(keywords().values())
    first = {row.here.split()[0] for row in (*habits.CLAUSES, *habits.PARTS)}
    assert first <= known


def test_records_of_fields_are_known() -> None:
    assert {kind for row in habits.FIELDS for kind in row.kinds} <= set(load_schema().records)


def test_no_word_has_two_meanings_in_one_place() -> None:
    for rows in (habits.OPERATORS, habits.NAMES, habits.MACROS, habits.CLAUSES):
        words = [word for row in rows for word in row.words]
        assert sorted(words) == sorted(set(words))

"""The table of habits: what it says is here, is here, and what a page shows of it is true."""

from __future__ import annotations

import re
from pathlib import Path

from grammar.meaning.environment import FUNCTIONS
from grammar.meaning.schema import load_schema
from grammar.messages import habits
from grammar.messages.habits import Habit
from grammar.syntax.parser import keywords, parse_expression
from grammar.tree.source import Source

PAGE = (Path(__file__).parents[3] / "docs" / "coming-from.md").read_text(encoding="utf-8")
_OPERANDS = {"{0}": "a", "{1}": "b", "{2}": "c"}
_CALLED = re.compile(r"(?<!\w)((?:[a-z]\w*\.)?[A-Za-z]\w*)\(")


def here(row: Habit) -> str:
    """What to write, with names for the operands."""
    text = row.here
    for mark, name in _OPERANDS.items():
        text = text.replace(mark, name)
    return text


ROWS = (
    *habits.OPERATORS,
    *habits.CALLS,
    habits.PRESENCE,
    habits.ABSENCE,
    habits.DEFAULTS,
    *habits.MACROS,
    *habits.NAMES,
    *habits.FIELDS,
    *habits.CLAUSES,
    *habits.PARTS,
)


def test_page_shows_rows_of_the_table() -> None:
    section = PAGE.partition("## Words of other languages")[2]
    shown = re.findall(r"(?m)^\| (`[^|]+?)(?: of a (.+?))? \| ([^|`]+) \| `(.+)` \|$", section)
    assert len(shown) > 10
    for written, kinds, _, text in shown:
        words = {*re.findall(r"`([^`]+)`", written)}
        meant = [
            row
            for row in ROWS
            if words <= {*row.words} and here(row) == text and " or ".join(row.kinds) == kinds
        ]
        assert meant, written


def test_page_says_how_many_words_are_known() -> None:
    number = sum(len(row.words) for row in ROWS) + len(habits.UNITS)
    assert f"some {round(number, -2)} words" in PAGE


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

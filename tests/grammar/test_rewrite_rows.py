"""Rewrite rows: each names only parts that it has, in kinds and forms that there are."""

from __future__ import annotations

import contextlib
import re
from string import Formatter

import pytest

from grammar.messages.diagnostics import Fix
from grammar.mistakes import rewrites as rows
from grammar.mistakes.misplaced import Misplaced
from grammar.mistakes.rewrites import WORD_KINDS, WrittenPart, rewritten
from grammar.tree.source import Source, Span

ROWS = tuple(row for each in rows.ROWS.values() for row in each)
# What every row may write, beside its own parts.
KNOWN = {"this", "clause", "made"}
# Kinds of parts that have several words.
OF_MANY = set(
    "expr argument texts words amount length rest condition alone before_block inside".split()
)


def test_there_are_rows_of_each_kind() -> None:
    assert len(ROWS) > 300


def test_a_row_writes_parts_that_it_has() -> None:
    for row in ROWS:
        bound = {part.partition(":")[0] for part in re.findall(r"\{(\w+(?::\w+)?)\}", row.wrong)}
        for text in (row.instead, row.hint):
            for _, name, form, _ in Formatter().parse(text):
                assert name is None or name in bound | KNOWN, row.wrong
                # A form that is not there is a KeyError, and one that does not fit a ValueError.
                with contextlib.suppress(ValueError):
                    format(WrittenPart("1"), form or "")


def test_the_kinds_of_parts_are_known() -> None:
    found = {kind for row in ROWS for kind in re.findall(r"\{\w+:(\w+)\}", row.wrong)}
    assert found <= {*WORD_KINDS, *OF_MANY}


@pytest.mark.parametrize(("stop", "count"), [("b", 1), ("{", 0)])
def test_a_part_of_several_words_is_found_from_its_first_one(stop: str, count: int) -> None:
    """From a sign behind such a part, the row is not found, and this is no error."""
    text = "policy a b {"
    at = text.index(stop)
    place = Misplaced(Source("p.policy", text), Span(at, at + 1), {"LBRACE"})
    found = [f.remedy for f in rewritten(place, rows.ROWS["heads"]) if f.hint == "write `a-b`"]
    assert found == [Fix(Span(7, 10), "a-b")] * count

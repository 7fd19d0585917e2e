"""The table of known words names fields that exist, and texts."""

from __future__ import annotations

from grammar.rules.words import FIELDS
from grammar.tree.types import STRING, list_of
from tests.grammar.rules.helpers import SCHEMA


def test_every_field_of_the_table_is_a_text_of_the_schema() -> None:
    for record, name in FIELDS:
        field = SCHEMA.field(record, name)
        assert field is not None, (record, name)
        assert field.type in (STRING, list_of(STRING)), (record, name)


def test_table_is_in_order() -> None:
    assert [*FIELDS] == sorted(FIELDS)


def test_words_of_a_field_differ() -> None:
    assert all(len(set(words.values)) == len(words.values) > 0 for words in FIELDS.values())

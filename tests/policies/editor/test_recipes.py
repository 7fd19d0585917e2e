"""Recipes in completion: a wish in a comment is completed to the policies that fulfil it."""

from __future__ import annotations

import pytest

from grammar.meaning.schema import Schema, load_schema
from grammar.tree.source import Source
from policies.editor.completion import Candidate, NoSamples
from policies.editor.edited_text import complete, document
from policies.validation import Validator, check_source


@pytest.fixture(scope="module")
def schema() -> Schema:
    return load_schema()


def offered(text: str, schema: Schema) -> list[Candidate]:
    """What can stand at the end of the first comment of a text."""
    source = Source("a.policy", text)
    made = document("a.policy", Validator(schema).validate([source]), schema)
    assert made is not None
    offset = text.index("#") + len(text[text.index("#") :].partition("\n")[0])
    return complete(made, offset, NoSamples())


def test_a_wish_between_policies_is_a_whole_policy(schema: Schema) -> None:
    text = "# at most three per zone"
    first, *others = offered(text, schema)
    assert "per domain node.zone" in first.text
    assert (first.start, first.matches) == (0, text)
    assert (bool(first.label), bool(first.note), first.kind) == (True, True, "policy")
    assert others
    found = check_source(Source("b.policy", f"{first.text}\n"), schema).diagnostics
    assert [d for d in found if d.severity == "error"] == []


def test_a_wish_inside_of_a_policy_is_its_items(schema: Schema) -> None:
    text = "policy web {\n  # at most three per zone\n}\n"
    first = offered(text, schema)[0]
    whole = text[: first.start] + first.text + "\n}\n"
    found = check_source(Source("b.policy", whole), schema).diagnostics
    assert [d.message for d in found if d.severity == "error"] == []
    assert "per domain node.zone" in first.text


@pytest.mark.parametrize("text", ["#", "# ", "# xyzzy", "policy p { }  # zones"])
def test_what_is_no_wish_is_completed_as_ever(text: str, schema: Schema) -> None:
    assert not any(each.label for each in offered(text, schema))

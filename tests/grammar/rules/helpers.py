"""Helpers of the tests of checks: the codes that a policy's text gets, with the text of each."""

from __future__ import annotations

from collections.abc import Sequence

from grammar.meaning.schema import load_schema
from grammar.messages.diagnostics import Diagnostic
from grammar.tree.source import Source
from policies.validation import check_source
from tests.support.books import marked

SCHEMA = load_schema()


def found(items: str, codes: Sequence[str], head: str = "cluster policy p") -> list[str]:
    """The findings with one of these codes in a policy of these items: `P0301 the text there`."""
    text = f"{head} {{ {items} }}"
    given = diagnostics(items, codes, head)
    return [f"{d.code} {text[d.span.start : d.span.end]}" for d in given]


def diagnostics(
    items: str, codes: Sequence[str], head: str = "cluster policy p"
) -> list[Diagnostic]:
    """The diagnostics with one of these codes in a policy of these items; no other is an error."""
    file = check_source(Source("p.policy", f"{head} {{ {items} }}"), SCHEMA)
    errors = [d for d in file.diagnostics if d.severity == "error" and d.code not in codes]
    assert not errors, errors
    return [d for d in file.diagnostics if d.code in codes]


def findings(text: str, code: str, **short: str) -> tuple[str, list[str]]:
    """A text without the marks « and », and the findings where they are, as `found` has them.

    `short` are words that stand for longer texts.
    """
    for word, meant in short.items():
        text = text.replace(word, meant)
    plain, parts = marked(text)
    return plain, [f"{code} {part}" for part in parts]

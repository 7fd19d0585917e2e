"""Outline: the policies of a document with their clauses and definitions, and its tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from grammar.tree.clauses import Clause, Def, Item, Let, Use
from grammar.tree.source import Span
from policies.editor.document import EditedDocument


@dataclass(frozen=True, slots=True)
class Entry:
    """A named part of a text. `kind` is policy, test, let, def, use, or the word of a clause."""

    kind: str
    name: str
    span: Span
    name_span: Span
    parts: Sequence[Entry] = ()


def outline(document: EditedDocument) -> Sequence[Entry]:
    """The entries in the order of the text; parts with errors are left out."""
    blocks = [
        *(
            Entry(
                "policy", c.policy.name, c.policy.span, c.policy.name_span, _parts(c.policy.items)
            )
            for c in document.file.policies
        ),
        *(Entry("test", t.name, t.span, t.name_span) for t in document.file.tests),
    ]
    return sorted(blocks, key=lambda entry: entry.span.start)


def _parts(items: Sequence[Item]) -> Sequence[Entry]:
    found: list[Entry] = []
    for item in items:
        if isinstance(item, Clause):
            found.append(Entry(item.keyword, item.name, item.span, item.name_span))
        elif isinstance(item, Let | Def):
            kind = type(item).__name__.lower()
            found.append(Entry(kind, item.name, item.span, item.name_span))
        elif isinstance(item, Use):
            found.append(Entry("use", item.name, item.span, item.span))
    return found

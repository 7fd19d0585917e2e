"""Notebook: the clauses, names and policies that were typed in a session.

Items (`let`, `def`, settings and clauses) form one cluster policy called `session`. A whole policy
stays a policy of its own. A notebook never changes: each edit returns a new one, and the session
keeps the old one if the new one has errors.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from cli.render import Finding
from grammar.messages.diagnostics import Diagnostic
from grammar.tree.clauses import Def, ForPods, Item, Let, Policy, Setting, Use
from grammar.tree.data import Data
from grammar.tree.groups import Count, Group
from grammar.tree.source import Source, Span
from policies.validation import Identity, identity

NAME = "session"
_HEAD, _INDENT, _FOOT = f"cluster policy {NAME} {{\n", "  ", "}\n"
# The kind and name of an item. Of two items with the same key, the later replaces the first.
Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class TypedItem:
    """An item as typed; it starts at offset `start` of `source`."""

    text: str
    source: Source
    start: int
    is_definition: bool


@dataclass(frozen=True, slots=True)
class Notebook:
    """Typed items by their keys, and typed policies by their identities."""

    items: Mapping[Key, TypedItem] = field(default_factory=dict)
    policies: Mapping[Identity, Source] = field(default_factory=dict)

    def with_items(self, source: Source, items: Iterable[Item]) -> Notebook:
        added = {
            item_key(item): TypedItem(
                source.slice(item.span),
                source,
                item.span.start,
                isinstance(item, Let | Def | Group | Count),
            )
            for item in items
        }
        return replace(self, items={**self.items, **added})

    def with_policies(self, source: Source, policies: Iterable[Policy]) -> Notebook:
        added = {identity(p): Source(NAME, _only(source.text, p.span)) for p in policies}
        return replace(self, policies={**self.policies, **added})

    def without(self, name: str) -> Notebook:
        """A notebook without the items and policies of a name."""
        return Notebook(
            {k: v for k, v in self.items.items() if k[1] != name},
            {i: s for i, s in self.policies.items() if i[-1] != name},
        )

    @property
    def names(self) -> list[str]:
        return sorted({k[1] for k in self.items} | {i[-1] for i in self.policies})

    @property
    def session_policy(self) -> Source | None:
        """The text of the policy `session`; None if it has no items."""
        if not self.items:
            return None
        lines = (f"{_INDENT}{item.text}\n" for item in self.items.values())
        return Source(NAME, f"{_HEAD}{''.join(lines)}{_FOOT}")

    @property
    def sources(self) -> tuple[Source, ...]:
        own = self.session_policy
        return (*([own] if own is not None else []), *self.policies.values())

    @property
    def text(self) -> str:
        return "\n".join(f"{source.text.strip()}\n" for source in self.sources)

    @property
    def definitions(self) -> str:
        return "\n".join(item.text for item in self.items.values() if item.is_definition)

    def as_typed(self, found: Diagnostic, source: Source) -> Finding:
        """A finding with its place in the text that was typed.

        Only findings in the policy `session` move, and they lose their fix.
        """
        if source != self.session_policy:
            return found, source
        for start, item in self._starts():
            if start <= found.span.start < start + len(item.text):
                shift = item.start - start
                span = Span(found.span.start + shift, found.span.end + shift)
                return replace(found, span=span, fix=None), item.source
        return found, source

    def _starts(self) -> Iterator[tuple[int, TypedItem]]:
        start = len(_HEAD)
        for item in self.items.values():
            yield start + len(_INDENT), item
            start += len(_INDENT) + len(item.text) + 1


def item_key(item: Item) -> Key:
    match item:
        case Let(name) | Def(name) | Group(name) | Count(name):
            return "name", name
        case Use(name):
            return "use", name
        case Setting(name):
            return "setting", name
        case ForPods():
            return "setting", "for"
        case _:
            return "clause", item.name


def item_title(item: Item) -> str:
    """The short form of an item in messages, as `filter "headroom"`."""
    match item:
        case Setting(name, value):
            return f"{name} {value}".rstrip()
        case ForPods():
            return "for"
        case Let(name) | Def(name):
            return name
        case Data(name):
            return f'data "{name}"'
        case Group(name):
            return f"group {name}"
        case Count(name):
            return f"count {name}"
        case Use(name):
            return f'use "{name}"'
        case _:
            return f'{item.keyword} "{item.name}"'


def _only(text: str, span: Span) -> str:
    """The text with blanks outside of the span, so that offsets stay the same."""
    before, after = (re.sub(r"[^\n]", " ", t) for t in (text[: span.start], text[span.end :]))
    return f"{before}{text[span.start : span.end]}{after}"

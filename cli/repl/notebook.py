"""What was typed to stay: the items of the session's own policy, and policies beside it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from grammar.clauses import Def, Filter, ForPods, Item, Let, Policy, Setting, Use
from grammar.diagnostics import Diagnostic
from grammar.source import Source, Span
from policies.validation import Identity, identity

NAME = "session"
_HEAD, _INDENT, _FOOT = f"cluster policy {NAME} {{\n", "  ", "}\n"
# What an item must not share with another of its policy: of two, the later replaces the first.
Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Entry:
    """An item as it was typed. `typed` is the text that it was in, `start` where in that."""

    text: str
    typed: Source
    start: int
    definition: bool


@dataclass(frozen=True, slots=True)
class Notebook:
    """Immutable: whatever does not hold together with it can be left out again."""

    items: Mapping[Key, Entry] = field(default_factory=dict)
    policies: Mapping[Identity, Source] = field(default_factory=dict)

    def with_items(self, typed: Source, items: Iterable[Item]) -> Notebook:
        added = {
            key(i): Entry(typed.slice(i.span), typed, i.span.start, isinstance(i, Let | Def))
            for i in items
        }
        return replace(self, items={**self.items, **added})

    def with_policies(self, typed: Source, policies: Iterable[Policy]) -> Notebook:
        added = {identity(p): Source(NAME, _alone(typed.text, p.span)) for p in policies}
        return replace(self, policies={**self.policies, **added})

    def without(self, name: str) -> Notebook:
        """Without all that is called so."""
        return Notebook(
            {k: v for k, v in self.items.items() if k[1] != name},
            {i: s for i, s in self.policies.items() if i[-1] != name},
        )

    @property
    def names(self) -> list[str]:
        """What `without` can leave out."""
        return sorted({k[1] for k in self.items} | {i[-1] for i in self.policies})

    @property
    def own(self) -> Source | None:
        """The session's own policy, if there is anything in it."""
        if not self.items:
            return None
        lines = (f"{_INDENT}{entry.text}\n" for entry in self.items.values())
        return Source(NAME, f"{_HEAD}{''.join(lines)}{_FOOT}")

    @property
    def sources(self) -> tuple[Source, ...]:
        own = self.own
        return (*([own] if own is not None else []), *self.policies.values())

    @property
    def text(self) -> str:
        """All of it, as a policy file would have it."""
        policies = (f"{source.text.strip()}\n" for source in self.policies.values())
        own = self.own
        return "\n".join((*([own.text] if own is not None else []), *policies))

    @property
    def definitions(self) -> str:
        """Every `let` and `def`, for expressions to use."""
        return "\n".join(entry.text for entry in self.items.values() if entry.definition)

    def as_typed(self, found: Diagnostic, source: Source) -> tuple[Diagnostic, Source]:
        """A finding about the session's own policy, at the place where it was typed."""
        if source != self.own:
            return found, source
        for at, entry in self._places():
            if at <= found.span.start < at + len(entry.text):
                by = entry.start - at
                span = Span(found.span.start + by, found.span.end + by)
                return replace(found, span=span, fix=None), entry.typed
        return found, source

    def _places(self) -> Iterator[tuple[int, Entry]]:
        """Where each item is in the text of the policy."""
        at = len(_HEAD)
        for entry in self.items.values():
            yield at + len(_INDENT), entry
            at += len(_INDENT) + len(entry.text) + 1


def key(item: Item) -> Key:
    match item:
        case Let(name) | Def(name):
            return "name", name
        case Use(name):
            return "use", name
        case Setting(name):
            return "setting", name
        case ForPods():
            return "setting", "for"
        case _:
            return "clause", item.name


def told(item: Item) -> str:
    """How an item is spoken of."""
    match item:
        case Setting(name, value):
            return f"{name} {value}"
        case ForPods():
            return "for"
        case Let(name) | Def(name):
            return name
        case Filter(name, at_bind=True):
            return f'bind "{name}"'
        case _:
            return f'{type(item).__name__.lower()} "{item.name}"'


def _alone(text: str, span: Span) -> str:
    """The text with everything outside of the span blank, so that places stay what they are."""
    before, after = (re.sub(r"[^\n]", " ", t) for t in (text[: span.start], text[span.end :]))
    return f"{before}{text[span.start : span.end]}{after}"

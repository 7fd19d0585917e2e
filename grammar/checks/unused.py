"""`let`s and `def`s that nothing uses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass

from grammar.ast import DefCall, LetReference
from grammar.clauses import Def, Let
from grammar.diagnostics import Diagnostic
from grammar.policy_checker import Checked


def check(checked: Checked) -> Iterator[Diagnostic]:
    """A warning for each name that stands nowhere but in its own definition."""
    used = _names(checked.policy.items)
    for item in checked.policy.items:
        if isinstance(item, Let | Def) and item.name not in used:
            word = "let" if isinstance(item, Let) else "def"
            yield Diagnostic(
                "P0303",
                "warning",
                f"{word} `{item.name}` is never used",
                item.name_span,
                hint="delete it",
            )


def _names(node: object) -> set[str]:
    if isinstance(node, tuple):
        return set[str]().union(*map(_names, node))
    if not is_dataclass(node) or isinstance(node, type):
        return set()
    own = {node.name} if isinstance(node, LetReference | DefCall) else set()
    return own.union(*(_names(getattr(node, f.name)) for f in fields(node)))

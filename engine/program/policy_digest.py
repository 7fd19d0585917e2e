"""Policy digest: a short text that tells versions of a policy apart by what they mean."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass

from grammar.tree.clauses import Policy

_DIGEST_LENGTH = 12


def digest_of(policies: Iterable[tuple[Policy, bytes]]) -> str:
    """The digest of a policy with the policies that it uses, in hexadecimal digits.

    Each comes with the text of its items. The digest changes with the meaning of a policy, and not
    with its layout: it is of the syntax tree without the places in the file. It is the same in
    every process.
    """
    found = hashlib.sha256()
    for policy, items in policies:
        found.update(b"Policy\0")
        for each in fields(policy):
            if each.compare:
                is_items = each.name == "items"
                found.update(items if is_items else text_of(getattr(policy, each.name)))
    return found.hexdigest()[:_DIGEST_LENGTH]


def text_of(value: object) -> bytes:
    """A part of a tree as a text: of equal parts, the same."""
    return b"".join(token.encode() + b"\0" for token in _tokens(value))


def _tokens(value: object) -> Iterator[str]:
    """The names of the tree's classes and the values of its leaves, in the order of the tree."""
    if is_dataclass(value):
        yield type(value).__name__
        for each in fields(value):
            # Places in the file are the fields that do not count in comparisons.
            if each.compare:
                yield from _tokens(getattr(value, each.name))
    elif isinstance(value, tuple | list):
        yield f"{len(value)} items"
        for item in value:
            yield from _tokens(item)
    elif isinstance(value, Mapping):
        yield f"{len(value)} entries"
        for key in sorted(value, key=repr):
            yield from _tokens(key)
            yield from _tokens(value[key])
    elif isinstance(value, frozenset | set):
        yield f"{len(value)} members"
        yield from sorted(repr(item) for item in value)
    else:
        yield repr(value)

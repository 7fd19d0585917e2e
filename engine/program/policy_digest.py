"""Policy digest: a short text that tells versions of a policy apart by what they mean."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import lru_cache
from typing import Any

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
        for name in _compared(Policy):
            found.update(items if name == "items" else text_of(getattr(policy, name)))
    return found.hexdigest()[:_DIGEST_LENGTH]


def text_of(value: object) -> bytes:
    """A part of a tree as a text: of equal parts, the same."""
    return b"".join(token.encode() + b"\0" for token in _tokens(value))


def _tokens(value: object) -> Iterator[str]:
    """The names of the tree's classes and the values of its leaves, in the order of the tree."""
    if is_dataclass(value):
        kind: Any = value.__class__
        yield kind.__name__
        for name in _compared(kind):
            yield from _tokens(getattr(value, name))
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


@lru_cache(maxsize=1024)
def _compared(kind: type[Any]) -> tuple[str, ...]:
    """The fields of a class of the tree without places in the file, which no comparison counts."""
    return tuple(each.name for each in fields(kind) if each.compare)

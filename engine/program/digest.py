"""Digest: a short text that changes with the meaning of a policy, and not with its layout.

It is of the syntax tree without the places in the file, so comments and line breaks do not matter,
and it is the same in every process.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass

from grammar.checker.policy_checker import Checked

_LENGTH = 12


def digest_of(checked: Checked) -> str:
    """The digest of a policy with the policies that it uses, in hexadecimal digits."""
    found = hashlib.sha256()
    for part in (checked, *checked.uses):
        for token in _tokens(part.policy):
            found.update(token.encode())
            found.update(b"\0")
    return found.hexdigest()[:_LENGTH]


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

"""Usable policies: the policies that `use` can name, with the text that each of them is in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from grammar.syntax.parser import parse_file
from grammar.tree.clauses import Policy
from grammar.tree.source import Source
from policies.loader import library_sources
from policies.validation import LIBRARY, CheckedFile


@dataclass(frozen=True, slots=True)
class Usable:
    """A policy as it is written, and its text."""

    policy: Policy
    source: Source


def usable(files: Iterable[CheckedFile]) -> Mapping[str, Usable]:
    """The policies of some files by address, and the policies of the library with its prefix."""
    found = dict(_library())
    for file in files:
        for checked in () if file.private else file.policies:
            policy = checked.template or checked.policy
            found.setdefault(policy.address, Usable(policy, file.source))
    return found


@cache
def _library() -> Mapping[str, Usable]:
    """The policies that come with Placet; these files do not change."""
    return {
        LIBRARY + policy.name: Usable(policy, source)
        for source in library_sources()
        for policy in parse_file(source)[0].policies
    }

"""Documents printed in the texts that extenders started with, which are beside the project.

They are read from there, and never copied: a test that needs one is skipped where it is absent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from grammar.meaning.schema import Schema
from grammar.messages.diagnostics import Diagnostic, Fix
from grammar.tree.source import Source
from policies.validation import check_source

SEEDS = Path(__file__).parents[2].parent / "shared" / "seeds"
# A line that begins a document, where there is no fence around it.
_OPENS = re.compile(r"(?m)^\{$")
_FENCE = re.compile(r"(?ms)^```(?:yaml|json)\n(.*?)^```$")


@dataclass(frozen=True, slots=True)
class Printed:
    """The `block`-th document of the file whose name begins with `number`."""

    number: str
    block: int
    suffix: str

    @property
    def id(self) -> str:
        return f"{self.number}-{self.block}"

    def text(self) -> str:
        """The document; the test is skipped where its file is absent."""
        files = sorted(SEEDS.glob(f"{self.number}_*.txt"))
        if not files:
            pytest.skip(f"{SEEDS} has no file {self.number}")
        return list(documents(files[0].read_text(encoding="utf-8")))[self.block]


def documents(text: str) -> Iterator[str]:
    """Each YAML in a fence, and each JSON object that stands on lines of its own."""
    fenced = [(m.start(), m[1]) for m in _FENCE.finditer(text)]
    bare = [(m.start(), _balanced(text[m.start() :])) for m in _OPENS.finditer(text)]
    end = 0
    for start, found in sorted(fenced + [(at, body) for at, body in bare if '"' in body]):
        if start >= end:
            yield found
            end = start + len(found)


def _balanced(text: str) -> str:
    """A JSON object at the start of the text, whose strings have no braces."""
    depth = 0
    for place, sign in enumerate(text):
        depth += (sign == "{") - (sign == "}")
        if not depth:
            return text[: place + 1]
    return text


# Every JSON and YAML in the texts, in their order.
KEP = Printed("000", 0, ".yaml")
POLICY = Printed("001", 0, ".json")
PLUGINS = Printed("002", 0, ".json")
PLUGIN_ARGUMENTS = Printed("002", 1, ".json")
ARTICLE_POLICY = Printed("003", 0, ".json")
ARTICLE_PLUGINS = Printed("003", 1, ".json")
PROPOSAL = Printed("004", 0, ".yaml")
CONFIGURATIONS = (KEP, POLICY, PLUGINS, ARTICLE_POLICY, ARTICLE_PLUGINS)


# ---- hints that are followed: what a text says after the edits of its hints, one after the other


# A chain of hints ends within so many edits; those behind certain ones that are certain too, which
# `--fix` all makes, count less.
STEPS = 3
_OF_CERTAIN = 0.2


@dataclass(frozen=True, slots=True)
class Followed:
    """A hint that was followed: the text with its mistake, the error, and why it led nowhere."""

    text: str
    found: Diagnostic
    fault: str = ""


def errors(text: str, schema: Schema) -> list[Diagnostic]:
    found = check_source(Source("example.policy", text), schema).diagnostics
    return [d for d in found if d.severity == "error"]


def edit_of(found: Diagnostic) -> Fix | None:
    """What the hint says to write."""
    return found.fix or found.remedy


def edited(text: str, edit: Fix) -> str:
    return text[: edit.span.start] + edit.text + text[edit.span.end :]


def follow(text: str, schema: Schema) -> Iterator[Followed]:
    """Every hint of the errors of a text that is an edit, and whether it leads on."""
    said = errors(text, schema)
    for found in said:
        if edit_of(found) is not None:
            yield Followed(text, found, _fault(text, found, said, schema, STEPS))


def _fault(
    text: str, found: Diagnostic, said: list[Diagnostic], schema: Schema, steps: float
) -> str:
    """Why the hint of an error leads nowhere; empty if it leads on.

    The next error must be right of this one and another one, and its hint must lead on as well.
    """
    edit = edit_of(found)
    assert edit is not None
    after = edited(text, edit)
    now = errors(after, schema)
    if len(now) < len(said):
        return ""
    start = edit.span.start
    known = {_place(d, text, start) for d in said}
    new = [d for d in now if _place(d, after, start) not in known]
    if not new:
        return "the same errors"
    following = new[0]
    # A bracket is shown where it opens, and found to be open further behind.
    is_bracket = following.code == "P0140"
    # What cannot be parsed hides the errors of names and types before it.
    is_hidden = found.is_of_parser and not following.is_of_parser
    is_seen = not is_bracket and not is_hidden
    if is_seen and len(after) - following.span.end > len(text) - found.span.start:
        return f"an error before it: {following.message}"
    if (following.code, following.message) == (found.code, found.message):
        return f"the same error: {following.message}"
    if edit_of(following) is None:
        return ""
    cost = _OF_CERTAIN if found.fix is not None and following.fix is not None else 1
    if steps <= cost:
        return "too long a chain"
    return _fault(after, following, now, schema, steps - cost)


def _place(found: Diagnostic, text: str, changed: int) -> tuple[str, str, int]:
    """An error as it is recognised in a text that is changed at an offset."""
    start = found.span.start
    return found.code, found.message, start if start < changed else start - len(text) - 1

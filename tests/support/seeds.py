"""Documents printed in the texts that extenders started with, which are beside the project.

They are read from there, and never copied: a test that needs one is skipped where it is absent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

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

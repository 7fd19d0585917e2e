"""First tries: what people write before they have read the docs, and what the help must say.

tests/golden/first_tries.yaml has a mistake a line, and a pattern of the remedy or the warning: one
that leads to what its author wants. Mistakes of newcomers are there, those of people who know
Kyverno, Rego, Nomad, SQL, Python or Helm, pasted YAML, and texts that would mean something else.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from grammar.meaning.schema import Schema, load_schema
from grammar.tree.source import Source
from policies.validation import check_source

GOLDEN = Path(__file__).parents[1] / "golden" / "first_tries.yaml"


@dataclass(frozen=True, slots=True)
class Case:
    text: str
    help: str


CASES = tuple(Case(**item) for item in yaml.safe_load(GOLDEN.read_text(encoding="utf-8")))


@pytest.fixture(scope="module")
def schema() -> Schema:
    return load_schema()


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.text)
def test_the_help_says_what_is_meant(case: Case, schema: Schema) -> None:
    text = f"cluster policy example {{\n  {case.text}\n}}\n"
    found = check_source(Source("example.policy", text), schema).diagnostics
    said = [f"{d.hint or ''} {d.message}" for d in found]
    assert any(re.search(case.help, each) for each in said), said

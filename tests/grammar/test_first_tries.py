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
from grammar.syntax.wishes import WishedItem, wished
from grammar.tree.source import Source, Span
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


@pytest.mark.parametrize("repeated", ["per zone and host ", "over zone and host "])
def test_a_wish_of_many_places_is_not_read_for_each_of_them(repeated: str) -> None:
    """Two places are two clauses; each further pair would double the work, without end."""
    text = f"at most one {repeated * 40}"
    assert list(wished(WishedItem(Span(0, len(text)), text))) == []

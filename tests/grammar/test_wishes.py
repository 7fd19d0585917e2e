"""Wishes: where a text means nothing, the hint is the whole clause that says what it wishes.

tests/golden/wishes.yaml has a case for each: the text, in a policy, and the clause.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from grammar.meaning.schema import Schema, load_schema
from grammar.tree.source import Source
from policies.validation import check_source
from tests.support.hints import edit_of, edited, errors

GOLDEN = Path(__file__).parents[1] / "golden" / "wishes.yaml"
RULES = """\
apiVersion: placement-policy.scheduling.x-k8s.io/v1
kind: PlacementPolicy
metadata: {name: web, namespace: shop}
spec:
  podSelector: {matchLabels: {app: web}}
  rules: |
    filter "ready" { require node.ready }
    RULE
"""


@dataclass(frozen=True, slots=True)
class Case:
    text: str
    clause: str

    @property
    def policy(self) -> str:
        return f"cluster policy example {{\n  {self.text}\n}}\n"


CASES = tuple(Case(**item) for item in yaml.safe_load(GOLDEN.read_text(encoding="utf-8")))


@pytest.fixture(scope="module")
def schema() -> Schema:
    return load_schema()


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.text)
def test_a_wish_is_told_once_with_its_clause(case: Case, schema: Schema) -> None:
    (found,) = errors(case.policy, schema)
    edit = edit_of(found)
    assert edit is not None
    assert edit.text == case.clause
    assert (found.hint or "").startswith(f"write `{case.clause}`")


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.text)
def test_nothing_is_wrong_with_the_clause(case: Case, schema: Schema) -> None:
    (found,) = errors(case.policy, schema)
    edit = edit_of(found)
    assert edit is not None
    after = Source("example.policy", edited(case.policy, edit))
    assert [d.message for d in check_source(after, schema).diagnostics] == []


@pytest.mark.parametrize("text", ["at most 3 per zone", "never beside a database", "prefer spot"])
def test_rules_of_an_object_get_the_same_hint(text: str, schema: Schema) -> None:
    (clause,) = (case.clause for case in CASES if case.text == text)
    source = Source("web.yaml", RULES.replace("RULE", text))
    found = [d for d in check_source(source, schema).diagnostics if d.severity == "error"]
    assert [d.hint for d in found] == [f"write `{clause}`"]


@pytest.mark.parametrize(
    "text",
    [
        'filter "x" { require node.ready && }',
        'filter "x" { require node.labels["per zone"] = 3 }',
        'filter "x" { require pod.spec.containers.all(c, c.image.startsWith("at most") }',
    ],
)
def test_a_mistake_that_wishes_nothing_gets_no_clause(text: str, schema: Schema) -> None:
    for found in errors(f"cluster policy example {{\n  {text}\n}}\n", schema):
        assert "limit" not in (found.hint or "")
        assert "filter" not in (found.hint or "")

"""Wishes: a text is answered by the clause that says all of it, or by no clause.

tests/golden/conditions.yaml has a hundred wishes with conditions, each with its clause or without
one; tests/golden/wishes.yaml has shorter ones, and the effect of a clause on two nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from cli.policy_tests.runner import Runner, collect
from grammar.meaning.schema import Schema
from grammar.mistakes.readings import clause_of
from grammar.tree.source import Source
from policies.validation import Validator, check_source
from tests.support.seeds import edit_of, edited, errors

GOLDEN = Path(__file__).parents[1] / "golden"
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
class Wished:
    """A wish, and the clause that is all of it; `test` has its effect."""

    wish: str
    clause: str | None = None
    test: str = ""

    @property
    def policy(self) -> str:
        return f"cluster policy example {{\n  {self.wish}\n}}\n"


def load(name: str) -> tuple[Wished, ...]:
    return tuple(Wished(**item) for item in yaml.safe_load((GOLDEN / name).read_text("utf-8")))


SHORT, CONDITIONS = load("wishes.yaml"), load("conditions.yaml")
ANSWERED = [w for w in (*SHORT, *CONDITIONS) if w.clause is not None]


def test_there_are_a_hundred_wishes_with_conditions() -> None:
    assert len({w.wish for w in CONDITIONS}) == 100
    assert len([w for w in CONDITIONS if w.clause is None]) >= 75


@pytest.mark.parametrize("case", ANSWERED, ids=lambda c: c.wish)
def test_a_wish_is_told_once_with_its_clause(case: Wished, schema: Schema) -> None:
    (found,) = errors(case.policy, schema)
    edit = edit_of(found)
    assert edit is not None
    assert edit.text == case.clause
    assert (found.hint or "").startswith(f"write `{case.clause}`")


@pytest.mark.parametrize("case", ANSWERED, ids=lambda c: c.wish)
def test_nothing_is_wrong_with_the_clause(case: Wished, schema: Schema) -> None:
    (found,) = errors(case.policy, schema)
    edit = edit_of(found)
    assert edit is not None
    assert errors(edited(case.policy, edit), schema) == []


@pytest.mark.parametrize("case", [w for w in ANSWERED if w.test], ids=lambda c: c.wish)
def test_the_clause_has_the_effect(case: Wished, schema: Schema, tmp_path: Path) -> None:
    path = tmp_path / "web.policy"
    text = f'cluster policy p {{ {case.clause} }}\ntest "it" {{ {case.test} }}\n'
    path.write_text(text, encoding="utf-8")
    collection = collect([path], Validator(schema))
    (suite,) = collection.suites
    assert [d.message for d, _ in suite.errors] == [], text
    (result,) = Runner(collection, schema).run(suite, suite.tests)
    assert result.outcome == "passed", (text, result.diagnostics)


@pytest.mark.parametrize(
    "case", [w for w in (*SHORT, *CONDITIONS) if w.clause is None], ids=lambda c: c.wish
)
def test_a_wish_that_is_not_understood_gets_no_clause(case: Wished, schema: Schema) -> None:
    text = case.policy
    for found in errors(text, schema):
        assert "{" not in (found.hint or "").partition("as in `")[0].replace("`{`", "")
        edit = edit_of(found)
        # No edit of a word makes a policy of it either.
        assert edit is None or errors(edited(text, edit), schema)


@pytest.mark.parametrize("text", ["at most 3 per zone", "only on gpu nodes", "prefer spot"])
def test_rules_of_an_object_get_the_same_hint(text: str, schema: Schema) -> None:
    (clause,) = (case.clause for case in SHORT if case.wish == text)
    source = Source("web.yaml", RULES.replace("RULE", text))
    found = [d for d in check_source(source, schema).diagnostics if d.severity == "error"]
    assert [d.hint for d in found] == [f"write `{clause}`"]


@pytest.mark.parametrize(
    "text",
    [
        'match { any { resources { namespaces ["a"] operations ["CREATE"] } } }',
        'match { any [ { resources { namespaces ["a"] } }, { resources { names ["b"] } } ] }',
        'match { resources { selector { matchLabels { a: b } } operations ["CREATE"] } }',
        'forbid (principal == User::"a", action, resource) when { pod.priority < 0 };',
        "nodeSelector: disktype: ssd tolerations: - key: a",
        "nodeSelector:\n  disktype: ssd\ntolerations:\n- key: a",
        "topologySpreadConstraints: - maxSkew: 1 topologyKey: zone whenUnsatisfiable: Maybe",
        'filter "x" { require { key: pool, operator: In, values: [a] } || node.ready }',
        'filter "x" { if pod.priority > 5 { require node.ready } }',
        'score "x" weight 10 { value CASE WHEN node.ready THEN 100 END }',
        'limit(name="x", per="zone", max=3, min=1)',
        "def filter(node, threshold): return node.ready",
        "only on gpu nodes # but not on Sundays",
        'limit "x" { 2 per node or 4 per zone }',
        "nodes with label a=b are only for namespace c and d",
        "zones: [a, b] except c",
    ],
)
def test_no_clause_leaves_out_a_part_of_a_foreign_item(text: str) -> None:
    assert clause_of(text) is None


def test_other_words_find_recipes(schema: Schema) -> None:
    (found,) = errors("policy p {\n  do not run two kafka brokers on one machine\n}\n", schema)
    assert found.message == "no clause begins with `do`"
    assert (found.hint or "").startswith("see `placet how one-per-node`, ")
    assert (found.hint or "").count("placet how") <= 3


@pytest.mark.parametrize(
    "text",
    [
        'count done { ended pods where peer.labels["a"] == "b" }',
        'spread "x" { over node.zone at most 1 strict }',
        'deny if node.labels["a"] == "b" and so on',
    ],
)
def test_code_finds_no_recipes(text: str, schema: Schema) -> None:
    found = errors(f"cluster policy example {{\n  {text}\n}}\n", schema)
    assert found
    assert all("placet how" not in (each.hint or "") for each in found)


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

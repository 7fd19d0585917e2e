"""Heads: mistakes in the head of a policy, and outside of one, with the edit that mends them."""

from __future__ import annotations

import pytest

from grammar.meaning.schema import Schema
from grammar.tree.source import Source
from policies.validation import check_source
from tests.support.seeds import edit_of, edited, errors

BODY = '\n  filter "x" { require node.ready }\n}\n'


@pytest.mark.parametrize(
    ("head", "meant"),
    [
        ('policy web frontend in namespace "shop" {', 'policy web-frontend in namespace "shop" {'),
        ('policy web for namespace "shop" {', 'policy web in namespace "shop" {'),
        ("policy web namespace shop {", 'policy web in namespace "shop" {'),
        ("policy my-shop/web-app {", 'policy web-app in namespace "my-shop" {'),
        ("namespace policy web {", 'policy web in namespace "name" {'),
        ("global policy web {", "cluster policy web {"),
        ("clusterpolicy web {", "cluster policy web {"),
        (
            'policy web in namespace "shop" priority 5 {',
            'policy web in namespace "shop" { weight 5',
        ),
        ("cluster policy web mode audit {", "cluster policy web { mode audit"),
        (
            'policy web if pod.namespace == "a" {',
            'policy web { for pods where pod.namespace == "a"',
        ),
        (
            'policy web in namespaces ["a", "b"] {',
            'policy web { for pods where pod.namespace in ["a", "b"]',
        ),
        ('policy web in namespace "shop"', 'policy web in namespace "shop" {'),
        ("cluster policy web frontend of shop {", "cluster policy web-frontend-of-shop {"),
        ('policy web: in namespace "shop" {', 'policy web in namespace "shop" {'),
        ('---\npolicy web in namespace "shop" {', '\npolicy web in namespace "shop" {'),
    ],
)
def test_an_edit_mends_the_head(head: str, meant: str, schema: Schema) -> None:
    text = head + BODY
    edit = edit_of(errors(text, schema)[0])
    assert edit is not None
    assert edited(text, edit) == meant + BODY
    assert errors(meant + BODY, schema) == []


def test_a_parameter_wants_a_type_and_a_default(schema: Schema) -> None:
    (found,) = errors(f"cluster policy web(zone) {{{BODY}", schema)
    wanted = 'write `zone: string = "…"` with its type and a default, or `zone: string` in a `def`'
    assert found.hint == wanted


@pytest.mark.parametrize(
    ("spec", "hint"),
    [
        ('rules:\n  - filter "x" { require node.ready }', "write `rules: |`"),
        ("rules:\n    filter: {require: node.ready}", "write `rules: |`"),
        ("selector: {}", "write `podSelector`"),
        ("matchLabels: {app: web}", "write `podSelector: {matchLabels: {…}}`"),
        ("mode: audit", "write `enforcementMode`"),
        ("weight: '100'", "write it without quotes"),
    ],
)
def test_fields_of_objects_have_hints(spec: str, hint: str, schema: Schema) -> None:
    rules = "" if "rules" in spec else '\n  rules: |\n    filter "x" { require node.ready }'
    text = (
        "apiVersion: placement-policy.scheduling.x-k8s.io/v1\nkind: PlacementPolicy\n"
        f"metadata: {{name: p, namespace: s}}\nspec:\n  podSelector: {{}}\n  {spec}{rules}\n"
    )
    found = check_source(Source("p.yaml", text), schema).diagnostics
    assert any((d.hint or "").startswith(hint) for d in found), [d.hint for d in found]


def test_yaml_among_rules_is_read_with_its_lines(schema: Schema) -> None:
    text = (
        "apiVersion: placement-policy.scheduling.x-k8s.io/v1\nkind: PlacementPolicy\n"
        "metadata: {name: p, namespace: s}\nspec:\n  podSelector: {}\n  rules: |\n"
        "    nodeSelector:\n      disktype: ssd\n"
    )
    (found,) = check_source(Source("p.yaml", text), schema).diagnostics
    assert found.hint == 'write `filter "nodes" { require node.labels["disktype"] == "ssd" }`'


@pytest.mark.parametrize(
    ("selector", "hint"),
    [
        ("{app: web}", "write `matchLabels: {app: web}`"),
        ("{matchLabels: {app: 1}}", "write it in quotes"),
    ],
)
def test_labels_of_a_selector_have_hints(selector: str, hint: str, schema: Schema) -> None:
    text = (
        "apiVersion: placement-policy.scheduling.x-k8s.io/v1\nkind: PlacementPolicy\n"
        f"metadata: {{name: p, namespace: s}}\nspec:\n  podSelector: {selector}\n"
        '  rules: |\n    filter "x" { require node.ready }\n'
    )
    (found,) = check_source(Source("p.yaml", text), schema).diagnostics
    assert found.hint == hint


def test_a_tab_in_yaml_is_named(schema: Schema) -> None:
    (found,) = check_source(Source("p.yaml", "spec:\n\tpodSelector: {}\n"), schema).diagnostics
    assert found.message.endswith("in line 2, such as a tab: YAML is indented with blanks")


def test_a_brace_is_not_written_into_a_comment(schema: Schema) -> None:
    text = f"cluster policy web {{{BODY.rpartition('}')[0]}\n# node-1: passes\n"
    (found,) = errors(text, schema)
    edit = edit_of(found)
    assert edit is not None
    assert errors(edited(text, edit), schema) == []

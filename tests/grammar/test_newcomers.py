"""Newcomers: usual tasks take a few runs of check, whose hints lead to what is meant."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cli.policy_tests.runner import Runner, collect
from grammar.meaning.schema import Schema
from grammar.tree.source import Source
from policies.validation import Validator, check_source
from tests.support.seeds import edit_of, edited, errors

RIGHT = [
    'filter "x" { require node.metadata.labels.disktype == "ssd" }',
    'filter "x" { require pod.metadata.annotations.team == "a" }',
    'filter "x" { require node.status.capacity.cpu >= 8 }',
    'spread "x" { over node.labels.zone skew at most 1 strict }',
]
RUNS = 3

# What somebody writes who has read nothing, and a test that the policy must pass in the end.
WEB = '{"labels": {"app": "web"}, "workload": {"name": "web", "replicas": 4}}'
TASKS = [
    (
        "at most 3 per zone",
        f"""node "a" {{"zone": "a"}} node "b" {{"zone": "b"}}
        pod "shop/w-1" {WEB} on "a" pod "shop/w-2" {WEB} on "a" pod "shop/w-3" {WEB} on "a"
        pod "shop/w-4" {WEB} expect reject "a" by "X" expect pass "b\"""",
    ),
    (
        "one per node",
        f"""node "a" node "b" pod "shop/w-1" {WEB} on "a" pod "shop/w-2" {WEB}
        expect reject "a" by "X" expect pass "b\"""",
    ),
    (
        "spread over zones",
        f"""node "a" {{"zone": "a"}} node "b" {{"zone": "b"}} pod "shop/w-1" {WEB} on "a"
        pod "shop/w-2" {WEB} expect reject "a" by "X" expect pass "b\"""",
    ),
    (
        "only on arm64",
        f"""node "a" {{"labels": {{"kubernetes.io/arch": "amd64"}}}}
        node "b" {{"labels": {{"kubernetes.io/arch": "arm64"}}}}
        pod "shop/w-1" {WEB} expect reject "a" by "X" expect pass "b\"""",
    ),
    (
        "not on spot",
        f"""node "a" {{"labels": {{"karpenter.sh/capacity-type": "spot"}}}} node "b"
        pod "shop/w-1" {WEB} expect reject "a" by "X" expect pass "b\"""",
    ),
    (
        "no two replicas on the same host",
        f"""node "a" node "b" pod "shop/w-1" {WEB} on "a" pod "shop/w-2" {WEB}
        expect reject "a" by "X" expect pass "b\"""",
    ),
]


@pytest.mark.parametrize("text", RIGHT)
def test_what_is_right_elsewhere_too_is_right_here(text: str, schema: Schema) -> None:
    source = Source("example.policy", f"cluster policy example {{\n  {text}\n}}\n")
    assert [d.message for d in check_source(source, schema).diagnostics] == []


@pytest.mark.parametrize(("wish", "test"), TASKS, ids=[wish for wish, _ in TASKS])
def test_a_task_is_done_in_three_runs(wish: str, test: str, schema: Schema, tmp_path: Path) -> None:
    text = f'policy web in namespace "shop" {{\n  {wish}\n}}\n'
    for _ in range(RUNS - 1):
        found = errors(text, schema)
        if not found:
            break
        edit = edit_of(found[0])
        assert edit is not None, (text, found[0])
        text = edited(text, edit)
    assert errors(text, schema) == []
    (name,) = re.findall(r'(?:filter|limit|share|spread|score) "([^"]*)"', text)
    path = tmp_path / "web.policy"
    path.write_text(f'{text}\ntest "it" {{ {test.replace("X", name)} }}\n', encoding="utf-8")
    collection = collect([path], Validator(schema))
    (suite,) = collection.suites
    assert [d.message for d, _ in suite.errors] == [], text
    (result,) = Runner(collection, schema).run(suite, suite.tests)
    assert result.outcome == "passed", (text, result.diagnostics)

"""First tries: what people write before they have read the docs, and where the hints lead.

tests/golden/mended.yaml has mistakes of newcomers and of people who know Kubernetes YAML, Rego,
CEL, SQL, Python or Helm, each with the policy that it is after the edits of its hints.
tests/golden/first_tries.yaml has texts with a warning, or with a hint in words alone.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from grammar.meaning.schema import Schema
from grammar.tree.source import Source
from policies.validation import check_source
from tests.support.seeds import STEPS, edit_of, edited, errors

GOLDEN = Path(__file__).parents[1] / "golden"
MENDED: list[dict[str, str]] = yaml.safe_load((GOLDEN / "mended.yaml").read_text("utf-8"))
IN_WORDS: list[dict[str, str]] = yaml.safe_load((GOLDEN / "first_tries.yaml").read_text("utf-8"))


def whole(items: str) -> str:
    return f"cluster policy example {{\n  {items}\n}}\n"


@pytest.mark.parametrize("case", MENDED, ids=lambda c: c["text"])
def test_the_hints_lead_to_what_is_meant(case: dict[str, str], schema: Schema) -> None:
    text = whole(case["text"])
    for _ in range(STEPS):
        edits = (edit for d in errors(text, schema) if (edit := edit_of(d)) is not None)
        if (edit := next(edits, None)) is None:
            break
        text = edited(text, edit)
    assert text.split() == whole(case["mended"]).split()
    assert errors(text, schema) == []


@pytest.mark.parametrize("case", IN_WORDS, ids=lambda c: c["text"])
def test_the_help_says_what_is_meant(case: dict[str, str], schema: Schema) -> None:
    found = check_source(Source("example.policy", whole(case["text"])), schema).diagnostics
    said = [f"{d.hint or ''} {d.message}" for d in found]
    both = [*said, "\n".join(f"{d.message} ({d.hint})" for d in found)]
    assert any(re.search(case["help"], each) for each in both), said


@pytest.mark.parametrize(
    "text",
    [
        'filter "x" { require node.name like "gpu-%-a" }',
        'filter "x" { require node.name like "gpu" }',
        'filter "x" { require node.name like "gpu_1" }',
        'filter "x" { require node.name ilike "GPU-%" }',
        'filter "x" { require node.name =~ /^gpu/i }',
        'filter "x" { require node.name ~* "gpu" }',
        'filter "x" { require node.name.fullmatch("gpu") }',
        'filter "x" { require substr(node.name, 1, 3) == "gpu" }',
        'filter "x" { require now.weekday() >= 5 }',
        'filter "x" { require pod.priority + 1 between 1 and 3 }',
        'filter "x" { require node.zone is not "a" or "b" }',
        'filter "x" { require node.zone == "a" && "b" }',
        'filter "x" { require node has label gpu }',
        'filter "x" unless = pod.priority > 5 { require node.ready }',
        'filter "x" { require node.ready else pass }',
        'filter "x" { require now.hour between 22 and 6 }',
        'filter "x" { require now within "22:00" .. "06:00" }',
        'share "x" { of replicas on nodes where node.ready between 40% and 20% strict }',
        'limit "x" { sum peer.requests["cpu"] of pods where true per node < 10 strict }',
        'limit "x" { sum peer.requests["cpu"] of pods where true per node less than 10 strict }',
        'gang "x" { of replicas max 8 }',
        'gang "x" { of replicas exactly 8 }',
        'filter "x" { require re.match("gpu", node.name) }',
        'score "x" weight 10 { value pod.priority ^ 2 }',
        'filter "x" when node.ready { require !(node.zone == "a") if pod.priority > 5 }',
        'filter "x" when node.ready { require !(node.zone == "a") where pod.priority > 5 }',
        'filter "x" { require node.free_memory_percent > 10 }',
        'filter "x" { require used_memory > 10 }',
        'filter "x" { require node.used["memory"] > 10 }',
        'filter "x" { require node.cpu_utilization < 80 }',
        'filter "x" { deny if node.labels["a"] == "b" && node.labels["c"] == "d" }',
        'deny "x" { node.labels["a"] == "b" && node.labels["c"] == "d" }',
        'filter "x" unless pod.labels["a"] == "b" && pod.priority > 5 { require node.ready }',
        'filter "x" { require node.ready except pod.labels["a"] != "b" }',
        'filter "x" { require (node.zone == "a" when pod.priority > 5 else node.ready }',
        'filter "x" { require (node.ready message "a" else "b" }',
    ],
)
def test_no_hints_lead_to_what_is_not_meant(text: str, schema: Schema) -> None:
    said = whole(text)
    for _ in range(STEPS):
        edits = (edit for d in errors(said, schema) if (edit := edit_of(d)) is not None)
        if (edit := next(edits, None)) is None:
            break
        said = edited(said, edit)
    assert errors(said, schema)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ('deny "x" when pod.priority > 5 { node.zone == "a" }', "`require !(…)` around"),
        ('deny "x" when pod.priority > 5 { require node.zone == "a" }', "`require !(…)` around"),
        ('deny "x" when X { c }', "`require !(…)` around"),
        ('deny "x" { node.zone == "a" and so on }', "`require !(…)` around"),
        ('nodes "p" when X { protect c }', "write `filter`;"),
        ('nodes "p" when pod.priority > 5 { per zone at most 1 }', "write `filter`;"),
        ('nodes "p" if X { node.zone == "a"; node.ready }', "write `filter`;"),
    ],
)
def test_no_clause_is_written_that_was_not_read_to_its_end(
    text: str, hint: str, schema: Schema
) -> None:
    found = errors(whole(text), schema)[0]
    assert hint in (found.hint or "")
    edit = edit_of(found)
    assert edit is None or "{" not in edit.text

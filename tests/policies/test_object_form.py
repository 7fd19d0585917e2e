"""Policies as objects: what they say stays the same, and what an object cannot say is told."""

from __future__ import annotations

import pytest
import yaml

from grammar.syntax.parser import parse_file
from grammar.tree.clauses import Clause, Policy
from grammar.tree.source import Source
from policies.object_form import NoObjectError, as_object
from policies.validation import Validator
from server.view.policy_yaml import as_yaml
from tests.support.engines import SCHEMA

RULES = """  // Ready ones, and few in a zone.
  filter "ready" { require node.ready }

  limit "zone" {
    pods where peer.labels["app"] == "web"
    per domain node.zone at most 3
    strict
  }
"""


def policy_of(name: str, text: str) -> Policy:
    (file,) = Validator(SCHEMA).validate([Source(name, text)]).files
    errors = [found for found in file.diagnostics if found.severity == "error"]
    assert not errors, errors
    (checked,) = file.policies
    return checked.policy


@pytest.mark.parametrize(
    "selector",
    [
        'pod.labels["app"] == "web"',
        'pod.labels.app == "web" && pod.labels["tier"] in ["a", "b"] && "x" in pod.labels',
        '!("x" in pod.labels)',
    ],
)
@pytest.mark.parametrize(
    "settings",
    [
        "",
        "weight 200\n  ",
        "mode audit failure ignore\n  ",
        "repair at most 2 per minute\n  portable ",
    ],
)
def test_an_object_says_the_same(selector: str, settings: str) -> None:
    head = f'policy web in namespace "shop" {{\n  {settings}for pods where {selector}\n'
    text = f"{head}{RULES}}}\n"
    made = as_yaml(as_object(parsed(text), text))
    assert "    // Ready ones, and few in a zone.\n" in made
    read = policy_of("a.yaml", made)
    assert (read.address, read.cluster) == ("shop/web", False)
    assert clauses(read) == clauses(policy_of("a.policy", text))
    (spec,) = [each["spec"] for each in yaml.safe_load_all(made)]
    assert (spec.get("weight"), "repair" in spec) == (
        200 if "200" in settings else None,
        "repair" in settings,
    )


def parsed(text: str) -> Policy:
    file, _ = parse_file(Source("a.policy", text))
    return file.policies[0]


def clauses(policy: Policy) -> list[Clause]:
    return [each for each in policy.items if isinstance(each, Clause)]


def test_fields_and_lines() -> None:
    text = """cluster policy a {
  weight 300 mode audit failure ignore portable
  repair at most 2 per minute, 3 at once between "22:00" and "23:30"
  filter "f" { require node.ready }
}
"""
    made = as_object(parsed(text), text)
    assert made["kind"] == "ClusterPlacementPolicy"
    assert made["spec"] == {
        "weight": 300,
        "enforcementMode": "Audit",
        "failurePolicy": "Ignore",
        "portable": True,
        "repair": {"perMinute": 2, "atOnce": 3, "between": {"begins": "22:00", "ends": "23:30"}},
        "podSelector": {},
        "rules": 'filter "f" { require node.ready }\n',
    }


@pytest.mark.parametrize(
    ("head", "why"),
    [
        ('policy a { for pods where pod.namespace == "x"', "`a` is for all namespaces (write `in"),
        (
            'policy a in namespace "x" { for pods where pod.priority > 3',
            "`x/a` selects pods by more",
        ),
    ],
)
def test_what_no_object_says_is_told(head: str, why: str) -> None:
    text = f'{head} filter "f" {{ require node.ready }} }}'
    with pytest.raises(NoObjectError) as error:
        as_object(parsed(text), text)
    assert str(error.value).startswith(why)

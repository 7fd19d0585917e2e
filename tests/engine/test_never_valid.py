"""Policies that never had a valid version: a file, a manifest and an object have one rule."""

from __future__ import annotations

import pytest

from engine.enforced import EnforcedPolicies, enforced
from grammar.meaning.schema import load_schema
from grammar.tree.source import Source
from policies.admission import check_stored, refused
from policies.validation import Validator
from tests.support.builders import placement_policy, raw

SCHEMA = load_schema()
FOR = 'for pods where pod.labels["app"] == "a"\n'
TYPO, SYNTAX = 'require node.nam == "n1"', 'require node.name = "n1"'
WAIT, PASS = "the pods that it selects wait", "it is not enforced"


def of_text(text: str, name: str = "x.policy") -> EnforcedPolicies:
    return enforced(Validator(SCHEMA).validate([Source(name, text)]))


@pytest.mark.parametrize(
    ("inside", "wanted"),
    [
        (f'{FOR} filter "f" {{ {TYPO} }}', WAIT),
        (f'{FOR} filter "f" {{ {SYNTAX} }}', WAIT),
        (f'{FOR} use "nowhere"', WAIT),
        (f'let x = node.nam\n{FOR} filter "f" {{ require x == "n1" }}', WAIT),
        (f'mode audit\n{FOR} filter "f" {{ {TYPO} }}', PASS),
        (f'missing pass\n{FOR} filter "f" {{ {SYNTAX} }}', PASS),
        (f'{FOR} filter "f" {{ {TYPO} missing pass }}', PASS),
        (f'{FOR} score "s" weight 10 {{ value node.nam == "n1" }}', PASS),
        # Nobody knows the pods.
        (f'for pods where pod.labls["app"] == "a"\nfilter "f" {{ {TYPO} }}', PASS),
        (f'for pods whre pod.labels["app"] == "a"\nfilter "f" {{ {TYPO} }}', PASS),
        (f'filter "f" {{ {TYPO} }}', PASS),
    ],
)
def test_a_text_says_it_by_its_clauses(inside: str, wanted: str) -> None:
    found = of_text(f"policy a {{ {inside} }}")
    assert [(each.policy, each.instead) for each in found.broken] == [("a", wanted)]
    assert [p.address for p in found.registry.refusing] == (["a"] if wanted == WAIT else [])


def test_a_guardrail_of_all_pods_keeps_all_waiting() -> None:
    (program,) = of_text(f'cluster policy a {{ filter "f" {{ {SYNTAX} }} }}').registry.refusing
    assert program.select is None


def test_policies_beside_a_mistake_are_as_they_say() -> None:
    """A file whose text is not whole has no policy in force."""
    filters = 'filter "f" { require node.name == "n1" }', f'filter "f" {{ {SYNTAX} }}'
    score = 'score "s" weight 10 { value node.name == "n1" }'
    inside = zip("abc", (filters[0], score, filters[1]), strict=True)
    found = of_text("\n".join(f"policy {name} {{\n{FOR} {text}\n}}" for name, text in inside))
    assert [p.address for p in found.registry.refusing] == ["a", "c"]


def test_a_garbage_file_is_named() -> None:
    assert [(b.policy, b.instead) for b in of_text("polcy a {").broken] == [("x.policy", PASS)]


TARGET = {"nodeSelector": {"matchLabels": {"a": "b"}}, "placementPolicy": {"targetSize": "400%"}}


@pytest.mark.parametrize(
    "spec",
    [
        {"rules": f'filter "f" {{ {TYPO} }}'},
        {"rules": f'filter "f" {{ {SYNTAX} }}'},
        {"rules": 'score "s" weight 10 { value node.nam }'},
        {"rules": 'use "nowhere"'},
        {"rules": 'filter "f" { require node.ready }', "weight": 5},
        {"rules": 'filter "f" { require node.ready }', "weight": "heavy"},
        TARGET,
    ],
    ids=["typo", "syntax", "score", "use", "weight", "text", "target"],
)
@pytest.mark.parametrize(
    ("mode", "failure", "wanted"),
    [
        ("Strict", "Fail", WAIT),
        ("Strict", "Ignore", PASS),
        ("BestEffort", "Fail", PASS),
        ("Audit", "Fail", PASS),
    ],
)
def test_an_object_and_its_manifest_in_a_file_say_it_by_their_mode(
    spec: dict[str, object], mode: str, failure: str, wanted: str
) -> None:
    given = {"podSelector": {"matchLabels": {"app": "a"}}, **spec}
    given |= {"enforcementMode": mode, "failurePolicy": failure}
    made = raw(placement_policy(given))
    name = "placementpolicies/shop/web"
    stored = {name: check_stored(name, made, SCHEMA)}
    files = [each.checked.file for each in stored.values()]
    of_object = enforced(Validator(SCHEMA).validate([], files), stored)
    for found in (of_object, of_text(made.decode(), "x.yaml")):
        assert [each.instead for each in found.broken] == [wanted]
        selecting = [p.source.policy.selector is not None for p in found.registry.refusing]
        assert selecting == ([True] if wanted == WAIT else [])


IN = {"matchExpressions": [{"key": "app", "operator": "In", "values": []}]}
OF_MANY = {"matchLabels": {"app": "a" * 5000}}


@pytest.mark.parametrize(
    ("mode", "wanted"), [("Strict", [None]), ("BestEffort", []), ("Audit", [])]
)
@pytest.mark.parametrize(("selector", "why"), [(IN, ""), (IN, "no room"), (OF_MANY, "no room")])
def test_an_object_of_which_nobody_knows_the_pods_has_all_of_its_namespace_wait(
    selector: dict[str, object], why: str, mode: str, wanted: list[None]
) -> None:
    """The same holds for its manifest in a file."""
    rules = f'filter "f" {{ {TYPO} }}'
    given = {"podSelector": selector, "enforcementMode": mode, "rules": rules}
    made = raw(placement_policy(given))
    name = "placementpolicies/default/web"
    stored = {
        name: check_stored(name, refused(made, why, with_last=False) if why else made, SCHEMA)
    }
    files = [each.checked.file for each in stored.values()]
    found = [enforced(Validator(SCHEMA).validate([], files), stored)]
    if selector is IN:
        found.append(of_text(made.decode(), "x.yaml"))
    for each in found:
        programs = each.registry.refusing
        assert [(p.namespace, p.select) for p in programs] == [("default", only) for only in wanted]

"""Uses of policies, the annotations that they read, and words about objects."""

from __future__ import annotations

import math
import time

import pytest

from engine.clauses.programs import compile_policy
from engine.decision.registry import Registry
from engine.decision.verdict import Feasible
from engine.enforced import named_annotations, needs
from engine.engine import Engine
from grammar.meaning.schema import load_schema
from grammar.syntax.parser import parse_file
from grammar.tree.source import Source
from policies.validation import Validation, Validator, check_source
from tests.support.builders import node, pod, raw
from tests.support.engines import CODEC, SCHEMA, Fixed, Silent, snapshot_of


def validated(*texts: str) -> Validation:
    return Validator(SCHEMA).validate([Source(f"{i}.policy", t) for i, t in enumerate(texts)])


def codes(validation: Validation) -> list[str]:
    return [d.code for d, _ in validation.findings() if d.severity == "error"]


def test_the_used_clauses_decide_under_the_user_s_name() -> None:
    """Its own `let`s are its own, even where the names are the same; its `for` does not count."""
    validation = validated(
        'policy a in namespace "default" { let x = "a" use "b"'
        ' filter "one" { require node.zone == x } }',
        'policy b in namespace "default" { let x = "n1" for pods where false'
        ' filter "two" { require node.name == x } }',
    )
    assert codes(validation) == []
    snapshot = snapshot_of([node("n1", zone="a"), node("n2", zone="a"), node("n3", zone="b")])
    registry = Registry(compile_policy(c) for c in validation.policies)
    engine = Engine(registry, Fixed(snapshot), CODEC, Silent())
    verdicts = engine.filter(raw(pod("p")), list(snapshot.nodes), None, math.inf)
    said = [None if isinstance(v, Feasible) else (v.policy, v.clause) for v in verdicts]
    assert said == [None, ("default/a", "two"), ("default/a", "one")]


def test_what_cannot_be_used_is_a_mistake_of_the_user() -> None:
    """Unknown, broken, in a circle, or with a clause of the same name."""
    assert codes(validated('cluster policy a { use "nobody" }')) == ["P0117"]
    broken = validated('cluster policy a { use "b" }', "cluster policy b { let x = y }")
    assert codes(broken) == ["P0118", "P0101"]
    circle = validated('cluster policy a { use "b" }', 'cluster policy b { use "a" }')
    assert codes(circle) == ["P0110", "P0110"]
    same = validated(
        'cluster policy a { use "b" filter "f" { require 1 < pod.priority } }',
        'cluster policy b { filter "f" { require 1 < pod.priority } }',
    )
    assert codes(same) == ["P0205"]


def test_uses_do_not_multiply() -> None:
    """Thirty policies that each use the next one twice would be a billion."""
    chain = [f'cluster policy p{n} {{ use "p{n + 1}" use "p{n + 1}" }}' for n in range(30)]
    started = time.perf_counter()
    found = codes(validated(*chain, "cluster policy p30 {}"))
    assert time.perf_counter() - started < 5  # 0.1 on a quiet machine
    assert set(found) == {"P0121"}


def test_unknown_uses_cost_little() -> None:
    uses = " ".join(f'use "unknown{n}"' for n in range(3_000))
    assert codes(validated(f"cluster policy a {{ {uses} }}")) == ["P0117"] * 10


def test_the_library_can_be_used_by_its_name() -> None:
    """`library/NAME`, wherever Placet is installed."""
    assert codes(validated('cluster policy a { use "library/headroom" }')) == []
    # One's own policy may have the same name.
    assert codes(validated('cluster policy headroom { use "library/headroom" }')) == []


def test_policy_that_is_there_for_use_governs_nothing_itself() -> None:
    """It is no contender, whatever its weight, and costs nothing where nobody uses it."""
    text = 'policy a { weight 900 for pods where false limit "one" { per node at most 1 strict } }'
    used = 'policy b in namespace "default" { use "a" }'
    programs = [compile_policy(c) for c in validated(text, used).policies]
    assert [p.name for p in Registry(programs).programs] == ["b"]
    assert Registry(programs).counts
    assert not Registry(programs[:1]).counts


ENV = 'filter "e" { require pod.spec.containers[0].env[0].value == "a" }'


def test_a_policy_of_a_namespace_uses_nothing_that_reads_more() -> None:
    """Directly or not; a cluster policy may."""
    reads = f"policy reads {{ for pods where false {ENV} }}"
    between = 'policy between { for pods where false use "reads" }'
    rest = 'filter "f" { require node.ready }'
    for used in ("reads", "between"):
        user = f'policy a in namespace "default" {{ use "{used}" {rest} }}'
        found = validated(user, reads, between)
        assert codes(found) == ["P0120"]
        assert [p.policy.name for p in found.policies if p.broken] == ["a"]
    assert codes(validated(f'cluster policy a {{ use "reads" {rest} }}', reads)) == []


def test_a_policy_that_was_read_in_part_is_not_used() -> None:
    """Not all checks were made of it: its cost is unknown."""
    big = "lists.range(100000).all(x, lists.range(100000).all(y, x > y))"
    partial = f'policy b {{ for pods where false filter "x" {{ require {big} }} filter }}'
    found = validated('policy a in namespace "default" { use "b" }', partial)
    assert "P0118" in codes(found)
    assert all(p.broken for p in found.policies)


# ---- needs of policies: the annotations of other pods, and the namespaces, that a cache keeps


@pytest.mark.parametrize(
    ("rule", "key"),
    [
        ('node.pods.exists(p, p.annotations["x.io/y"] == "1")', "x.io/y"),
        ('node.pods.exists(p, "x.io/y" in p.annotations)', "x.io/y"),
        ('node.pods.exists(p, p.annotations[?"x.io/y"].hasValue())', "x.io/y"),
        ("node.pods.exists(p, p.annotations.owner == '1')", "owner"),
        ("node.pods.exists(p, has(p.annotations[key]))", "far.away/key"),
    ],
)
def test_every_way_to_name_one_is_seen(rule: str, key: str) -> None:
    text = f'policy a {{ let key = "far.away/key" filter "x" {{ require {rule} }} }}'
    file, _ = parse_file(Source("a.policy", text))
    assert key in named_annotations(file.policies)


def test_policies_that_read_none_name_none() -> None:
    file, _ = parse_file(Source("a.policy", 'policy a { filter "x" { require pod.name == "y" } }'))
    assert named_annotations(file.policies) == frozenset()


@pytest.mark.parametrize(
    ("rule", "wanted"),
    [
        ('namespaceObject.labels["team"] == "a"', True),
        ('node.pods.all(p, p.namespaceLabels["team"] == "a")', True),
        ("node.pods.all(p, p.?namespaceLabels.hasValue())", True),
        ('node.pods.all(p, p.namespace == "a")', False),
    ],
)
def test_namespaces_are_kept_for_rules_about_their_labels(rule: str, wanted: bool) -> None:
    file, _ = parse_file(Source("a.policy", f'policy a {{ filter "x" {{ require {rule} }} }}'))
    assert needs(file.policies).namespaces is wanted


# ---- diagnostics of objects: they speak of the fields that the author of an object wrote


RULE = (
    'limit "x" { pods where peer.labels["app"] == "db" && pod.spec.hostNetwork per node at most 0'
    " mutual strict }"
)
OBJECT = f"""\
apiVersion: placement-policy.scheduling.x-k8s.io/v1
kind: ClusterPlacementPolicy
metadata: {{name: web}}
spec:
  podSelector: {{matchLabels: {{app: web}}}}
  rules: |
    {RULE}
"""
POLICY = f'cluster policy web {{ for pods where pod.labels["app"] == "web" {RULE} }}\n'


@pytest.mark.parametrize(
    ("name", "text", "word"),
    [("web.yaml", OBJECT, "podSelector"), ("web.policy", POLICY, "for")],
    ids=["object", "text"],
)
def test_pods_are_selected_by_what_stands_in_the_file(name: str, text: str, word: str) -> None:
    (found,) = check_source(Source(name, text), load_schema()).diagnostics
    assert found.code == "P0131"
    assert f"it and the `{word}` of its policy can read" in (found.hint or "")


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (OBJECT.replace("rules: |\n    ", "rules: ").replace("x", "a: b"), "write `rules: |`"),
        (OBJECT.replace("\n    ", "\n  "), "write `rules: |`"),
        (OBJECT.replace("  rules", "\trules"), "write blanks in place of the tab"),
        (POLICY, "give the file the ending `.policy`"),
        ('test "it" {\n  node "a" {}\n}\n', "give the file the ending `.policy`"),
    ],
    ids=["rules without a bar", "rules not indented", "a tab", "the language", "a test"],
)
def test_a_file_that_is_no_manifest_says_what_it_is(text: str, hint: str) -> None:
    (found,) = check_source(Source("web.yaml", text), load_schema()).diagnostics
    assert hint in (found.hint or "")

"""Needs of policies: the annotations of other pods, and the namespaces, that a cache keeps."""

import pytest

from engine.enforced import named_annotations, needs
from grammar.syntax.parser import parse_file
from grammar.tree.source import Source


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

"""Diagnostics of objects: they speak of the fields that the author of an object wrote."""

from __future__ import annotations

import pytest

from grammar.meaning.schema import load_schema
from grammar.tree.source import Source
from policies.validation import check_source

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

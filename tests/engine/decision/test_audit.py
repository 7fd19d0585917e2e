"""Audit: what a policy would have said is reported, and changes no answer."""

from __future__ import annotations

import math

from tests.support.builders import node, pod, raw
from tests.support.engines import Silent, engine_of

POLICY = """
policy web {
  mode audit
  for pods where pod.labels["app"] == "web"
  filter "n1" { require node.name == "n1" }
  limit "one a node" { pods where peer.labels["app"] == "web" per node at most 1 strict }
}
"""


def test_filters_and_counts_are_reported_and_nothing_is_rejected() -> None:
    names, labels, observer = ["n1", "n2", "n3"], {"app": "web"}, Silent()
    there = [pod(f"on-{name}", on=name, labels=labels) for name in names[:2]]
    engine = engine_of(POLICY, [node(name) for name in names], there, observer=observer)

    decided = engine.filter(raw(pod("asked", labels=labels)), names, None, math.inf)

    assert not decided.codes.any()
    assert observer.heard == [
        ("would reject", "web", "n1", 2),
        ("would reject", "web", "one a node", 2),
    ]

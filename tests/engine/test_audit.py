"""Audit: what a policy would have said is reported, and changes no answer."""

from __future__ import annotations

import math

from engine.cache.cache import Cache
from engine.decision.registry import Registry
from engine.engine import Engine
from engine.objects.codec import ObjectCodec
from engine.program.policy_compiler import compile_policy
from grammar.schema import load_schema
from grammar.source import Source
from policies.validation import check_source
from tests.support import builders
from tests.support.engines import Known, Silent

POLICY = """
policy web {
  mode audit
  for pods where pod.labels["app"] == "web"
  filter "n1" { require node.name == "n1" }
  limit "one a node" { pods where peer.labels["app"] == "web" per node at most 1 strict }
}
"""


def test_filters_and_counts_are_reported_and_nothing_is_rejected() -> None:
    schema = load_schema()
    codec = ObjectCodec(schema)
    file = check_source(Source("web.policy", POLICY), schema)
    assert not file.diagnostics
    cache, observer = Cache(), Silent()
    for name in ("n1", "n2", "n3"):
        cache.put_node(codec.node(builders.raw(builders.node(name))))
    for name in ("n1", "n2"):
        there = builders.pod(f"on-{name}", on=name, labels={"app": "web"})
        cache.put_pod(codec.peer(builders.raw(there)))
    registry = Registry([compile_policy(checked) for checked in file.policies])
    engine = Engine(registry, Known(cache), codec, observer)

    asked = builders.raw(builders.pod("asked", labels={"app": "web"}))
    decided = engine.filter(asked, ["n1", "n2", "n3"], None, math.inf)

    assert not decided.codes.any()
    assert observer.heard == [
        ("would reject", "web", "n1", 2),
        ("would reject", "web", "one a node", 2),
    ]

"""An engine over a small cluster of the test's own, with policies in one text."""

from __future__ import annotations

from collections.abc import Iterable

from engine.cache.cache import Cache
from engine.decision.journal import Journal
from engine.decision.registry import Registry
from engine.engine import Engine
from engine.objects.codec import ObjectCodec
from engine.program.policy_compiler import compile_policy
from grammar.schema import load_schema
from grammar.source import Source
from policies.validation import check_source
from tests.support.builders import Object, raw
from tests.support.engines import Known, Silent

SCHEMA = load_schema()
CODEC = ObjectCodec(SCHEMA)


def registry_of(text: str) -> Registry:
    """The policies of a text without mistakes."""
    file = check_source(Source("p.policy", text), SCHEMA)
    assert not file.diagnostics, file.diagnostics
    return Registry(compile_policy(checked) for checked in file.policies)


def cache_of(nodes: Iterable[Object], pods: Iterable[Object] = ()) -> Cache:
    """A cache that knows these."""
    cache = Cache()
    for node in nodes:
        cache.put_node(CODEC.node(raw(node)))
    for pod in pods:
        cache.put_pod(CODEC.peer(raw(pod)))
    return cache


def engine_of(
    text: str,
    nodes: Iterable[Object],
    pods: Iterable[Object] = (),
    *,
    journal: Journal | None = None,
) -> Engine:
    view = Known(cache_of(nodes, pods))
    return Engine(registry_of(text), view, CODEC, Silent(), journal=journal)

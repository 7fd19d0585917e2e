"""A simulation from API objects and the text of policies."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence

from engine.cache.cache import Cache
from engine.decision.registry import Registry
from engine.engine import Engine
from engine.objects.codec import ObjectCodec
from engine.program.policy_compiler import compile_policy
from engine.simulation.cycle import Outcome, Pending, Simulation, waiting
from grammar.parser import parse_file
from grammar.policy_checker import Checked, check_policy
from grammar.schema import load_schema
from grammar.source import Source
from grammar.values.time import Timestamp
from tests.support.builders import CREATED, Object, raw
from tests.support.engines import Known, Silent

SCHEMA = load_schema()
CODEC = ObjectCodec(SCHEMA)
NOW = Timestamp.parse(CREATED)


def checked(text: str) -> list[Checked]:
    """Policies without mistakes."""
    file, found = parse_file(Source("p", text))
    assert not found
    policies = [check_policy(policy, SCHEMA) for policy in file.policies]
    assert not any(policy.broken for policy in policies), policies
    return policies


def simulation(
    nodes: Iterable[Object],
    pods: Iterable[Object],
    policies: str = "",
    *,
    there: Iterable[Object] = (),
    weight: int = 1,
) -> Simulation:
    """`pods` wait, whatever node they name; those that are `there` are left alone."""
    cache = Cache()
    for node in nodes:
        cache.put_node(CODEC.node(raw(node)))
    for pod in there:
        cache.put_pod(CODEC.peer(raw(pod)))
    registry = Registry([compile_policy(c) for c in checked(policies)])
    engine = Engine(registry, Known(cache), CODEC, Silent(), now=lambda: NOW)
    queue = [waiting(raw(_unplaced(pod)), CODEC) for pod in pods]
    return Simulation(engine, cache, queue, weight=weight)


def where(outcomes: Sequence[Outcome]) -> dict[str, str]:
    """The node of each pod by its name, empty for one that is pending."""
    return {o.pod.partition("/")[2]: "" if isinstance(o, Pending) else o.node for o in outcomes}


def _unplaced(pod: Object) -> Object:
    made = copy.deepcopy(pod)
    made["spec"].pop("nodeName", None)
    return made

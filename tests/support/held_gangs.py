"""A replica that holds one of three members of a gang, for 12 seconds."""

from __future__ import annotations

import math

from engine.decision.after import AfterDecision
from engine.decision.journal import Journal
from engine.engine import Engine
from engine.program.policy_time import DecisionTime
from grammar.values.time import Timestamp
from tests.support.builders import Object, node, pod, raw
from tests.support.engines import NOW, cache_of, engine_over, peer_of
from tests.support.view_server import Cluster, Parts

POLICY = """
policy gangs {
  for pods where "job" in pod.labels
  gang "together" { of pods by peer.labels["job"] at least 3 for at most 30s }
}
"""
PODS: list[Object] = [pod(f"a-{n}", "shop", cpu="1", labels={"job": "a"}) for n in range(3)]
NODES = [node(f"n{number}", cpu="2") for number in range(2)]


def held_gang() -> Parts:
    """The parts of its view."""
    journal, seconds = Journal(now=lambda: Timestamp.parse("2026-11-21T12:00:00Z")), [100.0]
    cache = cache_of(NODES)
    after = AfterDecision(journal=journal)
    time = DecisionTime(lambda: seconds[0], lambda: NOW)
    engine: Engine = engine_over(POLICY, cache, time=time, after=after)
    for each in PODS:
        cache.put_pod(peer_of(each), body=raw(each))
    names = [each["metadata"]["name"] for each in NODES]
    decided = engine.filter(raw(PODS[0]), names, None, math.inf)
    (place,) = [n for n, code in zip(names, decided.codes, strict=True) if not code]
    assert engine.admit(raw(PODS[0]), place, math.inf).waits
    cache.assume(peer_of(PODS[0]), place, math.inf)
    engine.gangs.hold(peer_of(PODS[0]).uid, lambda _: None)
    seconds[0] += 12
    known = {f"shop/{each['metadata']['name']}": raw(each) for each in PODS}
    return Parts(journal, cluster=Cluster(POLICY, engine, known))

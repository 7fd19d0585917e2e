"""First effects: what a start says of the clauses of policies, in one line each."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import pytest

from engine.cache.cache import Cache
from engine.cache.node_table import Snapshot
from engine.engine import Engine
from engine.errors import NotSyncedError
from engine.explanation.effects import EffectsOfPods
from engine.objects.codec import ObjectCodec
from engine.work import finished
from server.runtime.first_effects import FirstEffects
from tests.support import builders
from tests.support.engines import SCHEMA, Known, Silent, registry_of

pytestmark = pytest.mark.fake_clock
LOG = logging.getLogger("placet.test")
CODEC = ObjectCodec(SCHEMA)
POLICIES = """
policy web in namespace "shop" {
  for pods where pod.labels["app"] == "web"
  filter "ready" { require node.ready }
  filter "zone" { require node.zone == "nowhere" }
  score "one" weight 1 { value node.zone != "nowhere" }
}
policy half in namespace "ads" {
  filter "first" { require node.name == "n0" }
}
"""


class Bodies:
    """The pods of a cluster as the API server has them."""

    def __init__(self, bodies: Mapping[str, bytes]) -> None:
        self.bodies = bodies
        self.asked: list[str] = []

    async def effects(self, found: EffectsOfPods, namespace: str, name: str) -> None:
        key = f"{namespace}/{name}"
        self.asked.append(key)
        finished(found.ask(self.bodies[key]))


class Late:
    """A cluster that is known at the second look."""

    def __init__(self, pods: Cache) -> None:
        self.pods = pods
        self.asked = 0

    def snapshot(self) -> Snapshot:
        self.asked += 1
        if self.asked == 1:
            raise NotSyncedError("not synced")
        return self.pods.snapshot()


def cluster() -> tuple[Cache, dict[str, bytes]]:
    known, bodies = Cache(), {}
    for number in range(2):
        labels = {"topology.kubernetes.io/zone": f"z{number}"}
        known.put_node(CODEC.node(builders.raw(builders.node(f"n{number}", labels=labels))))
    for namespace, name in (("shop", "web-1"), ("ads", "ad-1"), ("kube-system", "dns-1")):
        made = builders.pod(name, namespace=namespace, labels={"app": "web"})
        bodies[f"{namespace}/{name}"] = builders.raw(made)
        known.put_pod(CODEC.peer(builders.raw(made)))
    return known, bodies


async def test_a_policy_with_a_clause_without_effect_has_a_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    known, bodies = cluster()
    engine = Engine(registry_of(POLICIES), Known(known), CODEC, Silent())
    asked = Bodies(bodies)
    with caplog.at_level(logging.INFO, "placet.test"):
        await FirstEffects(engine, Known(known), asked, LOG).tell()
    assert asked.asked == ["ads/ad-1", "shop/web-1"]
    (line,) = caplog.messages
    assert line == (
        'policy shop/web selects 1 of 2 pods: "ready" passes on every node, "zone" rejects all 2'
        ' nodes, "one" gives all nodes the same score'
    )


async def test_a_start_waits_for_the_cluster(caplog: pytest.LogCaptureFixture) -> None:
    known, bodies = cluster()
    engine = Engine(registry_of(POLICIES), Known(known), CODEC, Silent())

    late = Late(known)
    with caplog.at_level(logging.INFO, "placet.test"):
        await FirstEffects(engine, late, Bodies(bodies), LOG).tell()
    assert late.asked == 2
    assert len(caplog.messages) == 1

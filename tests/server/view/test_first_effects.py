"""First effects: what a start says of the clauses of policies, in one line each."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

import pytest

from engine.cache.cache import Cache
from engine.cache.node_table import Snapshot
from engine.decision.journal import Journal
from engine.engine import Engine
from engine.errors import NotSyncedError
from engine.objects.codec import ObjectCodec
from server.view.explaining import Explainer
from tests.support import builders
from tests.support.engines import SCHEMA, Known, Silent, registry_of
from tests.support.view_server import Cluster

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


class Whole:
    """A cluster that has the JSON of its pods."""

    def __init__(self, pods: Cache, bodies: Mapping[str, bytes]) -> None:
        self._pods = pods
        self._bodies = bodies
        self.asked: list[Collection[str]] = []

    def snapshot(self) -> Snapshot:
        return self._pods.snapshot()

    async def pods_named(self, keys: Collection[str]) -> Mapping[str, bytes]:
        self.asked.append(keys)
        return {key: self._bodies[key] for key in keys}


class Late(Whole):
    """A cluster that is known at the second look."""

    looks = 0

    def snapshot(self) -> Snapshot:
        self.looks += 1
        if self.looks == 1:
            raise NotSyncedError("not synced")
        return super().snapshot()


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


def explainer_over(engine: Engine, cluster: Whole) -> Explainer:
    return Explainer("r", engine, Journal(), cluster, SCHEMA, lambda: Cluster("").enforced)


async def test_a_policy_with_a_clause_without_effect_has_a_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    known, bodies = cluster()
    engine = Engine(registry_of(POLICIES), Known(known), CODEC, Silent())
    whole = Whole(known, bodies)
    with caplog.at_level(logging.INFO, "placet.test"):
        await explainer_over(engine, whole).tell_effects(LOG)
    assert whole.asked == [["ads/ad-1", "shop/web-1"]]
    (line,) = caplog.messages
    assert line == (
        'policy shop/web selects 1 of 2 pods: "ready" passes on every node, "zone" rejects all 2'
        ' nodes, "one" gives all nodes the same score'
    )


async def test_a_start_waits_for_the_cluster(caplog: pytest.LogCaptureFixture) -> None:
    known, bodies = cluster()
    engine = Engine(registry_of(POLICIES), Known(known), CODEC, Silent())

    late = Late(known, bodies)
    with caplog.at_level(logging.INFO, "placet.test"):
        await explainer_over(engine, late).tell_effects(LOG)
    assert late.looks == 2
    assert len(caplog.messages) == 1


class Unreadable(Whole):
    async def pods_named(self, keys: Collection[str]) -> Mapping[str, bytes]:
        raise NotSyncedError(f"{len(keys)} pods cannot be read")


async def test_pods_that_cannot_be_read_are_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    known, bodies = cluster()
    engine = Engine(registry_of(POLICIES), Known(known), CODEC, Silent())
    await explainer_over(engine, Unreadable(known, bodies)).tell_effects(LOG)
    assert caplog.messages == ["what each policy does is not told: 2 pods cannot be read"]

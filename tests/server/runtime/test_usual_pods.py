"""The usual pods of a server: those that have cards, the last ones of each clause."""

from __future__ import annotations

import asyncio
import math

import pytest

from engine.cache.cache import Cache
from engine.cards.fragmentation import CardShape
from engine.cards.node_cards import TAKEN, Taken, annotation
from engine.engine import Engine
from engine.objects.codec import ObjectCodec
from server.runtime.card_report import MOST_PODS, UsualPods
from tests.support import builders
from tests.support.engines import SCHEMA, Known, Silent, registry_of
from tests.support.fake_clock import settled

pytestmark = pytest.mark.fake_clock
CODEC = ObjectCodec(SCHEMA, (TAKEN, "milli"))
POLICY = """policy gpu {
  for pods where true
  cards "gpu" {
    on node 2 of {"milli": 1000}
    take {"milli": int(pod.annotations["milli"])}
    pick most fragmentation("gpu")
  }
  score "s" weight 1 { value fragmentation("gpu") range -1000 .. 1000 }
}"""


def cache(nodes: int = 1) -> Cache:
    found = Cache()
    for number in range(nodes):
        found.put_node(CODEC.node(builders.raw(builders.node(f"n{number}"))))
    return found


def put(
    known: Cache, name: str, milli: int, on: str = "n0", *cards: int, created: str = ""
) -> None:
    text = annotation({"gpu": Taken(cards or (0,), {"milli": milli})})
    made = builders.pod(name, cpu="2", on=on, annotations={TAKEN: text})
    if created:
        made["metadata"]["creationTimestamp"] = created
    known.put_pod(CODEC.peer(builders.raw(made)))


async def test_the_pods_that_have_cards() -> None:
    known = cache()
    put(known, "half", 500)
    put(known, "two", 1000, "n0", 0, 1)
    known.put_pod(CODEC.peer(builders.raw(builders.pod("plain", on="n0"))))
    engine = Engine(registry_of(POLICY), Known(known), CODEC, Silent())
    found = await UsualPods(engine.cards, known).shapes()
    assert sorted(found["gpu"]) == [CardShape(2000, 1, 500), CardShape(2000, 2, 1000)]


async def test_the_last_ones() -> None:
    known = cache()
    put(known, "old", 100, created="2020-01-01T00:00:00Z")
    for number in range(MOST_PODS):
        put(known, f"p{number}", 500, created="2026-01-01T00:00:00Z")
    engine = Engine(registry_of(POLICY), Known(known), CODEC, Silent())
    found = await UsualPods(engine.cards, known).shapes()
    assert set(found["gpu"]) == {CardShape(2000, 1, 500)}


async def test_scores_follow_them() -> None:
    """A half on a card in use fragments nothing; on an idle one it does, for who needs a whole."""
    known = cache(2)
    put(known, "half", 500, "n0", 0)
    put(known, "other", 1000, "n0", 1)
    engine = Engine(registry_of(POLICY), Known(known), CODEC, Silent())
    asked = builders.raw(builders.pod("new", cpu="1", annotations={"milli": "500"}))

    def scores() -> list[int]:
        found = engine.prioritize(asked, ["n0", "n1"], None, math.inf)
        assert found is not None
        return list(found)

    assert scores() == [5, 5]
    usual = UsualPods(engine.cards, known)
    task = asyncio.create_task(usual.follow())
    await settled()
    first = scores()
    assert first[0] > first[1]
    registry = engine.registry
    await asyncio.sleep(3599.0)
    # Nothing is worked out again for the same pods.
    assert engine.registry is registry
    assert scores() == first
    for number in range(9):
        put(known, f"elsewhere-{number}", 250, "n9", 0)
    await asyncio.sleep(0.5)
    assert scores() == first
    await asyncio.sleep(1.0)
    assert scores() != first, "it looks every ten minutes"
    task.cancel()

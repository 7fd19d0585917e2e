"""The report of cards, and the usual pods that fragmentation is measured by."""

from __future__ import annotations

import asyncio
import math

import pytest

from engine.cache.cache import Cache
from engine.cards.fragmentation import CardShape
from engine.cards.node_cards import TAKEN, Taken, annotation
from engine.engine import Engine
from engine.facts import PartOf
from engine.objects.request_pod import ObjectCodec
from server.capabilities.cards import _GUESSED, MOST_PODS, CardReport, UsualPods
from tests.support import builders
from tests.support.engines import SCHEMA, Known, Silent, given_cards, registry_of
from tests.support.fake_clock import settled

pytestmark = pytest.mark.fake_clock
CODEC = ObjectCodec(SCHEMA, (TAKEN, "milli"))
POLICY = """policy gpu {
  for pods where "milli" in pod.annotations
  cards "gpu" {
    on node int(node.labels["cards"]) of {"milli": 1000}
    take {"milli": int(pod.annotations["milli"])}
  }
}"""


def put(known: Cache, name: str, milli: int, on: str, *cards: int) -> None:
    annotations = {"milli": str(milli)}
    if cards:
        annotations[TAKEN] = annotation({"gpu": Taken(cards, {"milli": milli})})
    made = builders.pod(name, "ml", on=on, annotations=annotations)
    known.put_pod(CODEC.peer(builders.raw(made)))


def nodes(known: Cache, cards: int) -> None:
    for name, number in (("n1", cards), ("n2", 1), ("n3", 2)):
        made = builders.node(name, labels={"cards": str(number)})
        known.put_node(CODEC.node(builders.raw(made)))
    known.put_node(CODEC.node(builders.raw(builders.node("plain"))))


async def watched(engine: Engine, known: Cache, looks: int = 1) -> CardReport:
    """The report after some looks."""
    report = CardReport(given_cards(engine), known.snapshot)
    following = asyncio.create_task(report.follow())
    # It looks at once, and every 15 seconds.
    await asyncio.sleep(15.0 * looks - 1.0)
    following.cancel()
    return report


async def test_cards_in_use() -> None:
    known = Cache()
    nodes(known, cards=3)
    put(known, "full", 1000, "n1", 0)
    put(known, "part", 600, "n1", 1)
    put(known, "other", 500, "n2")
    engine = Engine(registry_of(POLICY), Known(known), CODEC, Silent())
    report = await watched(engine, known)
    cards = {"clause": "gpu", "idle": 3, "split": 2, "full": 1, "used milli": PartOf(2100, 6000)}
    bound = {"clause": "gpu", "pods": 1, "are": _GUESSED, "first": ["ml/other"]}
    assert report.facts() == {"cards": [cards], "pods on cards": [bound]}
    found = {(name, *labels): value for name, labels, value in report.samples()}
    assert found == {
        ("placet_cards", "gpu", "idle"): 3,
        ("placet_cards", "gpu", "split"): 2,
        ("placet_cards", "gpu", "full"): 1,
        ("placet_card_pods", "gpu", "placed"): 3,
        ("placet_card_pods", "gpu", "guessed"): 1,
        ("placet_card_pods", "gpu", "lost"): 0,
        ("placet_card_capacity", "gpu", "milli"): 6000,
        ("placet_card_used", "gpu", "milli"): 2100,
    }


async def test_pods_on_cards_that_are_gone() -> None:
    known = Cache()
    nodes(known, cards=2)
    for number in range(12):
        put(known, f"p{number:02}", 100, "n1", 1)
    engine = Engine(registry_of(POLICY), Known(known), CODEC, Silent())
    assert (await watched(engine, known)).facts()["pods on cards"] == []
    nodes(known, cards=1)
    (found,) = (await watched(engine, known, looks=3)).facts()["pods on cards"]
    assert found["pods"] == 12
    assert found["first"] == [f"ml/p{number:02}" for number in range(10)]


async def test_without_a_policy_with_cards_there_is_nothing() -> None:
    known = Cache()
    nodes(known, cards=1)
    plain = "policy p { for pods where true }"
    engine = Engine(registry_of(plain), Known(known), CODEC, Silent())
    assert (await watched(engine, known)).facts() == {"cards": [], "pods on cards": []}


# ---- the usual pods of a server: those that have cards, the last ones of each clause


USUAL_PODS_POLICY = """policy gpu {
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


def put_of_usual_pods(
    known: Cache, name: str, milli: int, on: str = "n0", *cards: int, created: str = ""
) -> None:
    text = annotation({"gpu": Taken(cards or (0,), {"milli": milli})})
    made = builders.pod(name, cpu="2", on=on, annotations={TAKEN: text})
    if created:
        made["metadata"]["creationTimestamp"] = created
    known.put_pod(CODEC.peer(builders.raw(made)))


async def test_the_pods_that_have_cards() -> None:
    known = cache()
    put_of_usual_pods(known, "half", 500)
    put_of_usual_pods(known, "two", 1000, "n0", 0, 1)
    known.put_pod(CODEC.peer(builders.raw(builders.pod("plain", on="n0"))))
    engine = Engine(registry_of(USUAL_PODS_POLICY), Known(known), CODEC, Silent())
    found = await UsualPods(given_cards(engine), known).shapes()
    assert sorted(found["gpu"]) == [CardShape(2000, 1, 500), CardShape(2000, 2, 1000)]


async def test_the_last_ones() -> None:
    known = cache()
    put_of_usual_pods(known, "old", 100, created="2020-01-01T00:00:00Z")
    for number in range(MOST_PODS):
        put_of_usual_pods(known, f"p{number}", 500, created="2026-01-01T00:00:00Z")
    engine = Engine(registry_of(USUAL_PODS_POLICY), Known(known), CODEC, Silent())
    found = await UsualPods(given_cards(engine), known).shapes()
    assert set(found["gpu"]) == {CardShape(2000, 1, 500)}


async def test_scores_follow_them() -> None:
    """A half on a card in use fragments nothing; on an idle one it does, for who needs a whole."""
    known = cache(2)
    put_of_usual_pods(known, "half", 500, "n0", 0)
    put_of_usual_pods(known, "other", 1000, "n0", 1)
    engine = Engine(registry_of(USUAL_PODS_POLICY), Known(known), CODEC, Silent())
    asked = builders.raw(builders.pod("new", cpu="1", annotations={"milli": "500"}))

    def scores() -> list[int]:
        found = engine.prioritize(asked, ["n0", "n1"], None, math.inf)
        assert found is not None
        return list(found)

    assert scores() == [5, 5]
    usual = UsualPods(given_cards(engine), known)
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
        put_of_usual_pods(known, f"elsewhere-{number}", 250, "n9", 0)
    await asyncio.sleep(0.5)
    assert scores() == first
    await asyncio.sleep(1.0)
    assert scores() != first, "it looks every ten minutes"
    task.cancel()

"""The report of cards: how many are in use, and pods that are not on the cards of their node."""

from __future__ import annotations

import asyncio

import pytest

from engine.cache.cache import Cache
from engine.cards.node_cards import TAKEN, Taken, annotation
from engine.engine import Engine
from engine.objects.codec import ObjectCodec
from server.answers.view_answers import AmountOfCards, CardsOfClause
from server.runtime.card_report import CardReport
from tests.support import builders
from tests.support.engines import SCHEMA, Known, Silent, registry_of

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
    report = CardReport(engine.cards, known.snapshot)
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
    assert (await watched(engine, known)).status() == {
        "gpu": CardsOfClause(
            idle=3,
            split=2,
            full=1,
            amounts={"milli": AmountOfCards(6000, 2100)},
            placed=3,
            guessed=1,
            guessedPods=["ml/other"],
            lost=0,
            lostPods=[],
        )
    }


async def test_pods_on_cards_that_are_gone() -> None:
    known = Cache()
    nodes(known, cards=2)
    for number in range(12):
        put(known, f"p{number:02}", 100, "n1", 1)
    engine = Engine(registry_of(POLICY), Known(known), CODEC, Silent())
    assert (await watched(engine, known)).status()["gpu"].lost == 0
    nodes(known, cards=1)
    found = (await watched(engine, known, looks=3)).status()["gpu"]
    assert found.lost == 12
    assert found.lostPods == [f"ml/p{number:02}" for number in range(10)]


async def test_without_a_policy_with_cards_there_is_nothing() -> None:
    known = Cache()
    nodes(known, cards=1)
    plain = "policy p { for pods where true }"
    engine = Engine(registry_of(plain), Known(known), CODEC, Silent())
    assert (await watched(engine, known)).status() == {}

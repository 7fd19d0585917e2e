"""Cards: what a server looks up of cards: how many are in use, and which pods are usual.

CardReport and UsualPods belong to a server with a cluster and live as long as it does.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from engine.cache.cache import Cache
from engine.cache.node_table import Snapshot
from engine.cards.fragmentation import CardShape
from engine.cards.node_cards import TAKEN, Card
from engine.facts import Facts, PartOf, Row
from engine.given_cards import CardUse, GivenCards, taken_shapes
from engine.objects.peer import key_of
from engine.work import shared_pause
from server.capabilities.capability import Capability, Opened, Site
from server.metrics.families import Sample

_SECONDS = 15.0
# The nodes between two turns.
_NODES_OF_TURN = 128
# The pods that are named.
_MOST_NAMED = 10
_STATES = ("idle", "split", "full")
_LOST = "on cards that their node does not have"
_GUESSED = "bound by others, without a number of their cards"
# The pods by which fragmentation is measured, of each clause: the last ones by their creation.
MOST_PODS = 10_000
_USUAL_SECONDS = 600.0
# Until a policy has cards.
_IDLE_SECONDS = 5.0
# The pods between two turns.
_PODS_OF_TURN = 2_000


def _open(site: Site) -> Opened:
    if (led := site.led) is None or (cards := site.engine.part(GivenCards)) is None:
        return Opened()
    report = CardReport(cards, led.snapshot)
    return Opened(
        facts=report.facts,
        samples=report.samples,
        work={"usual-pods": UsualPods(cards, led.cache).follow, "cards": report.follow},
    )


CARDS = Capability(
    name="cards",
    open=_open,
    keys={TAKEN: "an annotation of pods"},
    metrics={
        "placet_cards{clause,state}": (
            "[ALPHA] Cards: idle, in use in part (split), or with an amount used up (full)."
        ),
        "placet_card_pods{clause,state}": (
            "[ALPHA] Pods on cards (placed); of these, bound by others without a number (guessed), "
            "and on cards that their node does not have (lost)."
        ),
        "placet_card_capacity{clause,amount}": "[ALPHA] What all cards have.",
        "placet_card_used{clause,amount}": "[ALPHA] What pods take of cards.",
    },
)


@dataclass(slots=True)
class _CardSums:
    """The cards of one clause in the cluster by state and amount, and the pods in a report."""

    states: Counter[str] = field(default_factory=Counter)
    capacity: Counter[str] = field(default_factory=Counter)
    used: Counter[str] = field(default_factory=Counter)
    placed: int = 0
    guessed: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)

    def add(self, use: CardUse) -> None:
        for card in use.cards:
            self.states[_state(card)] += 1
            self.capacity.update(card.capacity)
            self.used.update({name: card.used.get(name, 0) for name in card.capacity})
        self.placed += use.placed
        self.guessed += map(key_of, use.guessed)
        self.lost += map(key_of, use.lost)


def _state(card: Card) -> str:
    """`idle` without pods, `full` where an amount is used up, else `split`."""
    if not card.pods:
        return "idle"
    free = card.free
    return "full" if any(has > 0 >= free[name] for name, has in card.capacity.items()) else "split"


@dataclass(slots=True)
class CardReport:
    """Looks at all cards every 15 seconds while a policy has some. On one event loop."""

    cards: GivenCards
    snapshot: Callable[[], Snapshot]
    _found: Mapping[str, _CardSums] = field(default_factory=dict)

    async def follow(self) -> None:
        """Looks until it is cancelled."""
        while True:
            self._found = await self._look() if self.cards.are_used else {}
            await shared_pause(_SECONDS)

    def facts(self) -> Facts:
        """What was seen last: a row for the cards of each clause, and for pods on wrong ones."""
        wrong: list[Row] = [
            {"clause": clause, "pods": len(pods), "are": are, "first": sorted(pods)[:_MOST_NAMED]}
            for clause, sums in sorted(self._found.items())
            for are, pods in ((_LOST, sums.lost), (_GUESSED, sums.guessed))
            if pods
        ]
        cards: list[Row] = [
            {
                "clause": clause,
                **{state: sums.states[state] for state in _STATES},
                **{f"used {a}": PartOf(sums.used[a], has) for a, has in sums.capacity.items()},
            }
            for clause, sums in sorted(self._found.items())
        ]
        return {"cards": cards, "pods on cards": wrong}

    def samples(self) -> Iterator[Sample]:
        for clause, sums in self._found.items():
            for state in _STATES:
                yield "placet_cards", [clause, state], sums.states[state]
            pods = {"placed": sums.placed, "guessed": len(sums.guessed), "lost": len(sums.lost)}
            for state, number in pods.items():
                yield "placet_card_pods", [clause, state], number
            for amount, capacity in sums.capacity.items():
                yield "placet_card_capacity", [clause, amount], capacity
                yield "placet_card_used", [clause, amount], sums.used[amount]

    async def _look(self) -> Mapping[str, _CardSums]:
        found: dict[str, _CardSums] = {}
        views = [view for view in self.snapshot().table.nodes if view is not None]
        for begin in range(0, len(views), _NODES_OF_TURN):
            for view in views[begin : begin + _NODES_OF_TURN]:
                for clause, use in self.cards.uses(view).items():
                    found.setdefault(clause, _CardSums()).add(use)
            await asyncio.sleep(0)
        return found


@dataclass(frozen=True, slots=True)
class UsualPods:
    """The pods by which the fragmentation of cards is measured, taken anew now and then.

    They stay the same in between, because each change makes all scores be worked out again. On one
    event loop.
    """

    cards: GivenCards
    pods: Cache

    async def follow(self) -> None:
        """Looks at the pods every ten minutes while a policy has cards."""
        while True:
            if self.cards.are_used:
                self.cards.measure_by(await self.shapes())
                await asyncio.sleep(_USUAL_SECONDS)
            else:
                await asyncio.sleep(_IDLE_SECONDS)

    async def shapes(self) -> dict[str, list[CardShape]]:
        """What the last pods of each clause took."""
        found: dict[str, deque[tuple[int, CardShape]]] = {}
        for number, pod in enumerate(self.pods.every()):
            if number % _PODS_OF_TURN == _PODS_OF_TURN - 1:
                await asyncio.sleep(0)
            created = pod.created.nanos if pod.created is not None else 0
            for clause, shape in taken_shapes(pod):
                found.setdefault(clause, deque()).append((created, shape))
        return {
            clause: [shape for _, shape in sorted(its)[-MOST_PODS:]]
            for clause, its in found.items()
        }

"""Card report: how many cards are in use, pods on the wrong cards, and which pods are usual.

CardReport and UsualPods belong to a server with a cluster and live as long as it does.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from engine.cache.cache import Cache
from engine.cache.node_table import Snapshot
from engine.cards.fragmentation import CardShape
from engine.cards.node_cards import Card
from engine.decision.card_questions import CardQuestions, CardUse, taken_shapes
from engine.objects.peer import key_of
from engine.work import shared_pause
from server.answers import AmountOfCards, CardsOfClause

_SECONDS = 15.0
# The nodes between two turns.
_NODES_OF_TURN = 128
# The pods that are named.
_MOST_NAMED = 10
# The pods by which fragmentation is measured, of each clause: the last ones by their creation.
MOST_PODS = 10_000
_USUAL_SECONDS = 600.0
# Until a policy has cards.
_IDLE_SECONDS = 5.0
# The pods between two turns.
_PODS_OF_TURN = 2_000


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

    def status(self) -> CardsOfClause:
        idle, split, full = (self.states[name] for name in ("idle", "split", "full"))
        amounts = {name: AmountOfCards(has, self.used[name]) for name, has in self.capacity.items()}
        guessed, lost = sorted(self.guessed)[:_MOST_NAMED], sorted(self.lost)[:_MOST_NAMED]
        pods = self.placed, len(self.guessed), guessed, len(self.lost), lost
        return CardsOfClause(idle, split, full, amounts, *pods)


def _state(card: Card) -> str:
    """`idle` without pods, `full` where an amount is used up, else `split`."""
    if not card.pods:
        return "idle"
    free = card.free
    return "full" if any(has > 0 >= free[name] for name, has in card.capacity.items()) else "split"


class CardReport:
    """Looks at all cards every 15 seconds while a policy has some. On one event loop."""

    def __init__(self, cards: CardQuestions, snapshot: Callable[[], Snapshot]) -> None:
        self._cards = cards
        self._snapshot = snapshot
        self._found: Mapping[str, _CardSums] = {}

    async def follow(self) -> None:
        """Looks until it is cancelled."""
        while True:
            self._found = await self._look() if self._cards.are_used else {}
            await shared_pause(_SECONDS)

    def status(self) -> Mapping[str, CardsOfClause]:
        """What was seen last, by the names of clauses."""
        return {clause: sums.status() for clause, sums in self._found.items()}

    async def _look(self) -> Mapping[str, _CardSums]:
        found: dict[str, _CardSums] = {}
        views = [view for view in self._snapshot().table.nodes if view is not None]
        for begin in range(0, len(views), _NODES_OF_TURN):
            for uses in self._cards.uses(views[begin : begin + _NODES_OF_TURN]):
                for clause, use in uses.items():
                    found.setdefault(clause, _CardSums()).add(use)
            await asyncio.sleep(0)
        return found


class UsualPods:
    """The pods by which the fragmentation of cards is measured, taken anew now and then.

    They stay the same in between, because each change makes all scores be worked out again. On one
    event loop.
    """

    def __init__(self, cards: CardQuestions, pods: Cache) -> None:
        self._cards = cards
        self._pods = pods

    async def follow(self) -> None:
        """Looks at the pods every ten minutes while a policy has cards."""
        while True:
            if self._cards.are_used:
                self._cards.measure_by(await self.shapes())
                await asyncio.sleep(_USUAL_SECONDS)
            else:
                await asyncio.sleep(_IDLE_SECONDS)

    async def shapes(self) -> dict[str, list[CardShape]]:
        """What the last pods of each clause took."""
        found: dict[str, deque[tuple[int, CardShape]]] = {}
        for number, pod in enumerate(self._pods.every()):
            if number % _PODS_OF_TURN == _PODS_OF_TURN - 1:
                await asyncio.sleep(0)
            created = pod.created.nanos if pod.created is not None else 0
            for clause, shape in taken_shapes(pod):
                found.setdefault(clause, deque()).append((created, shape))
        return {
            clause: [shape for _, shape in sorted(its)[-MOST_PODS:]]
            for clause, its in found.items()
        }

"""UsualPods: the pods by which the fragmentation of cards is measured, taken anew now and then.

They stay the same in between, because each change makes all scores be worked out again. It belongs
to a server with a cluster and lives as long as it does.
"""

from __future__ import annotations

import asyncio
from collections import deque

from engine.cache.cache import Cache
from engine.engine import Engine
from engine.program.card_choice import taken_shapes
from grammar.values.cards import CardShape

# The pods that count of each clause: the last ones by the time of their creation.
MOST_PODS = 10_000
_SECONDS = 600.0
# Until a policy has cards.
_IDLE_SECONDS = 5.0
# The pods between two turns.
_TURN = 2_000


class UsualPods:
    """Tells the engine which pods are usual. On one event loop."""

    def __init__(self, engine: Engine, pods: Cache) -> None:
        self._engine = engine
        self._pods = pods

    async def follow(self) -> None:
        """Looks at the pods every ten minutes while a policy has cards."""
        while True:
            if self._engine.registry.cards:
                self._engine.measure_by(await self.shapes())
                await asyncio.sleep(_SECONDS)
            else:
                await asyncio.sleep(_IDLE_SECONDS)

    async def shapes(self) -> dict[str, list[CardShape]]:
        """What the last pods of each clause took."""
        found: dict[str, deque[tuple[int, CardShape]]] = {}
        for number, pod in enumerate(self._pods.every()):
            if number % _TURN == _TURN - 1:
                await asyncio.sleep(0)
            created = pod.created.nanos if pod.created is not None else 0
            for clause, shape in taken_shapes(pod):
                found.setdefault(clause, deque()).append((created, shape))
        return {
            clause: [shape for _, shape in sorted(its)[-MOST_PODS:]]
            for clause, its in found.items()
        }

"""HeldCalls: how many calls of bind may wait, and how many do.

Its numbers are read by the settings of a server, which import nothing of the engine's core.
"""

from __future__ import annotations

from collections import Counter

# The most bind calls that are held, and the share of one namespace.
MOST_HELD, MOST_HELD_OF_NAMESPACE = 1000, 500


class HeldCalls:
    """Held calls: the number of bind calls that wait, or will wait, by namespace.

    They live as long as the engine. A call may wait for a condition, or for a part of decisions.
    """

    def __init__(self) -> None:
        self._held: Counter[str] = Counter()

    def has_room(self, namespace: str, number: int = 1) -> bool:
        own = self._held[namespace] + number
        return self._held.total() + number <= MOST_HELD and own <= MOST_HELD_OF_NAMESPACE

    def add(self, namespace: str, by: int) -> None:
        self._held[namespace] += by
        if not self._held[namespace]:
            del self._held[namespace]

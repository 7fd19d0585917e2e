"""HeldCalls: how many calls of bind may wait, and how many do.

They belong to Gangs and live as long as they do. What waits for a condition counts, too.
"""

from __future__ import annotations

from collections import Counter

# The most bind calls that are held, and the share of one namespace.
MOST_HELD, MOST_HELD_OF_NAMESPACE = 1000, 500


class HeldCalls:
    """The number of bind calls that are held or will be, by namespace."""

    def __init__(self) -> None:
        self._held: Counter[str] = Counter()

    def has_room(self, namespace: str, number: int = 1) -> bool:
        own = self._held[namespace] + number
        return self._held.total() + number <= MOST_HELD and own <= MOST_HELD_OF_NAMESPACE

    def add(self, namespace: str, by: int) -> None:
        self._held[namespace] += by
        if not self._held[namespace]:
            del self._held[namespace]

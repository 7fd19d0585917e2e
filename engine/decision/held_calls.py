"""HeldCalls: how many calls of bind may wait, and how many do.

Its numbers are read by the settings of a server, which import nothing of the engine's core.
"""

from __future__ import annotations

from engine.fairness import FairShares

# The most bind calls that are held, and those of a namespace while no other one holds any.
MOST_HELD = 1000
MOST_HELD_OF_NAMESPACE = MOST_HELD // 2


class HeldCalls(FairShares):
    """Held calls: the number of bind calls that wait, or will wait, by namespace.

    They live as long as the engine. A call may wait for a condition, or for a part of decisions.
    """

    def __init__(self) -> None:
        super().__init__(MOST_HELD)

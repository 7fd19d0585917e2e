"""Dice: what chance decides in a world, from its name and nothing else."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Dice(random.Random):
    """A generator of random choices; two of one seed choose the same on every machine."""

    def chance(self, part: float) -> bool:
        """Whether something happens that happens in this part of all cases."""
        return self.random() < part

    def some(self, items: Sequence[T], least: int, most: int) -> list[T]:
        """So many of the items, each at most once, in any order."""
        return self.sample(items, min(len(items), self.randint(least, most)))

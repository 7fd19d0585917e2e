"""Work: what is worked out in portions, between which others have their turn.

A generator yields after each portion and returns the result. Who runs it decides how long it rests.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")
Work = Generator[None, None, T]


def finished(work: Work[T]) -> T:
    """The result of work beside which nobody else waits."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            found: T = end.value
            return found

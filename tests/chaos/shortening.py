"""Shortening: a schedule that still fails, with fewer actions (delta debugging).

Each try is a run of a minute or more, and a fault need not show each time. So the number of tries
is limited, and what is left is a schedule that has failed, but not the shortest one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from tests.chaos.schedule import Action, Schedule

T = TypeVar("T")
MOST_TRIES = 16
_LAST_PHASES = 2


def shortened(
    schedule: Schedule, fails: Callable[[Schedule], bool], tries: int = MOST_TRIES
) -> Schedule:
    """A part of a schedule that fails, after at most so many tries; the phases first."""

    def fails_yet(tried: Schedule) -> bool:
        nonlocal tries
        tries -= 1
        return tries >= 0 and bool(tried) and fails(tried)

    # What matters has mostly happened in the last phase, with which a finding ends a run.
    for last in range(1, len(schedule)):
        if last <= _LAST_PHASES and fails_yet(schedule[-last:]):
            schedule = schedule[-last:]
            break
    schedule = _fewer(schedule, fails_yet)
    actions = [(number, each) for number, phase in enumerate(schedule) for each in phase]
    left = _fewer(actions, lambda tried: fails_yet(_phases(tried)))
    return _phases(left)


def _phases(actions: Sequence[tuple[int, Action]]) -> Schedule:
    numbers = sorted({number for number, _ in actions})
    return [[each for at, each in actions if at == number] for number in numbers]


def _fewer(items: Sequence[T], fails: Callable[[Sequence[T]], bool]) -> Sequence[T]:
    """Some of the items, without parts that are not needed: first halves, then smaller ones."""
    parts = 2
    while len(items) > 1:
        size = -(-len(items) // parts)
        for start in range(0, len(items), size):
            rest = [*items[:start], *items[start + size :]]
            if fails(rest):
                items, parts = rest, max(2, parts - 1)
                break
        else:
            if size == 1:
                break
            parts = min(len(items), 2 * parts)
    return items

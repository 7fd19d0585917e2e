"""What another set of policies would change: pods that move, and those placed or pending now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from engine.simulation.outcome import Outcome, Pending, Placed
from engine.simulation.result import Result

Kind = Literal["now pending", "now placed", "moved"]
KINDS: tuple[Kind, ...] = ("now pending", "now placed", "moved")


@dataclass(frozen=True, slots=True)
class Change:
    """One pod, and what became of it before and after."""

    kind: Kind
    old: Outcome
    new: Outcome

    @property
    def pod(self) -> str:
        return self.new.pod


def changes(old: Result, new: Result) -> Sequence[Change]:
    """Of the same pods in the same order. Reasons and policies may change without a word here."""
    pairs = zip(old.outcomes, new.outcomes, strict=True)
    return [Change(kind, a, b) for a, b in pairs if (kind := _kind(a, b)) is not None]


def _kind(old: Outcome, new: Outcome) -> Kind | None:
    match old, new:
        case Placed(), Pending():
            return "now pending"
        case Pending(), Placed():
            return "now placed"
        case Placed(node=before), Placed(node=after) if before != after:
            return "moved"
        case _:
            return None

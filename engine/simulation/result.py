"""What became of all pods: how many are placed, why others are not, and what is allocated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from engine.simulation.cycle import Outcome, Pending, Placed, Simulation


@dataclass(frozen=True, slots=True)
class Allocation:
    """Of one resource of all nodes, in thousandths of a cpu or in ones.

    `course` is what was requested before the first pod, and after each.
    """

    allocatable: int
    course: Sequence[int]

    @property
    def requested(self) -> int:
        return self.course[-1]

    @property
    def part(self) -> float:
        return self.requested / self.allocatable


@dataclass(frozen=True, slots=True)
class Because:
    """A reason, how many pods are pending for it among others, and on how many nodes it held."""

    reason: str
    pods: int
    fewest: int
    most: int


@dataclass(frozen=True, slots=True)
class Result:
    """The outcomes in the order of the pods, and each resource that some node has."""

    nodes: int
    outcomes: Sequence[Outcome]
    allocation: Mapping[str, Allocation]

    @property
    def placed(self) -> Sequence[Placed]:
        return [o for o in self.outcomes if isinstance(o, Placed)]

    @property
    def pending(self) -> Sequence[Pending]:
        return [o for o in self.outcomes if isinstance(o, Pending)]

    def because(self) -> Sequence[Because]:
        """Why pods are pending: the reason of most pods first, then that of most nodes."""
        nodes: dict[str, list[int]] = {}
        for outcome in self.pending:
            for reason, count in outcome.reasons.items():
                nodes.setdefault(reason, []).append(count)
        found = (Because(r, len(on), min(on), max(on)) for r, on in nodes.items())
        return sorted(found, key=lambda b: (-b.pods, -b.most, b.reason))

    def policies(self) -> Mapping[str, tuple[int, int]]:
        """How many of the pods that a policy governs are placed, and pending; "" is none."""
        placed = Counter(o.policy for o in self.placed)
        pending = Counter(o.policy for o in self.pending)
        return {p: (placed[p], pending[p]) for p in sorted(placed | pending, key=_none_last)}


def result(simulation: Simulation, heard: Callable[[int], None]) -> Result:
    """Runs it to its end; `heard` is told after each pod how many there have been."""
    resources, outcomes = simulation.resources, list[Outcome]()
    courses = {resource: [resources.requested(resource)] for resource in resources.resources}
    for outcome in simulation.run():
        outcomes.append(outcome)
        for resource, course in courses.items():
            course.append(
                resources.requested(resource) if isinstance(outcome, Placed) else course[-1]
            )
        heard(len(outcomes))
    allocation = {r: Allocation(resources.allocatable(r), course) for r, course in courses.items()}
    return Result(len(simulation.names), outcomes, allocation)


def _none_last(policy: str) -> tuple[bool, str]:
    return (not policy, policy)


# ---- What another set of policies would change: pods that move, and those placed or pending now.

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

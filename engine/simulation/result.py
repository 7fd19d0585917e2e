"""Result: the outcomes of a simulation, the reasons of pending pods, and the allocation."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from engine.simulation.cycle import Evicted, Eviction, Outcome, Pending, Placed, Simulation
from engine.work import Work, finished


@dataclass(frozen=True, slots=True)
class Allocation:
    """The allocation of one resource on all nodes, in thousandths of a cpu or in ones.

    `course` is the requested amount before the first pod and after each pod. `arrived` adds what
    the pending ones request.
    """

    allocatable: int
    course: Sequence[int]
    arrived: Sequence[int]

    @property
    def requested(self) -> int:
        return self.course[-1]

    @property
    def part(self) -> float:
        return self.requested / self.allocatable


class PendingBecause(msgspec.Struct, frozen=True):
    """A reason of pending pods, and the fewest and the most nodes that it holds on for a pod."""

    reason: str
    pods: int
    fewestNodes: int
    mostNodes: int


@dataclass(frozen=True, slots=True)
class SimulationResult:
    """The outcomes in the order of the pods, and each resource that some node has.

    `preemptors` are the placed pods for which others were evicted, in order. They may have been
    evicted themselves since.
    """

    nodes: int
    outcomes: Sequence[Outcome]
    allocation: Mapping[str, Allocation]
    preemptors: Sequence[Placed] = ()

    @property
    def placed(self) -> Sequence[Placed]:
        return [o for o in self.outcomes if isinstance(o, Placed)]

    @property
    def evicted(self) -> Sequence[Evicted]:
        """Of the pods that were scheduled: others may have been evicted too."""
        return [o for o in self.outcomes if isinstance(o, Evicted)]

    @property
    def evictions(self) -> Sequence[tuple[Placed, Eviction]]:
        """Each eviction with the pod that it was for, in order."""
        return [(placed, each) for placed in self.preemptors for each in placed.evictions]

    @property
    def pending(self) -> Sequence[Pending]:
        return [o for o in self.outcomes if isinstance(o, Pending)]

    def pending_reasons(self) -> Sequence[PendingBecause]:
        """The reasons of pending pods, by the number of pods, then of nodes, largest first."""
        nodes: dict[str, list[int]] = {}
        for outcome in self.pending:
            for reason, count in outcome.reasons.items():
                nodes.setdefault(reason, []).append(count)
        found = (PendingBecause(r, len(on), min(on), max(on)) for r, on in nodes.items())
        return sorted(found, key=lambda b: (-b.pods, -b.mostNodes, b.reason))

    def by_arrivals(self, resource: str) -> Sequence[Mapping[str, float]]:
        """The allocated parts of all resources when 0 %, 1 %, 2 % and so on of one have arrived.

        Percent of what the nodes have: the last pod counts that keeps the arrived amount within it.
        The last entry is that of all pods, at a percentage that is rounded.
        """
        measure = self.allocation[resource]
        hundredth = measure.allocatable / 100
        steps = [
            bisect_right(measure.arrived, percent * hundredth) - 1
            for percent in range(round(measure.arrived[-1] / hundredth))
        ]
        ends = [max(step, 0) for step in steps] + [len(measure.course) - 1]
        return [
            {r: a.course[end] / a.allocatable for r, a in self.allocation.items()} for end in ends
        ]

    def policies(self) -> Mapping[str, tuple[int, int]]:
        """The numbers of placed and pending pods of each policy; "" is no policy."""
        placed = Counter(o.policy for o in self.placed)
        pending = Counter(o.policy for o in self.pending)
        return {
            p: (placed[p], pending[p]) for p in sorted(placed | pending, key=lambda p: (not p, p))
        }


def result(simulation: Simulation, progress: Callable[[int], None]) -> SimulationResult:
    """Run a simulation to its end. `progress` gets the number of pods so far after each."""
    return finished(played(simulation, progress))


def played(simulation: Simulation, progress: Callable[[int], None]) -> Work[SimulationResult]:
    """The same, in portions."""
    resources, outcomes = simulation.resources, list[Outcome]()
    numbers, preemptors = dict[str, int](), list[Placed]()
    courses = {resource: [resources.requested(resource)] for resource in resources.resources}
    arrived = {resource: list(course) for resource, course in courses.items()}
    pods = iter(simulation.pods)
    for outcome in simulation.portions():
        if outcome is None:
            yield
            continue
        pod = next(pods)
        numbers[outcome.pod] = len(outcomes)
        outcomes.append(outcome)
        if isinstance(outcome, Placed) and outcome.evictions:
            preemptors.append(outcome)
            for each in outcome.evictions:
                if (number := numbers.get(each.pod)) is None:
                    continue
                earlier = outcomes[number]
                assert isinstance(earlier, Placed), "it had a node"
                outcomes[number] = Evicted(earlier.pod, earlier.policy, earlier.node, outcome.pod)
        needed = pod.demand.amounts
        for resource, course in courses.items():
            course.append(
                resources.requested(resource) if isinstance(outcome, Placed) else course[-1]
            )
            so_far = arrived[resource]
            so_far.append(so_far[-1] + needed.get(resource, 0))
        progress(len(outcomes))
        yield
    allocation = {
        r: Allocation(resources.allocatable(r), course, arrived[r]) for r, course in courses.items()
    }
    return SimulationResult(len(simulation.names), outcomes, allocation, preemptors)


Kind = Literal["now pending", "now placed", "moved", "now evicted"]
KINDS: tuple[Kind, ...] = ("now pending", "now placed", "moved", "now evicted")


@dataclass(frozen=True, slots=True)
class OutcomeChange:
    """A pod with another outcome."""

    kind: Kind
    old: Outcome
    new: Outcome

    @property
    def pod(self) -> str:
        return self.new.pod


def changes(old: SimulationResult, new: SimulationResult) -> Sequence[OutcomeChange]:
    """The changes between two results of the same pods in the same order.

    A change of reasons or of the policy alone is not one.
    """
    pairs = zip(old.outcomes, new.outcomes, strict=True)
    return [OutcomeChange(kind, a, b) for a, b in pairs if (kind := _kind(a, b)) is not None]


def _kind(old: Outcome, new: Outcome) -> Kind | None:
    match old, new:
        case Placed(), Pending():
            return "now pending"
        case Pending() | Evicted(), Placed():
            return "now placed"
        case Placed(), Evicted():
            return "now evicted"
        case Placed(node=before), Placed(node=after) if before != after:
            return "moved"
        case _:
            return None

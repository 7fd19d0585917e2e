"""Result: what becomes of the pods of a simulation, and the document of it.

The terminal prints the document as JSON, and a server answers it. Fields are added to it, and keep
their meaning (docs/simulate.md, The JSON).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from engine.simulation.cycle import PodOutcome, Simulation
from engine.simulation.what_if import UNCHANGED, Changed, SimulatedDrain
from engine.work import Work, finished
from grammar.messages.texts import counted, named


class AllocatedResource(msgspec.Struct, frozen=True):
    """Allocated resource of the nodes: what pods request, cpu in thousandths, else in ones."""

    requested: int
    allocatable: int
    part: float


class PendingBecause(msgspec.Struct, frozen=True):
    """A reason of pending pods, and the fewest and the most nodes that it holds on for a pod."""

    reason: str
    pods: int
    fewestNodes: int
    mostNodes: int


@dataclass(frozen=True, slots=True)
class SimulationResult:
    """Result of a simulation: outcomes in the order of the pods, and node resources."""

    nodes: int
    outcomes: Sequence[PodOutcome]
    allocation: Mapping[str, AllocatedResource]

    @property
    def placed(self) -> Sequence[PodOutcome]:
        return [o for o in self.outcomes if o.node is not None]

    @property
    def pending(self) -> Sequence[PodOutcome]:
        return [o for o in self.outcomes if o.node is None]

    def pending_reasons(self) -> Sequence[PendingBecause]:
        """The reasons of pending pods, by the number of pods, then of nodes, largest first."""
        nodes: dict[str, list[int]] = {}
        for outcome in self.pending:
            for reason, count in outcome.reasons.items():
                nodes.setdefault(reason, []).append(count)
        found = (PendingBecause(r, len(on), min(on), max(on)) for r, on in nodes.items())
        return sorted(found, key=lambda b: (-b.pods, -b.mostNodes, b.reason))

    def policies(self) -> Sequence[SimulatedPolicy]:
        """The pods of each policy, those without a policy last."""
        placed = Counter(o.policy for o in self.placed)
        pending = Counter(o.policy for o in self.pending)
        names = sorted(placed | pending, key=lambda policy: (policy is None, policy))
        return [SimulatedPolicy(name, placed[name], pending[name]) for name in names]


def result(simulation: Simulation) -> SimulationResult:
    """Runs a simulation to its end."""
    return finished(played(simulation))


def played(simulation: Simulation) -> Work[SimulationResult]:
    """The same, in portions."""
    outcomes = dict[str, PodOutcome]()
    for outcome in simulation.portions():
        if outcome is not None:
            outcomes[outcome.pod] = outcome
        yield
    resources = simulation.resources
    allocation = {
        name: AllocatedResource(used := resources.requested(name), has, round(used / has, 6))
        for name in resources.resources
        if (has := resources.allocatable(name))
    }
    return SimulationResult(len(simulation.names), [*outcomes.values()], allocation)


# ---- the document


class SimulatedPolicy(msgspec.Struct, frozen=True):
    """The pods that a policy governs; null are the pods without a governing policy."""

    policy: str | None
    placed: int
    pending: int


class SimulationAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Answer of a simulation: where pods would go, and why some of them find no place.

    `summary` is one sentence. `nodes` is their number, with those that were `added`. `allocation`
    is by resource. `pods` are in the order in which they were scheduled. `drained` is null unless
    nodes were drained. `notes` say what the model leaves out. `replica` is null if a command worked
    it out by itself.
    """

    summary: str
    nodes: int
    placed: int
    pending: int
    because: Sequence[PendingBecause]
    allocation: Mapping[str, AllocatedResource]
    policies: Sequence[SimulatedPolicy]
    pods: Sequence[PodOutcome]
    added: Sequence[str] = ()
    drained: SimulatedDrain | None = None
    notes: Sequence[str] = ()
    replica: str | None = None


def answer_of(
    found: SimulationResult,
    changed: Changed = UNCHANGED,
    notes: Sequence[str] = (),
    replica: str | None = None,
) -> SimulationAnswer:
    """The document of a result; `changed` says what was changed for it."""
    moved = changed.moved
    pods = [
        msgspec.structs.replace(each, leaves=moved[each.pod]) if each.pod in moved else each
        for each in found.outcomes
    ]
    return SimulationAnswer(
        summary=summary(found, changed),
        nodes=found.nodes,
        placed=len(found.placed),
        pending=len(found.pending),
        because=found.pending_reasons(),
        allocation=found.allocation,
        policies=found.policies(),
        pods=pods,
        added=changed.added,
        drained=changed.drained,
        notes=notes,
        replica=replica,
    )


def summary(found: SimulationResult, changed: Changed = UNCHANGED) -> str:
    """One sentence: whether all pods find a place, and those that find none.

    With drained nodes it is about the pods that leave them, and about those that would be lost.
    """
    outcomes, where, drained = found.outcomes, "", changed.drained
    if drained is not None and changed.moved.keys() >= {each.pod for each in outcomes}:
        where = f" of {counted(len(drained.nodes), 'node')}"
    pods = counted(len(outcomes), "pod")
    without = [each.pod for each in outcomes if each.node is None]
    if len(outcomes) == 1:
        text = f"the pod{where} finds {'no' if without else 'a'} place"
    elif without:
        verb = "finds" if len(without) == 1 else "find"
        text = f"{len(without)} of {pods}{where} {verb} no place"
    else:
        text = f"all {pods}{where} find a place" if outcomes else f"no pod has to leave{where[3:]}"
    if without:
        text += f": {named(without, _SHOWN)}"
    lost = [p for p in drained.left if p.why == "no controller makes it anew"] if drained else ()
    if lost:
        text += f"; no controller makes {counted(len(lost), 'pod')} anew"
    return text


# The pods that a sentence names.
_SHOWN = 5


# ---- changes

Kind = Literal["now pending", "now placed", "moved"]
KINDS: tuple[Kind, ...] = ("now pending", "now placed", "moved")


@dataclass(frozen=True, slots=True)
class OutcomeChange:
    """A pod with another outcome."""

    kind: Kind
    old: PodOutcome
    new: PodOutcome


def changes(old: SimulationAnswer, new: SimulationAnswer) -> Sequence[OutcomeChange]:
    """The changes between two answers about the same pods in the same order.

    A change of reasons or of the policy alone is not one.
    """
    pairs = [(a, b) for a, b in zip(old.pods, new.pods, strict=True) if a.node != b.node]
    return [OutcomeChange(_kind(a, b), a, b) for a, b in pairs]


def _kind(old: PodOutcome, new: PodOutcome) -> Kind:
    if new.node is None:
        return "now pending"
    return "now placed" if old.node is None else "moved"

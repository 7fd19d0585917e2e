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


def played(simulation: Simulation, changed: Changed = UNCHANGED) -> Work[list[PodOutcome]]:
    """The outcomes of a simulation, in order, for which `changed` is what was changed."""
    outcomes = list[PodOutcome]()
    for outcome in simulation.portions():
        if outcome is not None:
            leaves = changed.moved.get(outcome.pod)
            outcomes.append(msgspec.structs.replace(outcome, leaves=leaves) if leaves else outcome)
        yield
    return outcomes


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
    it out by itself. `held` has the nodes of pods whose bindings wait for their gangs: they are
    there already.
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
    held: Mapping[str, str] = {}


def result(
    simulation: Simulation, changed: Changed = UNCHANGED, notes: Sequence[str] = ()
) -> SimulationAnswer:
    """The answer of a simulation, which runs to its end."""
    return answer_of(simulation, finished(played(simulation, changed)), changed, notes)


def answer_of(
    simulation: Simulation,
    pods: Sequence[PodOutcome],
    changed: Changed,
    notes: Sequence[str],
    replica: str | None = None,
) -> SimulationAnswer:
    """The answer of a simulation that has ended with these outcomes."""
    resources = simulation.resources
    placed = Counter(each.policy for each in pods if each.node is not None)
    pending = Counter(each.policy for each in pods if each.node is None)
    names = sorted(placed | pending, key=lambda policy: (policy is None, policy))
    return SimulationAnswer(
        summary=summary(pods, changed),
        nodes=len(simulation.names),
        placed=placed.total(),
        pending=pending.total(),
        because=_because(pods),
        allocation={
            name: AllocatedResource(used := resources.requested(name), has, round(used / has, 6))
            for name in resources.resources
            if (has := resources.allocatable(name))
        },
        policies=[SimulatedPolicy(name, placed[name], pending[name]) for name in names],
        pods=pods,
        added=changed.added,
        drained=changed.drained,
        notes=[*notes, *simulation.notes],
        replica=replica,
    )


def _because(pods: Sequence[PodOutcome]) -> Sequence[PendingBecause]:
    """The reasons of pending pods, by the number of pods, then of nodes, largest first."""
    nodes: dict[str, list[int]] = {}
    for outcome in pods:
        # A pod that is placed has none.
        for reason, count in outcome.reasons.items():
            nodes.setdefault(reason, []).append(count)
    found = (PendingBecause(r, len(on), min(on), max(on)) for r, on in nodes.items())
    return sorted(found, key=lambda b: (-b.pods, -b.mostNodes, b.reason))


def summary(outcomes: Sequence[PodOutcome], changed: Changed) -> str:
    """One sentence: whether all pods find a place, and those that find none.

    With drained nodes it is about the pods that leave them, and about those that would be lost.
    """
    where, drained = "", changed.drained
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

"""The document of a simulation: what the terminal prints as JSON and what a server answers.

Fields are added to it, and keep their meaning (docs/simulate.md, The JSON).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from engine.simulation.cycle import Evicted, Outcome, Pending, Placed
from engine.simulation.result import PendingBecause, SimulationResult
from engine.simulation.what_if import Changed, CoveringBudget, DrainedNodes, LeftPod
from grammar.messages.texts import counted, named


class AllocatedResource(msgspec.Struct, frozen=True):
    """What pods request of a resource of the nodes: cpu in thousandths, anything else in ones."""

    requested: int
    allocatable: int
    part: float


class SimulatedPolicy(msgspec.Struct, frozen=True):
    """The pods that a policy governs; null are the pods without a governing policy."""

    policy: str | None
    placed: int
    pending: int


class NearestNode(msgspec.Struct, frozen=True):
    """The node that has least against a pending pod, and all that it has."""

    node: str
    reasons: Sequence[str]


class PodOutcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """A pod, as `namespace/name`, and the node where it goes; null if it finds none.

    Of a pending pod `reasons` has the number of nodes by reason, and `nearest` the node with the
    fewest of them. `evictedFor` is the pod for which it was evicted again, and `leaves` the drained
    node that it was on. What does not apply is left out.
    """

    pod: str
    policy: str | None
    node: str | None
    reasons: Mapping[str, int] = msgspec.field(default_factory=dict)
    evictedFor: str | None = None
    leaves: str | None = None
    nearest: NearestNode | None = None


class SimulatedEviction(msgspec.Struct, frozen=True, rename={"preemptor": "for"}):
    """A pod that is evicted for another one, and the clause that needs it gone.

    `policy` and `clause` are null if kube-scheduler's plugins do.
    """

    pod: str
    node: str
    preemptor: str
    policy: str | None
    clause: str | None


class SimulatedDrain(msgspec.Struct, frozen=True):
    """Nodes that are drained, with the pods that are `left` where no other one comes elsewhere.

    `budgets` are those of the pods that go: how many evictions each allows now, and how many there
    would be. It is null while those of the cluster are not known.
    """

    nodes: Sequence[str]
    left: Sequence[LeftPod]
    budgets: Sequence[CoveringBudget] | None


class SimulationAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Where pods would go, one after the other, and why some of them find no place.

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
    evictions: Sequence[SimulatedEviction]
    added: Sequence[str] = ()
    drained: SimulatedDrain | None = None
    notes: Sequence[str] = ()
    replica: str | None = None


def answer_of(
    found: SimulationResult,
    changed: Changed | None = None,
    notes: Sequence[str] = (),
    replica: str | None = None,
) -> SimulationAnswer:
    """The document of a result; `changed` says what was changed for it."""
    drained = changed.drained if changed is not None else None
    return SimulationAnswer(
        summary=summary(found, drained),
        nodes=found.nodes,
        placed=len(found.placed),
        pending=len(found.pending),
        because=found.pending_reasons(),
        allocation={
            name: AllocatedResource(its.requested, its.allocatable, round(its.part, 6))
            for name, its in found.allocation.items()
        },
        policies=[
            SimulatedPolicy(policy or None, placed, pending)
            for policy, (placed, pending) in found.policies().items()
        ],
        pods=[_pod(outcome, drained) for outcome in found.outcomes],
        evictions=[
            SimulatedEviction(
                each.pod, placed.node, placed.pod, each.policy or None, each.clause or None
            )
            for placed, each in found.evictions
        ],
        added=changed.added if changed is not None else (),
        drained=None
        if drained is None
        else SimulatedDrain(drained.nodes, drained.left, drained.budgets),
        notes=notes,
        replica=replica,
    )


def summary(found: SimulationResult, drained: DrainedNodes | None = None) -> str:
    """One sentence: whether all pods find a place, and those that find none.

    With drained nodes it is about the pods that leave them, and about those that would be lost.
    """
    outcomes, where = found.outcomes, ""
    if drained is not None and drained.moved.keys() >= {each.pod for each in outcomes}:
        outcomes = [each for each in outcomes if each.pod in drained.moved]
        where = f" of {counted(len(drained.nodes), 'node')}"
    pods = counted(len(outcomes), "pod")
    without = [each.pod for each in outcomes if not isinstance(each, Placed)]
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


def _pod(outcome: Outcome, drained: DrainedNodes | None) -> PodOutcome:
    reasons, by, nearest = dict[str, int](), None, None
    if isinstance(outcome, Pending):
        reasons = dict(outcome.reasons)
        nearest = NearestNode(*outcome.nearest) if outcome.nearest is not None else None
    elif isinstance(outcome, Evicted):
        by = outcome.by
    return PodOutcome(
        outcome.pod,
        outcome.policy or None,
        outcome.node if isinstance(outcome, Placed) else None,
        reasons,
        by,
        drained.moved.get(outcome.pod) if drained is not None else None,
        nearest,
    )

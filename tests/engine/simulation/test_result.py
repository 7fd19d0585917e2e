"""Results of simulations: reasons, allocation, and changes under other policies."""

from __future__ import annotations

from engine.simulation.result import (
    PendingBecause,
    SimulatedPolicy,
    SimulationResult,
    answer_of,
    changes,
    result,
)
from tests.support.builders import node, pod
from tests.support.simulated import simulation

NODES = [node("a", cpu="3"), node("b", cpu="2")]
PODS = [pod("p-0", cpu="1"), pod("p-1", cpu="1"), pod("p-2", cpu="3"), pod("p-3", cpu="9")]
PACK = 'cluster policy pack { score "b" weight 1 { value node.name == "b" } }'
KEEP = 'policy keep { for pods where pod.name != "p-3" filter "a" { require node.name == "a" } }'


def ran(policies: str = "") -> SimulationResult:
    return result(simulation(NODES, PODS, policies))


def test_a_result_has_counts_and_sums() -> None:
    done = ran(KEEP)
    assert (done.nodes, len(done.placed), len(done.pending)) == (2, 2, 2)
    assert done.policies() == [SimulatedPolicy("keep", 2, 1), SimulatedPolicy(None, 0, 1)]
    assert done.pending_reasons() == [
        PendingBecause("Insufficient cpu", pods=2, fewestNodes=2, mostNodes=2)
    ]
    cpu = done.allocation["cpu"]
    assert (cpu.allocatable, cpu.requested, cpu.part) == (5000, 2000, 0.4)
    assert done.allocation["pods"].requested == 2


def test_reasons_are_ordered_by_their_pods() -> None:
    never = 'cluster policy x { filter "y" { require pod.name == "p-0" } }'
    assert ran(never).pending_reasons() == [
        PendingBecause("Insufficient cpu", pods=2, fewestNodes=2, mostNodes=2),
        PendingBecause("x: y", pods=1, fewestNodes=2, mostNodes=2),
    ]


def test_changes_are_pods_with_another_outcome() -> None:
    old, new = answer_of(ran()), answer_of(ran(PACK))
    kinds = {c.new.pod.partition("/")[2]: c.kind for c in changes(old, new)}
    assert kinds == {"p-0": "moved", "p-2": "now placed"}
    assert {c.kind for c in changes(new, old)} == {"moved", "now pending"}
    assert changes(old, old) == []

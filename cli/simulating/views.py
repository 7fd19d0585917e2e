"""How the result of a simulation is laid out: placed and pending, allocation, and policies."""

from __future__ import annotations

from collections.abc import Sequence

from cli.console import show, table
from cli.render import counted
from engine.simulation.difference import KINDS, Change, changes
from engine.simulation.outcome import Outcome, Placed
from engine.simulation.result import Allocation, Result

# Longer lists end with a count; all of them are in the JSON.
_LISTED = 12
_BYTES = {"memory", "ephemeral-storage"}
_UNITS = ("", "Ki", "Mi", "Gi", "Ti", "Pi")
NO_POLICY = "(none)"


def print_result(result: Result) -> None:
    """What became of the pods under one set of policies."""
    print(_head(result))
    if result.pending:
        print()
        _print_reasons(result)
    print()
    rows = table("resource", "allocated", "of", "part", right=("allocated", "of", "part"))
    for name, allocation in result.allocation.items():
        rows.add_row(name, *_allocated(name, allocation), _part(allocation))
    show(rows)
    print()
    _print_policies(result)


def print_difference(names: Sequence[str], old: Result, new: Result) -> None:
    """What the second set of policies does otherwise than the first."""
    both = (old, new)
    print(f"{counted(len(new.outcomes), 'pod')} on {counted(new.nodes, 'node')}\n")
    sums = table("", *names, right=tuple(names))
    sums.add_row("placed", *(str(len(r.placed)) for r in both))
    sums.add_row("pending", *(str(len(r.pending)) for r in both))
    for resource in old.allocation:
        sums.add_row(f"{resource} allocated", *(_part(r.allocation[resource]) for r in both))
    show(sums)
    for name, result in zip(names, both, strict=True):
        print(f"\nunder {name}")
        _print_policies(result)
        if result.pending:
            _print_reasons(result)
    print()
    _print_changes(names, changes(old, new))


def _print_policies(result: Result) -> None:
    policies = table("policy", "placed", "pending", right=("placed", "pending"))
    for policy, (placed, pending) in result.policies().items():
        policies.add_row(policy or NO_POLICY, str(placed), str(pending))
    show(policies)


def _print_changes(names: Sequence[str], found: Sequence[Change]) -> None:
    """Pods that are placed or pending now come before those that are only elsewhere."""
    if not found:
        print("no pod moves")
        return
    each = {kind: [c for c in found if c.kind == kind] for kind in KINDS}
    print(", ".join(f"{counted(len(some), 'pod')} {kind}" for kind, some in each.items()))
    print()
    ordered = [change for some in each.values() for change in some]
    rows = table("pod", "", *names)
    for change in ordered[:_LISTED]:
        rows.add_row(change.pod, change.kind, _where(change.old), _where(change.new))
    show(rows)
    if len(ordered) > _LISTED:
        print(f"and {len(ordered) - _LISTED} more; --json has them all")


def _print_reasons(result: Result) -> None:
    """A pod is in the row of each of its reasons."""
    rows = table("pending", "nodes", "because", right=("pending", "nodes"))
    found = result.because()
    for because in found[:_LISTED]:
        low, high = because.fewest, because.most
        nodes = str(low) if low == high else f"{low} to {high}"
        rows.add_row(str(because.pods), nodes, because.reason)
    show(rows)
    if len(found) > _LISTED:
        print(f"and {len(found) - _LISTED} more reasons; --json has them all")


def _head(result: Result) -> str:
    placed, pods = len(result.placed), counted(len(result.outcomes), "pod")
    nodes = counted(result.nodes, "node")
    return f"{placed} of {pods} placed on {nodes}, {len(result.pending)} pending"


def _where(outcome: Outcome) -> str:
    if isinstance(outcome, Placed):
        return outcome.node
    reason = next(iter(outcome.reasons), "")
    return f"pending: {reason}" if reason else "pending"


def _allocated(resource: str, allocation: Allocation) -> tuple[str, str]:
    both = allocation.requested, allocation.allocatable
    if resource == "cpu":
        return _thousandths(both[0]), _thousandths(both[1])
    if resource in _BYTES or resource.startswith("hugepages-"):
        return _bytes(both[0]), _bytes(both[1])
    return str(both[0]), str(both[1])


def _part(allocation: Allocation) -> str:
    return f"{100 * allocation.part:.1f}%"


def _thousandths(amount: int) -> str:
    return f"{amount / 1000:.1f}".removesuffix(".0")


def _bytes(amount: float) -> str:
    unit = 0
    while amount >= 1024 and unit < len(_UNITS) - 1:
        amount, unit = amount / 1024, unit + 1
    return f"{amount:.1f}".removesuffix(".0") + _UNITS[unit]

"""Layout: the result of a simulation as tables and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from cli.console import show, table
from engine.simulation.cycle import PodOutcome
from engine.simulation.result import (
    KINDS,
    OutcomeChange,
    SimulationAnswer,
    changes,
)
from engine.simulation.what_if import SimulatedDrain
from grammar.messages.texts import counted

# ---- tables

# Longer lists end with a count; the JSON has all rows.
_MAX_ROWS = 12
_BYTES = {"memory", "ephemeral-storage"}
_UNITS = ("", "Ki", "Mi", "Gi", "Ti", "Pi")
_NUMBERS = ("pending", "nodes", "placed", "allocated", "of", "part", "allows now")


def print_result(found: SimulationAnswer) -> None:
    """The placed and pending pods, the allocation, and the pods of each policy."""
    pods, nodes = counted(len(found.pods), "pod"), counted(found.nodes, "node")
    evicted = f", {counted(len(found.evictions), 'pod')} evicted" if found.evictions else ""
    changed = bool(found.added) or found.drained is not None
    if changed:
        print(f"{found.summary}{evicted}")
    else:
        print(f"{found.placed} of {pods} placed on {nodes}, {found.pending} pending{evicted}")
    if found.drained is not None:
        _print_drain(found, found.drained)
    if found.pending:
        print()
        _print_reasons(found)
    if found.pending and changed:
        missed = [(each.pod, each.nearest) for each in found.pods if each.nearest is not None]
        rows = [(pod, nearest.node, ", ".join(nearest.reasons)) for pod, nearest in missed]
        _print_rows(("pod", "nearest", "which has against it"), rows)
    because = "kube-scheduler's plugins"
    victims = [
        (it.pod, it.node, it.preemptor, f"{it.policy}: {it.clause}" if it.clause else because)
        for it in found.evictions
    ]
    _print_rows(("evicted", "from", "for", "because of"), victims)
    amounts = [
        (name, _amount(name, its.requested), _amount(name, its.allocatable), _percent(its.part))
        for name, its in found.allocation.items()
    ]
    _print_rows(("resource", "allocated", "of", "part"), amounts, len(amounts))
    print()
    _print_policies(found)


def print_difference(names: Sequence[str], *answers: SimulationAnswer) -> None:
    """Both answers side by side, then the pods that the second set of policies moves."""
    print(f"{counted(len(answers[1].pods), 'pod')} on {counted(answers[1].nodes, 'node')}\n")
    sums = table("", *names, right=tuple(names))
    sums.add_row("placed", *(str(each.placed) for each in answers))
    sums.add_row("pending", *(str(each.pending) for each in answers))
    if any(each.evictions for each in answers):
        sums.add_row("evicted", *(str(len(each.evictions)) for each in answers))
    for name in answers[0].allocation:
        parts = (_percent(each.allocation[name].part) for each in answers)
        sums.add_row(f"{name} allocated", *parts)
    show(sums)
    for name, answer in zip(names, answers, strict=True):
        print(f"\nunder {name}")
        _print_policies(answer)
        if answer.pending:
            _print_reasons(answer)
    print()
    _print_changes(names, changes(*answers))


def _print_rows(head: Sequence[str], rows: Sequence[Sequence[str]], most: int = _MAX_ROWS) -> None:
    """An empty line, and a table of at most so many rows; nothing without rows."""
    if not rows:
        return
    print()
    made = table(*head, right=_NUMBERS)
    for row in rows[:most]:
        made.add_row(*row)
    show(made)
    if len(rows) > most:
        print(f"and {len(rows) - most} more; --json has them all")


def _print_policies(found: SimulationAnswer) -> None:
    policies = table("policy", "placed", "pending", right=_NUMBERS)
    for its in found.policies:
        policies.add_row(its.policy or "(none)", str(its.placed), str(its.pending))
    show(policies)


def _print_reasons(found: SimulationAnswer) -> None:
    """A row for each reason; a pod counts in the rows of all its reasons."""
    rows = table("pending", "nodes", "because", right=_NUMBERS)
    for because in found.because[:_MAX_ROWS]:
        low, high = because.fewestNodes, because.mostNodes
        nodes = str(low) if low == high else f"{low} to {high}"
        rows.add_row(str(because.pods), nodes, because.reason)
    show(rows)
    if len(found.because) > _MAX_ROWS:
        print(f"and {len(found.because) - _MAX_ROWS} more reasons; --json has them all")


def _print_drain(found: SimulationAnswer, drained: SimulatedDrain) -> None:
    moved = [(it.pod, it.leaves, it.node or "(no place)") for it in found.pods if it.leaves]
    _print_rows(("pod", "leaves", "goes to"), moved)
    _print_rows(("left", "on", "because"), [(it.pod, it.node, it.why) for it in drained.left])
    budgets = [(its.budget, str(its.allowed), str(its.pods)) for its in drained.budgets or ()]
    _print_rows(("budget", "allows now", "would be evicted"), budgets)


def _print_changes(names: Sequence[str], found: Sequence[OutcomeChange]) -> None:
    if not found:
        print("no pod moves")
        return
    by_kind = {kind: [c for c in found if c.kind == kind] for kind in KINDS}
    shown = {k: some for k, some in by_kind.items() if some or k != "now evicted"}
    print(", ".join(f"{counted(len(some), 'pod')} {kind}" for kind, some in shown.items()))
    ordered = [change for some in by_kind.values() for change in some]
    rows = [(each.new.pod, each.kind, _where(each.old), _where(each.new)) for each in ordered]
    _print_rows(("pod", "", *names), rows)


def _where(outcome: PodOutcome) -> str:
    if outcome.node is not None:
        return outcome.node
    if outcome.evictedFor is not None:
        return f"evicted for {outcome.evictedFor}"
    reason = next(iter(outcome.reasons), "")
    return f"pending: {reason}" if reason else "pending"


def _percent(part: float) -> str:
    return f"{100 * part:.1f}%"


def _amount(resource: str, amount: float) -> str:
    """Cpu in cores, memory and storage with a binary unit, anything else as a number."""
    if resource == "cpu":
        return f"{amount / 1000:.1f}".removesuffix(".0")
    if resource not in _BYTES and not resource.startswith("hugepages-"):
        return str(amount)
    unit = 0
    while amount >= 1024 and unit < len(_UNITS) - 1:
        amount, unit = amount / 1024, unit + 1
    return f"{amount:.1f}".removesuffix(".0") + _UNITS[unit]


# ---- the JSON document, which docs/simulate.md describes


class SimulationDifference(msgspec.Struct, frozen=True):
    """The results under two sets of policies, and the pods that the second one moves."""

    old: SimulationAnswer
    new: SimulationAnswer
    changes: Sequence[Mapping[str, str | None]]


def difference(old: SimulationAnswer, new: SimulationAnswer) -> SimulationDifference:
    """The document of both answers."""
    moves = [
        {"pod": c.new.pod, "change": c.kind, "old": c.old.node, "new": c.new.node}
        for c in changes(old, new)
    ]
    return SimulationDifference(old, new, moves)

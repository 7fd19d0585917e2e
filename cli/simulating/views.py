"""How far a long run has come: a bar on a terminal, and nothing anywhere else."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TextIO, assert_never
from xml.sax.saxutils import escape

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from cli.console import show, table
from cli.render import counted
from engine.simulation.cycle import Outcome, Pending, Placed
from engine.simulation.result import KINDS, Allocation, Change, Result, changes

# A run that is over by then needs no bar.
_PATIENCE_SECONDS = 1.0
# It redraws itself a few times a second; more often it need not be told.
_STEP = 16


@contextmanager
def progress(
    stream: TextIO, text: str, total: int, clock: Callable[[], float] = time.monotonic
) -> Iterator[Callable[[int], None]]:
    """What is yielded is to be called with how many are done; the bar is gone in the end."""
    if not stream.isatty() or os.environ.get("TERM") == "dumb":
        yield lambda _: None
        return
    console = Console(file=stream, no_color=bool(os.environ.get("NO_COLOR")) or None)
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
    bar = Progress(*columns, TimeRemainingColumn(), console=console, transient=True)
    task = bar.add_task(text, total=total)
    from_then = clock() + _PATIENCE_SECONDS

    def heard(done: int) -> None:
        if done % _STEP == 0 and clock() >= from_then:
            bar.start()
            bar.update(task, completed=done)

    try:
        yield heard
    finally:
        bar.stop()


# ---- The result of a simulation, or of two, as one JSON document; docs/simulate.md describes it.


def result_json(result: Result) -> str:
    return _text(_result(result))


def difference_json(old: Result, new: Result) -> str:
    moves = [
        {"pod": c.pod, "change": c.kind, "old": _node(c.old), "new": _node(c.new)}
        for c in changes(old, new)
    ]
    return _text({"old": _result(old), "new": _result(new), "changes": moves})


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _result(result: Result) -> dict[str, object]:
    return {
        "nodes": result.nodes,
        "placed": len(result.placed),
        "pending": len(result.pending),
        "because": [
            {"reason": b.reason, "pods": b.pods, "fewestNodes": b.fewest, "mostNodes": b.most}
            for b in result.pending_reasons()
        ],
        "allocation": {name: _allocation(a) for name, a in result.allocation.items()},
        "policies": [
            {"policy": policy or None, "placed": placed, "pending": pending}
            for policy, (placed, pending) in result.policies().items()
        ],
        "pods": [_outcome(outcome) for outcome in result.outcomes],
    }


def _allocation(allocation: Allocation) -> dict[str, object]:
    return {
        "requested": allocation.requested,
        "allocatable": allocation.allocatable,
        "part": round(allocation.part, 6),
    }


def _outcome(outcome: Outcome) -> dict[str, object]:
    found: dict[str, object] = {
        "pod": outcome.pod,
        "policy": outcome.policy or None,
        "node": _node(outcome),
    }
    if isinstance(outcome, Pending):
        found["reasons"] = dict(outcome.reasons)
    return found


def _node(outcome: Outcome) -> str | None:
    match outcome:
        case Placed(node=node):
            return node
        case Pending():
            return None
        case _:
            assert_never(outcome)


# ---- What is allocated as pods come, as an SVG: a panel per resource, a line per policy set.

_WIDTH, _HEIGHT = 260, 180
_LEFT, _TOP, _GAP, _FOOT = 44, 44, 48, 72
# More points than a panel has pixels say nothing.
_POINTS = 200
_MOST_PANELS = 4
# Okabe and Ito's: told apart by whoever sees few colours, and by their dashes in print.
_LINES = (("#0072b2", ""), ("#d55e00", "6 3"))


def chart(results: Mapping[str, Result]) -> str:
    """`results` by the name of their policies, one or two, all of the same pods and nodes."""
    panels = _resources(list(results.values()))
    width = _LEFT + len(panels) * (_WIDTH + _GAP)
    height = _TOP + _HEIGHT + _FOOT
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">',
        "<title>Allocation as pods come</title>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    for number, resource in enumerate(panels):
        left = _LEFT + number * (_WIDTH + _GAP)
        lines += _panel(resource, left, [r.allocation[resource] for r in results.values()])
    lines += _legend(list(results))
    return "\n".join([*lines, "</svg>", ""])


def _resources(results: Sequence[Result]) -> list[str]:
    """cpu, memory, and what else the pods took some of; that there are pods, everybody knows."""
    kept = [
        resource
        for resource in results[0].allocation
        if resource in ("cpu", "memory")
        or (resource != "pods" and any(_grows(r.allocation[resource]) for r in results))
    ]
    return kept[:_MOST_PANELS]


def _grows(allocation: Allocation) -> bool:
    return allocation.course[-1] > allocation.course[0]


def _panel(resource: str, left: int, allocations: Sequence[Allocation]) -> Iterator[str]:
    pods = len(allocations[0].course) - 1
    bottom = _TOP + _HEIGHT
    yield f'<text x="{left}" y="{_TOP - 12}" font-weight="bold">{escape(resource)}</text>'
    for percent in (0, 25, 50, 75, 100):
        y = bottom - _HEIGHT * percent // 100
        yield f'<path d="M{left} {y}h{_WIDTH}" stroke="#dddddd"/>'
        yield _label(left - 6, y + 4, f"{percent}%", "end")
    yield _label(left, bottom + 18, "0", "start")
    yield _label(left + _WIDTH, bottom + 18, f"{pods} pods", "end")
    for allocation, (colour, dash) in zip(allocations, _LINES, strict=False):
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        points = " ".join(_points(allocation, left, bottom))
        style = f'fill="none" stroke="{colour}" stroke-width="2"{dashes}'
        yield f'<polyline points="{points}" {style}/>'


def _points(allocation: Allocation, left: int, bottom: int) -> Iterator[str]:
    """A node that was over-full from the start may lift the line past the top; it is cut there."""
    last = len(allocation.course) - 1
    steps = min(last, _POINTS)
    for step in range(steps + 1):
        at = last * step // max(steps, 1)
        part = min(allocation.course[at] / allocation.allocatable, 1.0)
        yield f"{left + _WIDTH * at / max(last, 1):.1f},{bottom - _HEIGHT * part:.1f}"


def _legend(names: Sequence[str]) -> Iterator[str]:
    for number, (name, (colour, dash)) in enumerate(zip(names, _LINES, strict=False)):
        y = _TOP + _HEIGHT + 42 + 18 * number
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        yield f'<path d="M{_LEFT} {y - 4}h28" stroke="{colour}" stroke-width="2"{dashes}/>'
        yield f'<text x="{_LEFT + 36}" y="{y}">{escape(name)}</text>'


def _label(x: int, y: int, text: str, anchor: str) -> str:
    return f'<text x="{x}" y="{y}" fill="#555555" text-anchor="{anchor}">{text}</text>'


# ---- How the result of a simulation is laid out: placed and pending, allocation, and policies.

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
    found = result.pending_reasons()
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

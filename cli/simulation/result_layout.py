"""Views: the result of a simulation as tables, as JSON and as a chart; a progress bar meanwhile."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TextIO
from xml.sax.saxutils import escape

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from cli.console import show, table
from cli.streams import beneath
from engine.simulation.cycle import Evicted, Outcome, Pending, Placed
from engine.simulation.result import KINDS, Allocation, OutcomeChange, SimulationResult, changes
from grammar.messages.texts import counted

# ---- tables

# Longer lists end with a count; the JSON has all rows.
_MAX_ROWS = 12
_BYTES = {"memory", "ephemeral-storage"}
_UNITS = ("", "Ki", "Mi", "Gi", "Ti", "Pi")
_NO_POLICY = "(none)"


def print_result(result: SimulationResult) -> None:
    """The placed and pending pods, the allocation, and the pods of each policy."""
    pods, nodes = counted(len(result.outcomes), "pod"), counted(result.nodes, "node")
    evicted = f", {counted(len(result.evictions), 'pod')} evicted" if result.evictions else ""
    pending = f"{len(result.pending)} pending{evicted}"
    print(f"{len(result.placed)} of {pods} placed on {nodes}, {pending}")
    if result.pending:
        print()
        _print_reasons(result)
    if result.evictions:
        print()
        _print_evictions(result)
    print()
    rows = table("resource", "allocated", "of", "part", right=("allocated", "of", "part"))
    for name, allocation in result.allocation.items():
        amounts = (allocation.requested, allocation.allocatable)
        rows.add_row(name, *(_amount(name, a) for a in amounts), _part(allocation))
    show(rows)
    print()
    _print_policies(result)


def print_difference(names: Sequence[str], old: SimulationResult, new: SimulationResult) -> None:
    """Both results side by side, then the pods that the second set of policies moves."""
    both = (old, new)
    print(f"{counted(len(new.outcomes), 'pod')} on {counted(new.nodes, 'node')}\n")
    sums = table("", *names, right=tuple(names))
    sums.add_row("placed", *(str(len(r.placed)) for r in both))
    sums.add_row("pending", *(str(len(r.pending)) for r in both))
    if any(r.evictions for r in both):
        sums.add_row("evicted", *(str(len(r.evictions)) for r in both))
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


def _print_policies(result: SimulationResult) -> None:
    policies = table("policy", "placed", "pending", right=("placed", "pending"))
    for policy, (placed, pending) in result.policies().items():
        policies.add_row(policy or _NO_POLICY, str(placed), str(pending))
    show(policies)


def _print_reasons(result: SimulationResult) -> None:
    """A row for each reason; a pod counts in the rows of all its reasons."""
    rows = table("pending", "nodes", "because", right=("pending", "nodes"))
    found = result.pending_reasons()
    for because in found[:_MAX_ROWS]:
        low, high = because.fewest, because.most
        nodes = str(low) if low == high else f"{low} to {high}"
        rows.add_row(str(because.pods), nodes, because.reason)
    show(rows)
    if len(found) > _MAX_ROWS:
        print(f"and {len(found) - _MAX_ROWS} more reasons; --json has them all")


def _print_evictions(result: SimulationResult) -> None:
    rows = table("evicted", "from", "for", "because of")
    for placed, each in result.evictions[:_MAX_ROWS]:
        because = f"{each.policy}: {each.clause}" if each.clause else "kube-scheduler's plugins"
        rows.add_row(each.pod, placed.node, placed.pod, because)
    show(rows)
    if (more := len(result.evictions) - _MAX_ROWS) > 0:
        print(f"and {more} more; --json has them all")


def _print_changes(names: Sequence[str], found: Sequence[OutcomeChange]) -> None:
    if not found:
        print("no pod moves")
        return
    by_kind = {kind: [c for c in found if c.kind == kind] for kind in KINDS}
    shown = {k: some for k, some in by_kind.items() if some or k != "now evicted"}
    print(", ".join(f"{counted(len(some), 'pod')} {kind}" for kind, some in shown.items()))
    print()
    ordered = [change for some in by_kind.values() for change in some]
    rows = table("pod", "", *names)
    for change in ordered[:_MAX_ROWS]:
        rows.add_row(change.pod, change.kind, _where(change.old), _where(change.new))
    show(rows)
    if len(ordered) > _MAX_ROWS:
        print(f"and {len(ordered) - _MAX_ROWS} more; --json has them all")


def _where(outcome: Outcome) -> str:
    if isinstance(outcome, Placed):
        return outcome.node
    if isinstance(outcome, Evicted):
        return f"evicted for {outcome.by}"
    reason = next(iter(outcome.reasons), "")
    return f"pending: {reason}" if reason else "pending"


def _part(allocation: Allocation) -> str:
    return f"{100 * allocation.part:.1f}%"


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


def result_json(result: SimulationResult) -> str:
    return json.dumps(_result(result), ensure_ascii=False)


def difference_json(old: SimulationResult, new: SimulationResult) -> str:
    moves = [
        {"pod": c.pod, "change": c.kind, "old": _node(c.old), "new": _node(c.new)}
        for c in changes(old, new)
    ]
    both = {"old": _result(old), "new": _result(new), "changes": moves}
    return json.dumps(both, ensure_ascii=False)


def _result(result: SimulationResult) -> dict[str, object]:
    return {
        "nodes": result.nodes,
        "placed": len(result.placed),
        "pending": len(result.pending),
        "because": [
            {"reason": b.reason, "pods": b.pods, "fewestNodes": b.fewest, "mostNodes": b.most}
            for b in result.pending_reasons()
        ],
        "allocation": {
            name: {
                "requested": allocation.requested,
                "allocatable": allocation.allocatable,
                "part": round(allocation.part, 6),
            }
            for name, allocation in result.allocation.items()
        },
        "policies": [
            {"policy": policy or None, "placed": placed, "pending": pending}
            for policy, (placed, pending) in result.policies().items()
        ],
        "pods": [_outcome(outcome) for outcome in result.outcomes],
        "evictions": [
            {
                "pod": each.pod,
                "node": placed.node,
                "for": placed.pod,
                "policy": each.policy or None,
                "clause": each.clause or None,
            }
            for placed, each in result.evictions
        ],
    }


def _outcome(outcome: Outcome) -> dict[str, object]:
    node, more = _node(outcome), dict[str, object]()
    if isinstance(outcome, Pending):
        more = {"reasons": dict(outcome.reasons)}
    elif isinstance(outcome, Evicted):
        more = {"evictedFor": outcome.by}
    return {"pod": outcome.pod, "policy": outcome.policy or None, "node": node, **more}


def _node(outcome: Outcome) -> str | None:
    return outcome.node if isinstance(outcome, Placed) else None


# ---- the chart: the allocation after each pod as an SVG

_WIDTH, _HEIGHT = 260, 180
_LEFT, _TOP, _GAP, _FOOT = 44, 44, 48, 72
# A panel has not many more pixels than this.
_POINTS = 200
_MAX_PANELS = 4
# Colours of Okabe and Ito for colour-blind readers, and dashes for print.
_LINES = (("#0072b2", ""), ("#d55e00", ' stroke-dasharray="6 3"'))


def chart(results: Mapping[str, SimulationResult]) -> str:
    """A panel per resource with a line per result.

    `results` are one or two, by the name of their policies, with the same pods and nodes.
    """
    every = list(results.values())
    lines = {name: [_parts(r.allocation[name]) for r in every] for name in _resources(every)}
    return line_chart(list(results), lines, f"{len(every[0].outcomes)} pods")


def line_chart(
    names: Sequence[str], lines: Mapping[str, Sequence[Sequence[float]]], end: str
) -> str:
    """A panel per resource, with a line of parts for each of the one or two names.

    `end` labels the right end of the horizontal axis, which begins at 0.
    """
    panels = list(lines.items())[:_MAX_PANELS]
    width = _LEFT + len(panels) * (_WIDTH + _GAP)
    height = _TOP + _HEIGHT + _FOOT
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">',
        "<title>Allocation as pods come</title>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    for number, (resource, some) in enumerate(panels):
        parts += _panel(resource, _LEFT + number * (_WIDTH + _GAP), some, end)
    parts += _legend(names)
    return "\n".join([*parts, "</svg>", ""])


def _parts(allocation: Allocation) -> Sequence[float]:
    return [amount / allocation.allocatable for amount in allocation.course]


def _resources(results: Sequence[SimulationResult]) -> list[str]:
    """cpu, memory, and the other resources that pods took; without the number of pods."""
    kept = []
    for name in results[0].allocation:
        courses = [result.allocation[name].course for result in results]
        grows = any(course[-1] > course[0] for course in courses)
        if name in ("cpu", "memory") or (name != "pods" and grows):
            kept.append(name)
    return kept


def _panel(resource: str, left: int, lines: Sequence[Sequence[float]], end: str) -> Iterator[str]:
    bottom = _TOP + _HEIGHT
    yield f'<text x="{left}" y="{_TOP - 12}" font-weight="bold">{escape(resource)}</text>'
    for percent in (0, 25, 50, 75, 100):
        y = bottom - _HEIGHT * percent // 100
        yield f'<path d="M{left} {y}h{_WIDTH}" stroke="#dddddd"/>'
        yield _label(left - 6, y + 4, f"{percent}%", "end")
    yield _label(left, bottom + 18, "0", "start")
    yield _label(left + _WIDTH, bottom + 18, end, "end")
    for line, (colour, dashes) in zip(lines, _LINES, strict=False):
        points = " ".join(_points(line, left, bottom))
        style = f'fill="none" stroke="{colour}" stroke-width="2"{dashes}'
        yield f'<polyline points="{points}" {style}/>'


def _points(line: Sequence[float], left: int, bottom: int) -> Iterator[str]:
    """The points of a line, which is cut at the top: nodes can be over-full from the start."""
    last = len(line) - 1
    steps = min(last, _POINTS)
    for step in range(steps + 1):
        at = last * step // max(steps, 1)
        part = min(line[at], 1.0)
        yield f"{left + _WIDTH * at / max(last, 1):.1f},{bottom - _HEIGHT * part:.1f}"


def _legend(names: Sequence[str]) -> Iterator[str]:
    for number, (name, (colour, dashes)) in enumerate(zip(names, _LINES, strict=False)):
        y = _TOP + _HEIGHT + 42 + 18 * number
        yield f'<path d="M{_LEFT} {y - 4}h28" stroke="{colour}" stroke-width="2"{dashes}/>'
        yield f'<text x="{_LEFT + 36}" y="{y}">{escape(name)}</text>'


def _label(x: int, y: int, text: str, anchor: str) -> str:
    return f'<text x="{x}" y="{y}" fill="#555555" text-anchor="{anchor}">{text}</text>'


# ---- the progress bar

# A shorter run shows no bar.
_DELAY_SECONDS = 1.0
# The bar redraws itself a few times a second, so it needs no update for every pod.
_EACH = 16


@contextmanager
def progress(
    stream: TextIO,
    text: str,
    total: int,
    clock: Callable[[], float] = time.monotonic,
    *,
    each: int = _EACH,
) -> Iterator[Callable[[int], None]]:
    """A bar on a terminal, which disappears at the end; nothing elsewhere.

    Yields a function to call with the number of pods done; multiples of `each` are shown.
    """
    if not stream.isatty() or os.environ.get("TERM") == "dumb":
        yield lambda _: None
        return
    console = Console(file=beneath(stream), no_color=bool(os.environ.get("NO_COLOR")) or None)
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
    bar = Progress(*columns, TimeRemainingColumn(), console=console, transient=True)
    task = bar.add_task(text, total=total)
    start = clock() + _DELAY_SECONDS

    def update(done: int) -> None:
        if done % each == 0 and clock() >= start:
            bar.start()
            bar.update(task, completed=done)

    try:
        yield update
    finally:
        bar.stop()

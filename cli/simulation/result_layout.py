"""Views: the result of a simulation as tables, as JSON and as a chart; a progress bar meanwhile."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TextIO
from xml.sax.saxutils import escape

import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from cli.console import show, table
from cli.streams import beneath
from engine.simulation.cycle import Evicted, Outcome, Placed
from engine.simulation.result import KINDS, Allocation, OutcomeChange, SimulationResult, changes
from engine.simulation.simulation_document import SimulatedDrain, SimulationAnswer, answer_of
from grammar.messages.texts import counted

# ---- tables

# Longer lists end with a count; the JSON has all rows.
_MAX_ROWS = 12
_BYTES = {"memory", "ephemeral-storage"}
_UNITS = ("", "Ki", "Mi", "Gi", "Ti", "Pi")
_NO_POLICY = "(none)"


def print_result(found: SimulationAnswer) -> None:
    """The placed and pending pods, the allocation, and the pods of each policy."""
    pods, nodes = counted(len(found.pods), "pod"), counted(found.nodes, "node")
    evicted = f", {counted(len(found.evictions), 'pod')} evicted" if found.evictions else ""
    if found.added or found.drained is not None:
        print(f"{found.summary}{evicted}")
    else:
        pending = f"{found.pending} pending{evicted}"
        print(f"{found.placed} of {pods} placed on {nodes}, {pending}")
    if found.drained is not None:
        _print_drain(found, found.drained)
    if found.pending:
        print()
        _print_reasons(found)
        _print_nearest(found)
    if found.evictions:
        print()
        _print_evictions(found)
    print()
    rows = table("resource", "allocated", "of", "part", right=("allocated", "of", "part"))
    for name, its in found.allocation.items():
        amounts = (its.requested, its.allocatable)
        rows.add_row(name, *(_amount(name, a) for a in amounts), f"{100 * its.part:.1f}%")
    show(rows)
    print()
    _print_policies(found)


def print_difference(names: Sequence[str], old: SimulationResult, new: SimulationResult) -> None:
    """Both results side by side, then the pods that the second set of policies moves."""
    both, answers = (old, new), (answer_of(old), answer_of(new))
    print(f"{counted(len(new.outcomes), 'pod')} on {counted(new.nodes, 'node')}\n")
    sums = table("", *names, right=tuple(names))
    sums.add_row("placed", *(str(each.placed) for each in answers))
    sums.add_row("pending", *(str(each.pending) for each in answers))
    if any(each.evictions for each in answers):
        sums.add_row("evicted", *(str(len(each.evictions)) for each in answers))
    for resource in old.allocation:
        sums.add_row(f"{resource} allocated", *(_part(r.allocation[resource]) for r in both))
    show(sums)
    for name, answer in zip(names, answers, strict=True):
        print(f"\nunder {name}")
        _print_policies(answer)
        if answer.pending:
            _print_reasons(answer)
    print()
    _print_changes(names, changes(old, new))


def _print_policies(found: SimulationAnswer) -> None:
    policies = table("policy", "placed", "pending", right=("placed", "pending"))
    for its in found.policies:
        policies.add_row(its.policy or _NO_POLICY, str(its.placed), str(its.pending))
    show(policies)


def _print_reasons(found: SimulationAnswer) -> None:
    """A row for each reason; a pod counts in the rows of all its reasons."""
    rows = table("pending", "nodes", "because", right=("pending", "nodes"))
    for because in found.because[:_MAX_ROWS]:
        low, high = because.fewestNodes, because.mostNodes
        nodes = str(low) if low == high else f"{low} to {high}"
        rows.add_row(str(because.pods), nodes, because.reason)
    show(rows)
    if len(found.because) > _MAX_ROWS:
        print(f"and {len(found.because) - _MAX_ROWS} more reasons; --json has them all")


def _print_nearest(found: SimulationAnswer) -> None:
    """The node that has least against each pending pod, where nodes were added or drained."""
    if not found.added and found.drained is None:
        return
    print()
    missed = [(each.pod, each.nearest) for each in found.pods if each.nearest is not None]
    rows = table("pod", "nearest", "which has against it")
    for pod, nearest in missed[:_MAX_ROWS]:
        rows.add_row(pod, nearest.node, ", ".join(nearest.reasons))
    show(rows)
    _print_more(len(missed))


def _print_drain(found: SimulationAnswer, drained: SimulatedDrain) -> None:
    moved = [each for each in found.pods if each.leaves is not None]
    if moved:
        print()
        rows = table("pod", "leaves", "goes to")
        for each in moved[:_MAX_ROWS]:
            rows.add_row(each.pod, each.leaves or "", each.node or "(no place)")
        show(rows)
        _print_more(len(moved))
    if drained.left:
        print()
        rows = table("left", "on", "because")
        for one in drained.left[:_MAX_ROWS]:
            rows.add_row(one.pod, one.node, one.why)
        show(rows)
        _print_more(len(drained.left))
    if drained.budgets:
        print()
        rows = table("budget", "allows now", "would be evicted", right=("allows now",))
        for its in drained.budgets[:_MAX_ROWS]:
            rows.add_row(its.budget, str(its.allowed), str(its.pods))
        show(rows)


def _print_evictions(found: SimulationAnswer) -> None:
    rows = table("evicted", "from", "for", "because of")
    for each in found.evictions[:_MAX_ROWS]:
        because = f"{each.policy}: {each.clause}" if each.clause else "kube-scheduler's plugins"
        rows.add_row(each.pod, each.node, each.preemptor, because)
    show(rows)
    _print_more(len(found.evictions))


def _print_more(number: int) -> None:
    if number > _MAX_ROWS:
        print(f"and {number - _MAX_ROWS} more; --json has them all")


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
    _print_more(len(ordered))


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


class SimulationDifference(msgspec.Struct, frozen=True):
    """The results under two sets of policies, and the pods that the second one moves."""

    old: SimulationAnswer
    new: SimulationAnswer
    changes: Sequence[Mapping[str, str | None]]


def difference(old: SimulationResult, new: SimulationResult) -> SimulationDifference:
    moves = [
        {"pod": c.pod, "change": c.kind, "old": _node(c.old), "new": _node(c.new)}
        for c in changes(old, new)
    ]
    return SimulationDifference(answer_of(old), answer_of(new), moves)


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
